import { render } from "@testing-library/react";
import { expect, it } from "vitest";
import type { Alert } from "../alerts/alertApi";
import { Limit } from "./Limit";

const shown = (rule: object) =>
  render(<Limit alert={{ rule: { after_sec: null, ...rule } } as Alert} />).container.textContent;

it.each([
  [{ condition: "failures", count: 3, window_sec: 3_600 }, "Limit3 failures within 1h"],
  [{ condition: "queue_age", after_sec: 5_400 }, "Limitlonger than 1h 30m"],
  [{ condition: "run_failed" }, ""],
])("says when an alert fires, without zero parts: %o", (rule, text) => expect(shown(rule)).toBe(text));
