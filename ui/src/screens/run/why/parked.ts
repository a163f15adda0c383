/**
 * What a run waits for, in the page's own words: its times are those of the rest of the page, and it counts no time
 * of its own. The gateway's texts are older by some seconds than the clocks beside them.
 */
import type { Schemas } from "../../../api/client";
import { currentLanguage } from "../../../i18n/language";
import { currentMessages, listText } from "../../../i18n/messages";
import { exactTime } from "../../../i18n/time";
import { messages } from "./messages";

type Finding = Schemas["FindingView"];
/** A run may wait for several of these at once. */
const PARKED: ReadonlySet<string> = new Set(["waiting_human", "sleeping", "waiting_signal", "waiting_event"]);

/** Null: the gateway's text says it. */
export function parkedText({ code, evidence }: Finding): string | null {
  const t = currentMessages(messages);
  const tasks = listText(tasksIn(evidence.waits));
  if (code === "scheduled") return atTime(evidence.start_at, (time) => t("parked.scheduled", { time }));
  if (!PARKED.has(code) || tasks === "") return null;
  const topics = listText(strings(evidence.topics));
  switch (code) {
    case "waiting_human":
      return t("parked.human", {
        tasks,
        message: typeof evidence.message === "string" ? evidence.message : "",
      });
    case "sleeping":
      return atTime(evidence.ends_at, (time) => t("parked.sleep", { tasks, time }));
    case "waiting_signal":
      return t("parked.signal", { tasks, topics });
    default:
      return t("parked.event", { tasks, topics });
  }
}

/** Everything that the run waits for; null: it is not parked. */
export function parkedTexts(findings: readonly Finding[]): string | null {
  const [first] = findings;
  const text = first && parkedText(first);
  if (!text) return null;
  const others = findings.slice(1).filter(({ code }) => PARKED.has(code));
  return [text, ...others.map(parkedText)].filter(Boolean).join("\n");
}

const atTime = (moment: unknown, text: (time: string) => string): string | null =>
  typeof moment === "number" ? text(exactTime(moment, currentLanguage())) : null;

const strings = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((each): each is string => typeof each === "string") : [];

const tasksIn = (waits: unknown): string[] =>
  Array.isArray(waits) ? [...new Set(strings(waits.map((each: { task?: unknown }) => each.task)))] : [];
