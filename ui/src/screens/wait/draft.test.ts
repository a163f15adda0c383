import { afterEach, expect, it } from "vitest";
import { apiKey } from "../../api/apiKey";
import { drafts } from "./draft";

afterEach(() => apiKey.set(""));

it("drafts are removed with the key", () => {
  apiKey.set("one");
  drafts.set({ "wait-1": { digest: null, value: "yes", texts: {} } });
  apiKey.set("one");
  expect(Object.keys(drafts.get())).toEqual(["wait-1"]);
  apiKey.set("another");
  expect(drafts.get()).toEqual({});
  expect(sessionStorage.getItem("pyoco.answers")).not.toContain("wait-1");
});
