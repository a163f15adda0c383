/** Links to hooks and templates, and how a hook is named in requests. */
import { href, pathTo } from "../app/router";
import { type TenantRef, tenantHref, tenantRef } from "../app/tenantRef";

export type HookRef = TenantRef;

export const hookRef = (hook: { hook_id: string; tenant_id?: string | null }): HookRef =>
  tenantRef(hook.hook_id, hook.tenant_id);

/** `page` is a part of the path, such as `/edit`. */
export const hookHref = (ref: HookRef, page = ""): string => tenantHref(`/hooks/:id${page}`, ref);

/** The page of what has started a run: `hook:<id>` or `template:<id>`; null: it has none. */
export function triggerHref(cause: string, tenant?: string | null): string | null {
  const [kind, id] = cause.split(/:(.*)/s);
  if (!id) return null;
  if (kind === "hook") return hookHref(hookRef({ hook_id: id, tenant_id: tenant }));
  return kind === "template" ? href(pathTo("/templates/:id", { id })) : null;
}
