import { afterEach, expect, it } from "vitest";
import { apiKey } from "../api/apiKey";
import { refOf, scheduleHref } from "./scheduleRef";

afterEach(() => apiKey.set(""));

it("names the absence of a tenant to a key that may have one", () => {
  const ref = refOf({ schedule_id: "nightly", tenant_id: null });
  expect(ref.tenant).toBe("=");
  apiKey.set("operator-of-acme");
  expect(scheduleHref(ref, "/edit")).toBe("#/schedules/nightly/edit?tenant=%3D");
});

it("leaves it out where there are no keys", () => {
  expect(scheduleHref(refOf({ schedule_id: "nightly" }))).toBe("#/schedules/nightly");
});

it("names the tenant", () => {
  const ref = refOf({ schedule_id: "nightly", tenant_id: "acme" });
  expect(scheduleHref(ref)).toBe("#/schedules/nightly?tenant=acme");
});
