/** The entries of the navigation. */
import {
  Activity,
  BellRing,
  Bot,
  Boxes,
  Braces,
  CalendarClock,
  ChartLine,
  House,
  Inbox,
  type LucideIcon,
  MailX,
  Play,
  RadioTower,
  ScrollText,
  Server,
  Settings,
  Webhook,
  Workflow,
} from "lucide-react";
import { servesRequests } from "./pageConfig";
import type { ScreenName } from "./routes";

export { findScreen, KEYLESS, type Screen, type ScreenProps } from "./routes";

export interface NavEntry {
  name: ScreenName;
  path: string;
  icon: LucideIcon;
  /** The letter after `g` that goes there. */
  letter: string;
}

const ENTRIES: readonly NavEntry[] = [
  { name: "home", path: "/", icon: House, letter: "h" },
  { name: "runs", path: "/runs", icon: Activity, letter: "r" },
  { name: "flows", path: "/flows", icon: Workflow, letter: "f" },
  { name: "inbox", path: "/inbox", icon: Inbox, letter: "i" },
  { name: "requests", path: "/requests", icon: Bot, letter: "b" },
  { name: "schedules", path: "/schedules", icon: CalendarClock, letter: "c" },
  { name: "events", path: "/events", icon: RadioTower, letter: "e" },
  { name: "hooks", path: "/hooks", icon: Webhook, letter: "o" },
  { name: "alerts", path: "/alerts", icon: BellRing, letter: "l" },
  { name: "submit", path: "/submit", icon: Play, letter: "n" },
  { name: "workers", path: "/workers", icon: Server, letter: "w" },
  { name: "wheels", path: "/wheels", icon: Boxes, letter: "p" },
  { name: "dlq", path: "/dlq", icon: MailX, letter: "d" },
  { name: "metrics", path: "/metrics", icon: ChartLine, letter: "m" },
  { name: "audit", path: "/audit", icon: ScrollText, letter: "t" },
  { name: "api", path: "/api", icon: Braces, letter: "a" },
  { name: "settings", path: "/settings", icon: Settings, letter: "s" },
];

/** Requests only where the gateway serves a repository. */
export const NAVIGATION = ENTRIES.filter(({ name }) => name !== "requests" || servesRequests);
