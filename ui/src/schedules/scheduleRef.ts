/** How a schedule is named in requests and links. */
import { type TenantRef, tenantHref, tenantRef } from "../app/tenantRef";

export type ScheduleRef = TenantRef;

export const refOf = (schedule: { schedule_id: string; tenant_id?: string | null }): ScheduleRef =>
  tenantRef(schedule.schedule_id, schedule.tenant_id);

/** `page` is a part of the path, such as `/edit`. */
export const scheduleHref = (ref: ScheduleRef, page = ""): string => tenantHref(`/schedules/:id${page}`, ref);
