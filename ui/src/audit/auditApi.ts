/** Reading the audit log, and links to what its entries name. */
import { api, type Schemas } from "../api/client";
import { href, pathTo } from "../app/router";
import { refOf, scheduleHref } from "../schedules/scheduleRef";
import { hookHref, hookRef } from "../triggers/triggerRef";

export type Entry = Schemas["AuditEntryView"];

export const OUTCOMES = ["accepted", "refused", "failed"] as const;
export type Outcome = (typeof OUTCOMES)[number];

export interface AuditFilter {
  actor?: string;
  action?: string;
  target?: string;
  run_id?: string;
  outcome?: Outcome;
  since?: number;
}

export const readAudit = (
  filter: AuditFilter,
  { cursor, limit }: { cursor?: string | null; limit: number },
  signal: AbortSignal,
) => api.GET("/audit", { params: { query: { ...filter, limit, cursor: cursor ?? undefined } }, signal });

/** The page of the target; null: it has none, or is deleted. */
export function targetHref({ target: { kind, id }, tenant_id, action }: Entry): string | null {
  if (!id || action.endsWith(".delete")) return null;
  switch (kind) {
    case "run":
      return href(pathTo("/runs/:id", { id }));
    case "wait":
      return href(pathTo("/waits/:id", { id }));
    case "schedule":
      return scheduleHref(refOf({ schedule_id: id, tenant_id }));
    case "hook":
      return hookHref(hookRef({ hook_id: id, tenant_id }));
    case "template":
      return href(pathTo("/templates/:id", { id }));
    case "request":
      return href(pathTo("/requests/:id", { id }));
    case "dead_letter":
      return href("/dlq", { seq: id });
    case "worker":
      return href("/workers", { q: id });
    case "wheel":
      return href("/wheels", { view: "history", wheel: id });
    default:
      return null;
  }
}

const BEGINS_AS_UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-/;

/** A run or a wait by the beginning of its id, others as they are. */
export const shortId = (id: string): string => (BEGINS_AS_UUID.test(id) ? id.slice(0, 8) : id);
