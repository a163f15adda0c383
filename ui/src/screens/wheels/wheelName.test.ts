import { describe, expect, it } from "vitest";
import { byPackage, newestVersion, parseWheelName, versionsOf, type Wheel } from "./wheelName";

const wheel = (name: string, tags: string[] = []): Wheel =>
  ({ name, tags, nuid: name, size_bytes: 1, modified: 0, bucket: "b", sha256_hex: null }) as Wheel;

describe("the name of a wheel", () => {
  it.each([
    ["shop-1.2.0-py3-none-any.whl", { package: "shop", version: "1.2.0", platform: null }],
    ["My.Shop_x-2-py2.py3-none-any.whl", { package: "my-shop-x", version: "2", platform: null }],
    [
      "fast-0.1-1-cp311-cp311-linux_x86_64.whl",
      { package: "fast", version: "0.1", platform: "cp311-cp311-linux_x86_64" },
    ],
    ["old-1-py2-none-win32.whl", { package: "old", version: "1", platform: "py2-none-win32" }],
  ])("%s", (name, said) => expect(parseWheelName(name)).toEqual(said));

  it.each(["notes.txt", "shop-1.2.0.whl", "shop-1.2.0.tar.gz", "-1-py3-none-any.whl"])("is not %s", (name) =>
    expect(parseWheelName(name)).toBeNull(),
  );
});

const SHELF = [
  wheel("fast-0.1-cp311-cp311-linux_x86_64.whl", ["gpu"]),
  wheel("shop-1.9-py3-none-any.whl"),
  wheel("shop-1.10-py3-none-any.whl"),
];

describe("the registry by package", () => {
  it("has the newest first", () =>
    expect(byPackage(SHELF).map(({ name, wheels }) => [name, wheels.map((each) => each.name)])).toEqual([
      ["fast", ["fast-0.1-cp311-cp311-linux_x86_64.whl"]],
      ["shop", ["shop-1.10-py3-none-any.whl", "shop-1.9-py3-none-any.whl"]],
    ]));
  it("is searched by name and tag", () => {
    expect(byPackage(SHELF, " SHOP").map((each) => each.name)).toEqual(["shop"]);
    expect(byPackage(SHELF, "gpu").map((each) => each.name)).toEqual(["fast"]);
    expect(byPackage(SHELF, "nothing")).toEqual([]);
  });
  it("knows how many versions a package has", () =>
    expect(SHELF.map((each) => versionsOf(SHELF, each))).toEqual([1, 2, 2]));
  it("knows the newest version", () => {
    expect(newestVersion(SHELF, "shop")).toBe("1.10");
    expect(newestVersion(SHELF, "other")).toBeNull();
  });
});
