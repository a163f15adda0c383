import { afterEach, expect, it } from "vitest";
import { apiKey } from "../api/apiKey";
import { hookHref, hookRef, triggerHref } from "./triggerRef";

afterEach(() => apiKey.set(""));

it("links a cause to its hook or template", () => {
  expect(triggerHref("hook:orders")).toBe("#/hooks/orders");
  expect(triggerHref("template:monthly-close")).toBe("#/templates/monthly-close");
});

it("has no link for another cause", () => {
  expect(triggerHref("order.paid")).toBeNull();
  expect(triggerHref("hook:")).toBeNull();
  expect(triggerHref("other:orders")).toBeNull();
});

it("names the tenant of a hook to an operator", () => {
  apiKey.set("operator-of-acme");
  expect(triggerHref("hook:orders", "rival")).toBe("#/hooks/orders?tenant=rival");
  expect(hookHref(hookRef({ hook_id: "orders" }), "/edit")).toBe("#/hooks/orders/edit?tenant=%3D");
});
