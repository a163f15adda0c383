/** The endpoints of agent requests. */
import { api, body, type Schemas } from "../api/client";

export type AgentRequest = Schemas["RequestView"];
export type RequestDetail = Schemas["RequestDetail"];
export type AgentRun = Schemas["RequestRunView"];
export type RunStep = Schemas["RequestRunStep"];
export type Check = Schemas["DoctorCheck"];

const named = (id: string) => ({ path: { request_id: id } });

export const readRequests = (signal: AbortSignal) => api.GET("/api/v1/requests", { signal });

export const readRequest = (id: string, signal: AbortSignal) =>
  api.GET("/api/v1/requests/{request_id}", { params: named(id), signal });

export const createRequest = (fields: Partial<Schemas["NewRequestBody"]>) =>
  api.POST("/api/v1/requests", { body: body<Schemas["NewRequestBody"]>(fields) });

export const changeRequest = (id: string, fields: Schemas["RequestPatch"]) =>
  api.PATCH("/api/v1/requests/{request_id}", { params: named(id), body: fields });

export const deleteRequest = (id: string) =>
  api.DELETE("/api/v1/requests/{request_id}", { params: named(id) });

export const act = (id: string, action: "enqueue" | "stop" | "rerun") =>
  api.POST(`/api/v1/requests/{request_id}/${action}`, { params: named(id) });

/** The answer to the question of this wait, and to no other one. */
export const resume = (id: string, text: string, waitId: string | null) =>
  api.POST("/api/v1/requests/{request_id}/resume", {
    params: named(id),
    body: { answer: { text }, wait_id: waitId },
  });

export const readRuns = (id: string, signal: AbortSignal) =>
  api.GET("/api/v1/requests/{request_id}/runs", { params: named(id), signal });

export const readArtifact = (id: string, run: string, name: string, signal: AbortSignal) =>
  api.GET("/api/v1/requests/{request_id}/runs/{run_number}/artifacts/{name}", {
    params: { path: { request_id: id, run_number: run, name } },
    parseAs: "text",
    signal,
  });

export const examine = () => api.POST("/api/v1/doctor");
