import { describe, expect, it } from "vitest";
import type { Alert } from "../alerts/alertApi";
import { checkOf, draftOf, empty, findings, newChannel, requestOf, withoutChannel } from "./draft";

const TEXTS = { required: "required", badNumber: "number" };
const filled = {
  ...empty("en"),
  alert_id: "orders",
  flow_name: "orders",
  "channels[0].url": "https://x.example",
};

describe("the draft of an alert", () => {
  it("sends only the fields of its condition", () => {
    const request = requestOf({ ...filled, condition: "queue_age" }, null);
    expect(request).toMatchObject({
      condition: "queue_age",
      flow_name: null,
      tag: "default",
      after_sec: 600,
    });
    expect(request.count).toBeNull();
  });

  it("names what is missing or is no number", () => {
    expect(findings(empty("en"), TEXTS, true)).toEqual({ alert_id: "required", flow_name: "required" });
    const wrong = findings({ ...filled, condition: "failures", count: "many", window_sec: "" }, TEXTS, true);
    expect(wrong).toEqual({ count: "number" });
  });

  it("is checked only when its condition is complete", () => {
    expect(checkOf(empty("en"))).toBeNull();
    expect(checkOf(filled)).toMatchObject({ flow_name: "orders", tag: null });
  });

  it("keeps a stored URL when it is left empty", () => {
    const stored = {
      alert_id: "orders",
      rule: { condition: "failures", flow_name: "orders", count: 5, window_sec: 60 },
      channels: [
        { name: "team", kind: "slack", to: [], host: "hooks.slack.com", fingerprint: "ab", signed: false },
      ],
      cool_down_sec: 0,
      send_resolved: false,
      language: "ja",
      note: "",
    } as unknown as Alert;
    const request = requestOf(draftOf(stored), 3);
    expect(request).toMatchObject({ revision: 3, count: 5, send_resolved: false, language: "ja" });
    expect(request.channels).toEqual([{ name: "team", kind: "slack", url: null, secret: null, to: [] }]);
  });

  it("moves the channels after a removed one up", () => {
    const two = {
      ...filled,
      channels: "2",
      ...newChannel(1, "mail"),
      "channels[1].to": "a@example.com, b@example.com",
    };
    const request = requestOf({ ...two, ...withoutChannel(two, 0) }, null);
    expect(request.channels).toEqual([
      { name: "channel-2", kind: "mail", url: null, secret: null, to: ["a@example.com", "b@example.com"] },
    ]);
  });
});
