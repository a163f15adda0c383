import { describe, expect, it } from "vitest";
import openapi from "../../../openapi.json";
import { choicesOf, type Document, exampleOf, groupsOf, matching, objectsIn, typeName } from "./document";
import { curlOf, type Entered, missing, NOTHING, requestOf, urlOf } from "./request";

const document = openapi as Document;
const groups = groupsOf(document);
const find = (id: string) => {
  const found = groups.flatMap(({ operations }) => operations).find((each) => each.id === id);
  if (!found) throw new Error(`no operation ${id}`);
  return found;
};
const entered = (given: Partial<Entered>): Entered => ({ ...NOTHING, ...given });

describe("the operations of our document", () => {
  it("are all in a group with a description", () => {
    const paths: Record<string, object> = openapi.paths;
    const count = Object.values(paths).reduce((sum, methods) => sum + Object.keys(methods).length, 0);
    expect(groups.flatMap(({ operations }) => operations)).toHaveLength(count);
    expect(groups.filter(({ name, description }) => !name || !description)).toEqual([]);
  });

  it("have a text, answers and types that say something", () => {
    for (const operation of groups.flatMap(({ operations }) => operations)) {
      expect(operation.text, operation.id).not.toBe("");
      // 101 opens a WebSocket.
      expect(operation.answers.filter(({ status }) => /^(2|101)/.test(status))).not.toEqual([]);
      for (const { schema } of operation.parameters) expect(typeName(schema, document)).not.toBe("any");
    }
  });

  it("are found by words", () => {
    expect(
      matching(groups, "post RERUN").flatMap(({ operations }) => operations.map(({ id }) => id)),
    ).toContain("POST /runs/{run_id}/rerun");
    expect(matching(groups, "nonsense")).toEqual([]);
  });

  it("have examples that a form can begin with", () => {
    const { body, answers } = find("POST /runs");
    expect(exampleOf(body?.schema ?? true, document, true)).toEqual({ flow_name: "string" });
    expect(exampleOf(answers[0]?.content[0]?.schema ?? true, document)).toMatchObject({ run_id: "string" });
  });

  it("show the properties of a record once", () => {
    const [content] = find("GET /runs").answers[0]?.content ?? [];
    const titles = objectsIn(content?.schema ?? true, document).map(({ title }) => title);
    expect(titles).toContain("RunItem");
    expect(new Set(titles).size).toBe(titles.length);
  });

  it("offer the values of a choice", () => {
    const parameter = find("GET /overview").parameters.find(({ name }) => name === "window");
    expect(choicesOf(parameter?.schema ?? true, document)).toEqual(["1h", "24h", "7d"]);
  });
});

describe("a request", () => {
  const origin = "http://gateway";

  it("has its parameters where they belong", () => {
    const values = entered({ parameters: { "path:run_id": "a/b", "query:include": "records" } });
    expect(urlOf(find("GET /runs/{run_id}"), values, origin)).toBe(
      "http://gateway/runs/a%2Fb?include=records",
    );
    expect(missing(find("GET /runs/{run_id}"), NOTHING)).toEqual(["run_id"]);
    expect(missing(find("GET /runs/{run_id}"), values)).toEqual([]);
  });

  it("carries JSON and headers", async () => {
    const values = entered({
      parameters: { "header:Idempotency-Key": "k1" },
      body: '{"flow_name": "it\'s"}',
    });
    const request = requestOf(find("POST /runs"), values, origin);
    expect(request.method).toBe("POST");
    expect(request.headers.get("Idempotency-Key")).toBe("k1");
    expect(request.headers.get("Content-Type")).toBe("application/json");
    expect(await request.json()).toEqual({ flow_name: "it's" });
    expect(curlOf(find("POST /runs"), values, origin, "X-API-Key")).toBe(
      [
        "curl -X POST 'http://gateway/runs'",
        '-H "X-API-Key: $PYOCO_API_KEY"',
        "-H 'Content-Type: application/json'",
        "-H 'Idempotency-Key: k1'",
        String.raw`-d '{"flow_name": "it'\''s"}'`,
      ].join(" \\\n  "),
    );
  });

  it("carries a form with its file", () => {
    const file = new File(["flow: {}"], "flow.yaml");
    const values = entered({ fields: { flow_name: "etl" }, files: { workflow: file } });
    expect(requestOf(find("POST /runs/yaml"), values, origin).headers.get("Content-Type")).toMatch(
      /^multipart/,
    );
    expect(curlOf(find("POST /runs/yaml"), values, origin, null)).toBe(
      "curl -X POST 'http://gateway/runs/yaml' \\\n  -F 'flow_name=etl' \\\n  -F 'workflow=@flow.yaml'",
    );
  });
});
