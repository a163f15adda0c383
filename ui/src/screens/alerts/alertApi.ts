/** The endpoints of alerts, and links to them. */

import { api, type Schemas } from "../../api/client";
import { type TenantRef, tenantHref, tenantRef } from "../../app/tenantRef";

export type AlertRef = TenantRef;

export type Alert = Schemas["AlertView"];
export type Channel = Schemas["ChannelView"];
export type Occurrence = Schemas["OccurrenceView"];
export type Message = Schemas["MessageView"];
export type AlertRequest = Schemas["AlertRequest"];
export type CheckRequest = Schemas["AlertCheckRequest"];

export const alertRef = (alert: { alert_id: string; tenant_id?: string | null }): AlertRef =>
  tenantRef(alert.alert_id, alert.tenant_id);

/** `page` is a part of the path, such as `/edit`. */
export const alertHref = (ref: AlertRef, page = ""): string => tenantHref(`/alerts/:id${page}`, ref);

const named = ({ id, tenant }: AlertRef) => ({ path: { alert_id: id }, query: tenant ? { tenant } : {} });

export const readAlerts = (query: Record<string, string>, signal: AbortSignal) =>
  api.GET("/alerts", { params: { query: query as Record<string, never> }, signal });

export const readAlert = (ref: AlertRef, signal?: AbortSignal) =>
  api.GET("/alerts/{alert_id}", { params: named(ref), signal });

export const readHistory = (ref: AlertRef, signal: AbortSignal) =>
  api.GET("/alerts/{alert_id}/history", { params: named(ref), signal });

export const saveAlert = (id: string, body: AlertRequest) =>
  api.PUT("/alerts/{alert_id}", { params: { path: { alert_id: id } }, body });

export const checkAlert = (body: CheckRequest, signal?: AbortSignal) =>
  api.POST("/alerts/check", { body, signal });

export const deleteAlert = (ref: AlertRef) => api.DELETE("/alerts/{alert_id}", { params: named(ref) });

export const testAlert = (ref: AlertRef, channel: string | null) =>
  api.POST("/alerts/{alert_id}/test", { params: named(ref), body: { channel } });

export const muteAlert = (ref: AlertRef, forSec: number | null, note: string) =>
  api.POST("/alerts/{alert_id}/mute", { params: named(ref), body: { for_sec: forSec, note } });

export const unmuteAlert = (ref: AlertRef) => api.POST("/alerts/{alert_id}/unmute", { params: named(ref) });
