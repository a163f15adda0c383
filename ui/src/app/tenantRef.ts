/** How a thing of a tenant is named in requests and links. */
import { apiKey } from "../api/apiKey";
import { href, pathTo } from "./router";

/** An operator also names the tenant; without one it is that of the key. */
export interface TenantRef {
  id: string;
  tenant: string | null;
}

/** In place of a tenant. */
export const NO_TENANT = "=";

/** One without a tenant is named as such: the key of an operator may have a tenant of its own. */
export const tenantRef = (id: string, tenant: string | null | undefined): TenantRef => ({
  id,
  tenant: tenant ?? NO_TENANT,
});

/** `pattern` has an `:id`. Without an API key nothing has a tenant. */
export const tenantHref = (pattern: string, { id, tenant }: TenantRef): string =>
  href(pathTo(pattern, { id }), {
    tenant: tenant === NO_TENANT && apiKey.get() === "" ? null : tenant,
  });
