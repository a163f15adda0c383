/** The endpoints of workflow events, templates and actions. */
import { api, requestHeaders, type Schemas } from "../api/client";
import { rawJsonBody, readExactJson } from "../api/exactBodies";
import { Problem } from "../api/problem";
import { eventHeaders } from "./eventToken";

export type Template = Schemas["TemplateView"];
export type WorkflowAction = Schemas["WorkflowActionView"];
export type Summary = Schemas["EventSummary"];
export type RetryJob = Schemas["RetryJobView"];

// Templates and actions

export const readTemplates = (query: Record<string, string>, signal: AbortSignal) =>
  api.GET("/api/workflow-templates", { params: { query: query as Record<string, never> }, signal });

export const readTemplate = (id: string, signal: AbortSignal) =>
  api.GET("/api/workflow-templates/{template_id}", { params: { path: { template_id: id } }, signal });

export const saveTemplate = (body: Schemas["TemplateRequest"]) =>
  api.POST("/api/workflow-templates", { body });

export const deleteTemplate = (id: string) =>
  api.DELETE("/api/workflow-templates/{template_id}", { params: { path: { template_id: id } } });

export const testTemplate = (id: string, json: string) =>
  readExactJson<Schemas["TemplateTested"]>(
    api.POST("/api/workflow-templates/{template_id}/test", {
      params: { path: { template_id: id } },
      ...rawJsonBody<Schemas["WorkflowEventRequest"]>(json),
      parseAs: "text",
    }),
  );

export const readActions = (signal: AbortSignal) =>
  readExactJson<Schemas["WorkflowActionList"]>(api.GET("/api/workflow-actions", { signal, parseAs: "text" }));

export const saveAction = (key: string, json: string) =>
  api.PUT("/api/workflow-actions/{key}", {
    params: { path: { key } },
    ...rawJsonBody<Schemas["WorkflowActionRequest"]>(json),
  });

export const deleteAction = (key: string) =>
  api.DELETE("/api/workflow-actions/{key}", { params: { path: { key } } });

// Workflow events

export const readSummary = (ym: string, signal: AbortSignal) =>
  api.GET("/api/workflow-events/summary", {
    params: { query: { ym, recent_limit: 100 } },
    headers: eventHeaders(),
    signal,
  });

export const readRetryJobs = (signal: AbortSignal) =>
  api.GET("/api/workflow-events/retry-jobs", {
    params: { query: { limit: 100 } },
    headers: eventHeaders(),
    signal,
  });

export const drainRetryJobs = (body: Schemas["DrainRequest"]) =>
  api.POST("/api/workflow-events/retry-jobs/drain", { body, headers: eventHeaders() });

export const readNotification = (signal: AbortSignal) =>
  api.GET("/api/workflow-events/notification-settings", { headers: eventHeaders(), signal });

export const saveNotification = (url: string) =>
  api.POST("/api/workflow-events/notification-settings", {
    body: { webhook_url: url },
    headers: eventHeaders(),
  });

type Tested = Schemas["NotificationTested"];

/** A message that was not sent is an answer too: its status is that of Google Chat. */
export async function testNotification(): Promise<{ data: Tested }> {
  const headers = { ...requestHeaders(), ...eventHeaders() };
  const answer = await fetch("/api/workflow-events/notification-settings/test", { method: "POST", headers });
  const told = (await answer
    .clone()
    .json()
    .catch(() => null)) as Partial<Tested> | null;
  if (typeof told?.sent === "boolean") return { data: told as Tested };
  throw await Problem.of(answer);
}
