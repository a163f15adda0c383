import { describe, expect, it } from "vitest";
import type { Hook } from "../../triggers/hookApi";
import { changeJson, createJson, draftOf, EMPTY, onTop, wrongPair } from "./draft";

const HOOK = {
  hook_id: "orders",
  kind: "hmac",
  signature: {
    header: "X-Proof",
    algorithm: "sha512",
    encoding: "hex",
    prefix: "v0=",
    timestamp_header: "",
    signed_text: "",
  },
  flow_name: "import",
  workflow_yaml: null,
  params: { region: "emea" },
  tag: "default",
  tags: [],
  timeout_sec: null,
  map: { order: "/order/id", all: "" },
  idempotency: "header:X-Id",
  only_if: { "/action": "paid", "/live": true },
  overlap: "skip",
  note: "of the shop",
} as unknown as Hook;

describe("the form of a hook", () => {
  it("makes a request with what is needed", () => {
    const draft = { ...EMPTY, hook_id: " orders ", flow_name: "import", map: "order = /order/id" };
    expect(JSON.parse(createJson(draft))).toEqual({
      hook_id: "orders",
      kind: "token",
      signature: null,
      flow_name: "import",
      workflow_yaml: null,
      params: {},
      tag: null,
      tags: null,
      timeout_sec: null,
      map: { order: "/order/id" },
      idempotency: null,
      only_if: {},
      overlap: "allow",
      note: "",
    });
    expect(JSON.parse(createJson({ ...draft, secret: "given-by-me" })).secret).toBe("given-by-me");
  });

  it("sends the options of a signature only for the kinds that have them", () => {
    const draft = { ...EMPTY, header: "X-Proof", prefix: "v0=" };
    const signature = (kind: string) => JSON.parse(createJson({ ...draft, kind })).signature;
    expect(signature("hmac")).toEqual({ header: "X-Proof", prefix: "v0=" });
    expect(signature("token")).toEqual({ header: "X-Proof" });
    expect(signature("github")).toBeNull();
  });

  it("shows what is stored, and sends only what was changed", () => {
    const base = draftOf(HOOK);
    expect(base).toMatchObject({ only_if: "/action = paid\n/live = true", prefix: "v0=", secret: "" });
    expect(JSON.parse(changeJson(base, base, 4))).toEqual({ revision: 4 });
    expect(JSON.parse(changeJson({ ...base, only_if: '/live = "true"' }, base, 4))).toEqual({
      only_if: { "/live": "true" },
      revision: 4,
    });
  });

  it("keeps own changes on top of those of somebody else", () => {
    const base = draftOf(HOOK);
    const theirs = { ...base, note: "theirs", overlap: "reject" };
    expect(onTop({ ...base, note: "mine" }, base, theirs)).toEqual({ ...theirs, note: "mine" });
  });

  it("finds a line that is no pair", () => {
    expect(wrongPair({ ...EMPTY, map: "a = /b\n/c" }, "map")).toBe("/c");
    expect(wrongPair(EMPTY, "only_if")).toBeNull();
  });
});
