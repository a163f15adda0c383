/** How a schedule is named in requests and links. */
import { apiKey } from "../api/apiKey";
import { href, pathTo } from "../app/router";

/** An operator also names the tenant; without one it is that of the key. */
export interface ScheduleRef {
  id: string;
  tenant: string | null;
}

/** In place of a tenant. */
export const NO_TENANT = "=";

/** One without a tenant is named as such: the key of an operator may have a tenant of its own. */
export const refOf = (schedule: { schedule_id: string; tenant_id?: string | null }): ScheduleRef => ({
  id: schedule.schedule_id,
  tenant: schedule.tenant_id ?? NO_TENANT,
});

/** `page` is a part of the path, such as `/edit`. Without an API key nothing has a tenant. */
export const scheduleHref = ({ id, tenant }: ScheduleRef, page = ""): string =>
  href(pathTo(`/schedules/:id${page}`, { id }), {
    tenant: tenant === NO_TENANT && apiKey.get() === "" ? null : tenant,
  });
