import { expect, it } from "vitest";
import { Problem } from "../../api/problem";
import { formProblems } from "./upload";

const field = (name: string) => ({ field: name, message: `${name} is wrong` });

it("shows an error at its field", () => {
  const bad = new Problem("Not valid", "", 422, "ERR-PYOCO-0002", [field("tags")]);
  expect(formProblems(bad)).toEqual({ wheel: null, tags: "tags is wrong", other: null });
});

it("shows errors of the whole file at the file", () => {
  const old = new Problem("Not newer", "1.0 is there", 409, "ERR-PYOCO-0022");
  expect(formProblems(old)).toEqual({ wheel: "Not newer: 1.0 is there", tags: null, other: null });
});

it("shows other errors above the form", () => {
  const away = new Problem("NATS is away", "", 503, "ERR-PYOCO-0003");
  expect(formProblems(away)).toEqual({ wheel: null, tags: null, other: away });
  expect(formProblems(null)).toEqual({ wheel: null, tags: null, other: null });
});
