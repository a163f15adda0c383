/** The draft of an alert: texts by the names of the fields of the API. */
import type { Draft, Wrong } from "../../ui/draftForm";
import type { Alert, AlertRequest, CheckRequest } from "../alerts/alertApi";

export const CONDITIONS = ["run_failed", "failures", "failure_rate", "queue_age", "no_worker"] as const;
export const KINDS = ["webhook", "slack", "google_chat", "mail"] as const;
export const LANGUAGES = ["en", "ja"] as const;
export type Condition = (typeof CONDITIONS)[number];
export type Kind = (typeof KINDS)[number];

/** The fields of each condition, the needed ones first. */
export const FIELDS: Record<Condition, readonly string[]> = {
  run_failed: ["flow_name"],
  failures: ["flow_name", "count", "window_sec"],
  failure_rate: ["flow_name", "percent", "min_runs", "window_sec"],
  queue_age: ["tag", "after_sec"],
  no_worker: ["tag", "after_sec"],
};
const TEXTS = ["flow_name", "tag"];
const OPTIONAL = ["window_sec", "min_runs"];
const CHANNEL_FIELDS = ["name", "kind", "url", "secret", "to"] as const;
export const MOST_CHANNELS = 5;

export const channelField = (index: number, field: string): string => `channels[${index}].${field}`;

export const newChannel = (index: number, kind: Kind = "webhook"): Draft => ({
  [channelField(index, "name")]: index === 0 ? "ops" : `channel-${index + 1}`,
  [channelField(index, "kind")]: kind,
  [channelField(index, "url")]: "",
  [channelField(index, "secret")]: "",
  [channelField(index, "to")]: "",
});

export const empty = (language: "en" | "ja"): Draft => ({
  alert_id: "",
  condition: "run_failed",
  flow_name: "",
  tag: "default",
  count: "3",
  percent: "50",
  min_runs: "10",
  window_sec: "3600",
  after_sec: "600",
  cool_down_sec: "300",
  send_resolved: "yes",
  language,
  note: "",
  channels: "1",
  ...newChannel(0),
});

export function draftOf(alert: Alert): Draft {
  const { rule } = alert;
  const draft: Draft = {
    ...empty(alert.language),
    alert_id: alert.alert_id,
    condition: rule.condition,
    cool_down_sec: String(alert.cool_down_sec),
    send_resolved: alert.send_resolved ? "yes" : "no",
    note: alert.note,
    channels: String(alert.channels.length),
  };
  for (const name of FIELDS[rule.condition]) {
    const value = rule[name as keyof typeof rule];
    if (value !== null) draft[name] = String(value);
  }
  alert.channels.forEach((channel, index) => {
    Object.assign(draft, newChannel(index, channel.kind));
    draft[channelField(index, "name")] = channel.name;
    draft[channelField(index, "to")] = channel.to.join(", ");
  });
  return draft;
}

export const channelCount = (draft: Draft): number => Number(draft.channels);

/** The draft without this channel; those after it move up. */
export function withoutChannel(draft: Draft, index: number): Draft {
  const patch: Draft = { channels: String(channelCount(draft) - 1) };
  for (let at = index; at < channelCount(draft) - 1; at++)
    for (const field of CHANNEL_FIELDS)
      patch[channelField(at, field)] = draft[channelField(at + 1, field)] ?? "";
  return patch;
}

/** The names of all inputs, for the errors of the gateway. */
export const inputNames = (draft: Draft): string[] => Object.keys(draft);

interface Texts {
  required: string;
  badNumber: string;
}

/** What is missing or no number, without the gateway. */
export function findings(draft: Draft, texts: Texts, isNew: boolean): Wrong {
  const wrong: Wrong = {};
  if (isNew && !draft.alert_id?.trim()) wrong.alert_id = texts.required;
  for (const name of [...FIELDS[draft.condition as Condition], "cool_down_sec"]) {
    const text = draft[name]?.trim() ?? "";
    if (text === "" && !OPTIONAL.includes(name)) wrong[name] = texts.required;
    else if (!TEXTS.includes(name) && Number.isNaN(Number(text))) wrong[name] = texts.badNumber;
  }
  return wrong;
}

const numberIn = (text: string | undefined): number | null => (text?.trim() ? Number(text) : null);

function ruleOf(draft: Draft): CheckRequest {
  const used = FIELDS[draft.condition as Condition];
  const text = (name: string) => (used.includes(name) ? (draft[name]?.trim() ?? null) : null);
  const number = (name: string) => (used.includes(name) ? numberIn(draft[name]) : null);
  return {
    condition: draft.condition as Condition,
    flow_name: text("flow_name"),
    tag: text("tag"),
    count: number("count"),
    percent: number("percent"),
    min_runs: number("min_runs"),
    window_sec: number("window_sec"),
    after_sec: number("after_sec"),
  };
}

/** The condition alone, or null while it is not complete. */
export function checkOf(draft: Draft): CheckRequest | null {
  const { cool_down_sec: _, ...wrong } = findings(draft, { required: "!", badNumber: "!" }, false);
  return Object.keys(wrong).length > 0 ? null : ruleOf(draft);
}

export function requestOf(draft: Draft, revision: number | null): AlertRequest {
  return {
    ...ruleOf(draft),
    revision,
    channels: Array.from({ length: channelCount(draft) }, (_, index) => {
      const value = (field: string) => draft[channelField(index, field)]?.trim() ?? "";
      const kind = value("kind") as Kind;
      return {
        name: value("name"),
        kind,
        url: kind === "mail" ? null : value("url") || null,
        secret: kind === "webhook" ? value("secret") || null : null,
        to:
          kind === "mail"
            ? value("to")
                .split(/[,\n]/)
                .map((each) => each.trim())
                .filter(Boolean)
            : [],
      };
    }),
    cool_down_sec: numberIn(draft.cool_down_sec) ?? 0,
    send_resolved: draft.send_resolved === "yes",
    language: draft.language as "en" | "ja",
    note: draft.note ?? "",
  };
}
