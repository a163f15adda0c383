/** The actions of a run: cancel, answer, rerun. */
import { ChevronDown, CircleStop, MessageSquareReply, RotateCcw, Send, Undo2 } from "lucide-react";
import { useRef, useState } from "react";
import { api, body, type Schemas } from "../../api/client";
import { Attempt } from "../../api/idempotencyKey";
import { useAct } from "../../api/queries";
import { href, navigate, pathTo } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Arming } from "../../ui/arming";
import { Button, ButtonLink, Field, Input } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { ProblemBox } from "../../ui/feedback";
import { Menu, MenuCheck, MenuItem, MenuLine } from "../../ui/menus";
import { isTerminal } from "../../ui/status";
import { showToast } from "../../ui/toasts";
import { messages } from "./messages";
import { RerunDialog } from "./RerunDialog";
import styles from "./Run.module.css";
import { openWaits, type Run } from "./run";
import { SignalDialog } from "./SignalDialog";

/** Of a run that failed because a question has no answer. */
const ASKED_AGAIN = new Set(["human_timeout", "human_withdrawn"]);

interface ActionsProps {
  run: Run;
  selected: string | null;
  /** The run continues although it had ended. */
  onRevived: () => void;
}

export function RunActions({ run, selected, onRevived }: ActionsProps) {
  const t = useMessages(messages);
  const [asking, setAsking] = useState(false);
  const [signalling, setSignalling] = useState(false);
  const [editing, setEditing] = useState(false);
  const [keepAnswers, setKeepAnswers] = useState(false);
  const rerun = useRerun(run.run_id);
  const hasAsked = run.open_waits !== undefined;
  const kept = keepAnswers ? { keep_answers: true } : {};
  const path = { params: { path: { run_id: run.run_id } } };
  const retry = useAct(() => api.POST("/runs/{run_id}/retry", path), { onDone: onRevived });
  const [wait] = openWaits(run, "human");
  const signals = openWaits(run, "signal");
  const failed = Object.values(run.tasks).some((state) => state !== "SUCCEEDED") || run.status === "FAILED";
  if (!isTerminal(run.status))
    return (
      <>
        {wait && (
          <ButtonLink kind="primary" href={href(pathTo("/waits/:id", { id: wait.wait_id }))}>
            <MessageSquareReply size={14} aria-hidden />
            {t("answer")}
          </ButtonLink>
        )}
        {signals.length > 0 && (
          <Button kind={wait ? "normal" : "primary"} onClick={() => setSignalling(true)}>
            <Send size={14} aria-hidden />
            {t("sendSignal")}
          </Button>
        )}
        {signalling && <SignalDialog run={run} onClose={() => setSignalling(false)} />}
        <Button kind="danger" disabled={run.status === "CANCELLING"} onClick={() => setAsking(true)}>
          <CircleStop size={14} aria-hidden />
          {t("cancel")}
        </Button>
        {asking && <CancelDialog run={run} onClose={() => setAsking(false)} />}
      </>
    );
  return (
    <Arming>
      {ASKED_AGAIN.has(run.reason ?? "") && (
        <Button kind="primary" disabled={retry.isPending} onClick={() => retry.mutate()}>
          <Undo2 size={14} aria-hidden />
          {t("askAgain")}
        </Button>
      )}
      <Menu
        align="end"
        trigger={
          <Button disabled={rerun.isPending}>
            <RotateCcw size={14} aria-hidden />
            {t("rerun")}
            <ChevronDown size={13} aria-hidden />
          </Button>
        }
      >
        {hasAsked && (
          <>
            <MenuCheck checked={keepAnswers} onChange={() => setKeepAnswers(!keepAnswers)}>
              {t("keepAnswers")}
            </MenuCheck>
            <MenuLine />
          </>
        )}
        <MenuItem onSelect={() => rerun.mutate({ mode: "start", ...kept })}>{t("rerunStart")}</MenuItem>
        <MenuItem disabled={!failed} onSelect={() => rerun.mutate({ mode: "failed", ...kept })}>
          {t("rerunFailed")}
        </MenuItem>
        <MenuItem onSelect={() => setEditing(true)}>{t("rerunParams")}</MenuItem>
        {selected !== null && (
          <MenuItem onSelect={() => rerun.mutate({ mode: "task", task: selected, ...kept })}>
            {t("rerunTask", { task: selected })}
          </MenuItem>
        )}
      </Menu>
      {editing && <RerunDialog run={run} onClose={() => setEditing(false)} />}
    </Arming>
  );
}

/** Reruns a run, and opens the new one. */
export function useRerun(id: string) {
  const t = useMessages(messages);
  const attempt = useRef(new Attempt());
  return useAct(
    (how: Partial<Schemas["RerunRequest"]>) =>
      api.POST("/runs/{run_id}/rerun", {
        params: {
          path: { run_id: id },
          header: { "Idempotency-Key": attempt.current.keyFor(JSON.stringify([id, how])) },
        },
        body: body<Schemas["RerunRequest"]>(how),
      }),
    {
      refresh: [["reruns", id]],
      onDone: (answer) => {
        attempt.current.accepted();
        showToast({ tone: "good", title: t("rerunSubmitted") });
        navigate(href(pathTo("/runs/:id", { id: answer.run_id })));
      },
    },
  );
}

/** Reruns a run from its start with other params, which are sent as they were typed. */
export function useRerunWith(id: string) {
  const t = useMessages(messages);
  const attempt = useRef(new Attempt());
  return useAct(
    (params: string) =>
      api.POST("/runs/{run_id}/rerun", {
        params: {
          path: { run_id: id },
          header: { "Idempotency-Key": attempt.current.keyFor(JSON.stringify([id, params])) },
        },
        body: {} as Schemas["RerunRequest"],
        bodySerializer: () => `{"mode":"start","params":${params}}`,
      }),
    {
      quiet: true,
      refresh: [["reruns", id]],
      onDone: (answer) => {
        attempt.current.accepted();
        showToast({ tone: "good", title: t("rerunSubmitted") });
        navigate(href(pathTo("/runs/:id", { id: answer.run_id })));
      },
    },
  );
}

function CancelDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const t = useMessages(messages);
  const [reason, setReason] = useState("");
  const cancel = useAct(
    () =>
      api.POST("/runs/{run_id}/cancel", {
        params: { path: { run_id: run.run_id } },
        body: body<Schemas["CancelRequest"]>({ reason: reason.trim() || null }),
      }),
    { quiet: true, onDone: onClose },
  );
  return (
    <Dialog
      open
      onClose={onClose}
      title={t("cancelTitle", { flow: run.flow_name })}
      width={460}
      actions={
        <>
          <Button onClick={onClose}>{t("keepRunning")}</Button>
          <Button kind="danger" disabled={cancel.isPending} onClick={() => cancel.mutate()}>
            {t("cancel")}
          </Button>
        </>
      }
    >
      <form
        className={styles.dialog}
        onSubmit={(event) => {
          event.preventDefault();
          cancel.mutate();
        }}
      >
        {cancel.error && <ProblemBox problem={cancel.error} />}
        <p>{t("cancelText")}</p>
        <Field label={t("cancelReason")} hint={t("cancelReasonHint")}>
          {(wired) => <Input {...wired} value={reason} onChange={(event) => setReason(event.target.value)} />}
        </Field>
      </form>
    </Dialog>
  );
}
