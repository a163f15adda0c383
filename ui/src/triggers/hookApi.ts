/** The endpoints of hooks and their deliveries. */
import { api, type Schemas } from "../api/client";
import { rawJsonBody, readExactJson } from "../api/exactBodies";
import type { HookRef } from "./triggerRef";

export type Hook = Schemas["HookView"];
export type DeliveryItem = Schemas["DeliveryItem"];
export type Delivery = Schemas["DeliveryView"];

const named = ({ id, tenant }: HookRef) => ({ path: { hook_id: id }, query: tenant ? { tenant } : {} });

const delivered = (ref: HookRef, delivery: number) => {
  const { path, query } = named(ref);
  return { path: { ...path, delivery_id: String(delivery) }, query };
};

export const readHooks = (query: Record<string, string>, signal: AbortSignal) =>
  api.GET("/hooks", { params: { query: query as Record<string, never> }, signal });

export const readHook = (ref: HookRef, signal?: AbortSignal) =>
  readExactJson<Hook>(api.GET("/hooks/{hook_id}", { params: named(ref), signal, parseAs: "text" }));

export const createHook = (json: string) => api.POST("/hooks", rawJsonBody<Schemas["HookRequest"]>(json));

export const changeHook = (ref: HookRef, json: string) =>
  api.PATCH("/hooks/{hook_id}", { params: named(ref), ...rawJsonBody<Schemas["HookPatch"]>(json) });

export const deleteHook = (ref: HookRef) => api.DELETE("/hooks/{hook_id}", { params: named(ref) });

export const rotateHook = (ref: HookRef, body: Schemas["RotateRequest"]) =>
  api.POST("/hooks/{hook_id}/rotate", { params: named(ref), body });

export const finishRotation = (ref: HookRef) =>
  api.POST("/hooks/{hook_id}/rotate/finish", { params: named(ref) });

export const testHook = (ref: HookRef, json: string) =>
  readExactJson<Schemas["TestedDelivery"]>(
    api.POST("/hooks/{hook_id}/test", {
      params: named(ref),
      ...rawJsonBody<Schemas["SampleDelivery"]>(json),
      parseAs: "text",
    }),
  );

export const readDeliveries = (ref: HookRef, query: Record<string, string>, signal: AbortSignal) => {
  const { path, query: tenant } = named(ref);
  return api.GET("/hooks/{hook_id}/deliveries", {
    params: { path, query: { ...tenant, ...query } as Record<string, never> },
    signal,
  });
};

export const readDelivery = (ref: HookRef, delivery: number, signal: AbortSignal) =>
  readExactJson<Delivery>(
    api.GET("/hooks/{hook_id}/deliveries/{delivery_id}", {
      params: delivered(ref, delivery),
      signal,
      parseAs: "text",
    }),
  );

export const redeliver = (ref: HookRef, delivery: number, newRun: boolean, key: string) =>
  api.POST("/hooks/{hook_id}/deliveries/{delivery_id}/redeliver", {
    params: { ...delivered(ref, delivery), header: { "Idempotency-Key": key } },
    body: { new_run: newRun },
  });
