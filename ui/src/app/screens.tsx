/** Every screen with its address. A screen is loaded when it is first opened. */
import { Activity, Boxes, House, Inbox, type LucideIcon, MailX, Play, Server, Settings } from "lucide-react";
import type { ComponentType } from "react";
import { match } from "./router";

export interface ScreenProps {
  /** The values of the address: `params.id` of `/runs/:id`. */
  params: Record<string, string>;
}
type ScreenComponent = ComponentType<ScreenProps>;
type Load = () => Promise<{ default: ScreenComponent }>;
export type ScreenName = "home" | "runs" | "inbox" | "workers" | "wheels" | "dlq" | "submit" | "settings";

export interface Screen {
  path: string;
  /** Which entry of the navigation it belongs to. */
  nav: ScreenName;
  load: Load;
}

const screen = (path: string, nav: ScreenName, load: Load): Screen => ({ path, nav, load });

export const SCREENS: readonly Screen[] = [
  screen("/", "home", () => import("../screens/home")),
  screen("/runs", "runs", () => import("../screens/runs")),
  screen("/runs/:id", "runs", () => import("../screens/run")),
  screen("/inbox", "inbox", () => import("../screens/inbox")),
  screen("/waits/:id", "inbox", () => import("../screens/wait")),
  screen("/workers", "workers", () => import("../screens/workers")),
  screen("/wheels", "wheels", () => import("../screens/wheels")),
  screen("/dlq", "dlq", () => import("../screens/dlq")),
  screen("/submit", "submit", () => import("../screens/submit")),
  screen("/settings", "settings", () => import("../screens/settings")),
];

export interface NavEntry {
  name: ScreenName;
  path: string;
  icon: LucideIcon;
  /** `g` and this letter go there. */
  letter: string;
}

export const NAVIGATION: readonly NavEntry[] = [
  { name: "home", path: "/", icon: House, letter: "h" },
  { name: "runs", path: "/runs", icon: Activity, letter: "r" },
  { name: "inbox", path: "/inbox", icon: Inbox, letter: "i" },
  { name: "submit", path: "/submit", icon: Play, letter: "n" },
  { name: "workers", path: "/workers", icon: Server, letter: "w" },
  { name: "wheels", path: "/wheels", icon: Boxes, letter: "p" },
  { name: "dlq", path: "/dlq", icon: MailX, letter: "d" },
  { name: "settings", path: "/settings", icon: Settings, letter: "s" },
];

export function findScreen(path: string): { screen: Screen; params: Record<string, string> } | null {
  for (const each of SCREENS) {
    const params = match(each.path, path);
    if (params) return { screen: each, params };
  }
  return null;
}
