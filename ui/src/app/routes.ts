/** All screens with their paths. A screen is loaded when it is first opened. */
import type { ComponentType } from "react";
import { match } from "./router";

export interface ScreenProps {
  /** The values of the path: `params.id` of `/runs/:id`. */
  params: Record<string, string>;
}
type ScreenComponent = ComponentType<ScreenProps>;
interface ScreenPart {
  default: ScreenComponent;
  /** Prefetches the data of the screen before it is rendered. */
  begin?: (query: URLSearchParams) => void;
}
type Load = () => Promise<ScreenPart>;
export type ScreenName =
  | "home"
  | "runs"
  | "flows"
  | "inbox"
  | "requests"
  | "schedules"
  | "events"
  | "hooks"
  | "alerts"
  | "workers"
  | "wheels"
  | "dlq"
  | "metrics"
  | "audit"
  | "submit"
  | "api"
  | "settings";

export interface Screen {
  path: string;
  /** The navigation entry it belongs to. */
  nav: ScreenName;
  load: Load;
}

/** Without a key they show nothing that is not public. */
export const KEYLESS: readonly ScreenName[] = ["api", "settings"];

const screen = (path: string, nav: ScreenName, load: Load): Screen => ({ path, nav, load });

export const SCREENS: readonly Screen[] = [
  screen("/", "home", () => import("../screens/home")),
  screen("/runs", "runs", () => import("../screens/runs")),
  screen("/runs/:id", "runs", () => import("../screens/run")),
  screen("/flows", "flows", () => import("../screens/flows")),
  screen("/flows/:name", "flows", () => import("../screens/flow")),
  screen("/inbox", "inbox", () => import("../screens/inbox")),
  screen("/waits/:id", "inbox", () => import("../screens/wait")),
  screen("/requests", "requests", () => import("../screens/requests")),
  screen("/requests/:id", "requests", () => import("../screens/request")),
  screen("/requests/:id/edit", "requests", () => import("../screens/requestForm")),
  screen("/new-request", "requests", () => import("../screens/requestForm")),
  screen("/doctor", "requests", () => import("../screens/doctor")),
  screen("/schedules", "schedules", () => import("../screens/schedules")),
  screen("/schedules/:id", "schedules", () => import("../screens/schedule")),
  screen("/schedules/:id/edit", "schedules", () => import("../screens/scheduleForm")),
  // Not below /schedules: a schedule may be called "new".
  screen("/new-schedule", "schedules", () => import("../screens/scheduleForm")),
  screen("/events", "events", () => import("../screens/workflowEvents")),
  screen("/templates", "events", () => import("../screens/templates")),
  screen("/templates/:id", "events", () => import("../screens/template")),
  screen("/hooks", "hooks", () => import("../screens/hooks")),
  screen("/hooks/:id", "hooks", () => import("../screens/hook")),
  screen("/hooks/:id/edit", "hooks", () => import("../screens/hookForm")),
  screen("/new-hook", "hooks", () => import("../screens/hookForm")),
  screen("/alerts", "alerts", () => import("../screens/alerts")),
  screen("/alerts/:id", "alerts", () => import("../screens/alert")),
  screen("/alerts/:id/edit", "alerts", () => import("../screens/alertForm")),
  screen("/new-alert", "alerts", () => import("../screens/alertForm")),
  screen("/workers", "workers", () => import("../screens/workers")),
  screen("/wheels", "wheels", () => import("../screens/wheels")),
  screen("/dlq", "dlq", () => import("../screens/dlq")),
  screen("/metrics", "metrics", () => import("../screens/metrics")),
  screen("/audit", "audit", () => import("../screens/audit")),
  screen("/compare", "runs", () => import("../screens/compare")),
  screen("/submit", "submit", () => import("../screens/submit")),
  screen("/api", "api", () => import("../screens/api")),
  screen("/settings", "settings", () => import("../screens/settings")),
];

export function findScreen(path: string): { screen: Screen; params: Record<string, string> } | null {
  for (const each of SCREENS) {
    const params = match(each.path, path);
    if (params) return { screen: each, params };
  }
  return null;
}
