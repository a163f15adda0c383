/** Links to hooks and templates, and how a hook is named in requests. */
import { apiKey } from "../api/apiKey";
import { href, pathTo } from "../app/router";
import { NO_TENANT } from "../schedules/scheduleRef";

/** An operator also names the tenant; without one it is that of the key. */
export interface HookRef {
  id: string;
  tenant: string | null;
}

export const hookRef = (hook: { hook_id: string; tenant_id?: string | null }): HookRef => ({
  id: hook.hook_id,
  tenant: hook.tenant_id ?? NO_TENANT,
});

/** `page` is a part of the path, such as `/edit`. Without an API key nothing has a tenant. */
export const hookHref = ({ id, tenant }: HookRef, page = ""): string =>
  href(pathTo(`/hooks/:id${page}`, { id }), {
    tenant: tenant === NO_TENANT && apiKey.get() === "" ? null : tenant,
  });

/** The page of what has started a run: `hook:<id>` or `template:<id>`; null: it has none. */
export function triggerHref(cause: string, tenant?: string | null): string | null {
  const [kind, id] = cause.split(/:(.*)/s);
  if (!id) return null;
  if (kind === "hook") return hookHref(hookRef({ hook_id: id, tenant_id: tenant }));
  return kind === "template" ? href(pathTo("/templates/:id", { id })) : null;
}
