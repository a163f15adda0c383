/** The status of a request as colour, shape and word, its priority, and the buttons that its status allows. */
import { GitPullRequestArrow, ListX, Play, RotateCcw, Square } from "lucide-react";
import { useMay } from "../api/access";
import { useAct } from "../api/queries";
import { useMessages } from "../i18n/messages";
import { Button, ButtonLink, joined } from "../ui/controls";
import { StatusIcon, toneClass } from "../ui/status";
import badge from "../ui/status.module.css";
import { showToast } from "../ui/toasts";
import { messages } from "./messages";
import styles from "./Requests.module.css";
import { type Action, actionOf, PHASES, STATUSES, type Status, webAddress } from "./request";
import { type AgentRequest, act } from "./requestApi";

/** The status of a run that looks the same. */
const LOOKS: Record<string, string> = {
  running: "RUNNING",
  needs_input: "WAITING_HUMAN",
  queued: "PENDING",
  failed: "FAILED",
  done: "COMPLETED",
};
const ICONS = { run: Play, dequeue: ListX, stop: Square, rerun: RotateCcw };
const CALLS = { run: "enqueue", dequeue: "stop", stop: "stop", rerun: "rerun" } as const;

export function useRequestWords() {
  const t = useMessages(messages);
  return {
    status: (word: string) => (isStatus(word) ? t(`status.${word}`) : word),
    phase: (word: string) => (isPhase(word) ? t(`phase.${word}`) : word),
  };
}

const isStatus = (word: string): word is Status => STATUSES.some((each) => each === word);
const isPhase = (word: string): word is (typeof PHASES)[number] => PHASES.some((each) => each === word);

export const requestTone = (status: string): string => toneClass(LOOKS[status] ?? "PENDING");

export function RequestStatus({ status }: { status: string }) {
  const words = useRequestWords();
  return (
    <span className={joined(badge.badge, requestTone(status))} data-status={status}>
      <StatusIcon status={LOOKS[status] ?? "PENDING"} />
      {words.status(status)}
    </span>
  );
}

export function Priority({ priority }: { priority: string }) {
  const t = useMessages(messages);
  return (
    <span className={styles.priority} data-priority={priority} title={t("priority")}>
      {priority}
    </span>
  );
}

/** What the status allows; disabled from the click until the answer is shown, and while a run is being stopped. */
export function ActionButton({ request, primary = false }: { request: AgentRequest; primary?: boolean }) {
  const t = useMessages(messages);
  const doing = useAct((action: Action) => act(request.id, CALLS[action]), { refresh: [["requests"]] });
  const action = actionOf(request);
  const may = useMay(`POST /api/v1/requests/{request_id}/${CALLS[action ?? "run"]}`);
  if (action === null || !may) return null;
  const isStopping = action === "stop" && request.stopping;
  const Icon = ICONS[action];
  return (
    <Button
      kind={primary && (action === "run" || action === "rerun") ? "primary" : "normal"}
      disabled={doing.isPending || isStopping}
      onClick={() =>
        doing.mutate(action, {
          onSuccess: () => showToast({ tone: "good", title: t(`said.${action}`, { title: request.title }) }),
        })
      }
    >
      <Icon size={13} aria-hidden />
      {t(isStopping ? "stopping" : action)}
    </Button>
  );
}

export function OpenPr({ url, primary = false }: { url: string | null; primary?: boolean }) {
  const t = useMessages(messages);
  const address = webAddress(url);
  if (address === null) return null;
  return (
    <ButtonLink
      kind={primary ? "primary" : "normal"}
      href={address}
      target="_blank"
      rel="noopener noreferrer"
    >
      <GitPullRequestArrow size={14} aria-hidden />
      {t("openPr")}
    </ButtonLink>
  );
}
