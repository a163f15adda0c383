import { expect, it } from "vitest";
import { bindingDraft, bindingFields, EMPTY_BINDING, objectText } from "./flowBinding";

it("sends params as typed, and leaves defaults to the gateway", () => {
  const draft = { ...EMPTY_BINDING, flow_name: " etl ", params: '{"n": 9007199254740993}', tags: "a, b," };
  expect(objectText(bindingFields(draft))).toBe(
    '{"flow_name":"etl","workflow_yaml":null,"params":{"n": 9007199254740993},"tag":null,' +
      '"tags":["a","b"],"timeout_sec":null}',
  );
});

it("leaves a wrong number to the gateway, which says what is wrong with it", () => {
  expect(bindingFields({ ...EMPTY_BINDING, timeout_sec: "soon" }).timeout_sec).toBe('"soon"');
  expect(bindingFields({ ...EMPTY_BINDING, timeout_sec: "90" }).timeout_sec).toBe("90");
});

it("reads what is stored", () => {
  const stored = { flow_name: "etl", params: { day: 3 }, tag: "gpu", tags: ["a"], timeout_sec: 5 };
  expect(JSON.parse(objectText(bindingFields(bindingDraft(stored))))).toEqual({
    ...stored,
    workflow_yaml: null,
  });
});
