/** The actions of a run: cancel, answer, rerun. */
import { ChevronDown, CircleStop, MessageSquareReply, RotateCcw, Send, Undo2 } from "lucide-react";
import { useState } from "react";
import { href, pathTo } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Arming } from "../../ui/arming";
import { Button, ButtonLink } from "../../ui/controls";
import { Menu, MenuCheck, MenuItem, MenuLine } from "../../ui/menus";
import { isTerminal } from "../../ui/status";
import { messages } from "./messages";
import { openWaits, type Run } from "./run";
import type { RunControls } from "./runControls";

/** Of a run that failed because a question has no answer. */
const ASKED_AGAIN = new Set(["human_timeout", "human_withdrawn"]);

interface ActionsProps {
  run: Run;
  selected: string | null;
  controls: RunControls;
}

export function RunActions({ run, selected, controls }: ActionsProps) {
  const t = useMessages(messages);
  const [keepAnswers, setKeepAnswers] = useState(false);
  const hasAsked = run.open_waits !== undefined;
  const kept = keepAnswers ? { keep_answers: true } : {};
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
          <Button kind={wait ? "normal" : "primary"} onClick={() => controls.ask("signal")}>
            <Send size={14} aria-hidden />
            {t("sendSignal")}
          </Button>
        )}
        <Button kind="danger" disabled={run.status === "CANCELLING"} onClick={() => controls.ask("cancel")}>
          <CircleStop size={14} aria-hidden />
          {t("cancel")}
        </Button>
      </>
    );
  return (
    <Arming>
      {ASKED_AGAIN.has(run.reason ?? "") && (
        <Button kind="primary" disabled={controls.isBusy} onClick={controls.askAgain}>
          <Undo2 size={14} aria-hidden />
          {t("askAgain")}
        </Button>
      )}
      <Menu
        align="end"
        trigger={
          <Button disabled={controls.isBusy}>
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
        <MenuItem onSelect={() => controls.rerun({ mode: "start", ...kept })}>{t("rerunStart")}</MenuItem>
        <MenuItem disabled={!failed} onSelect={() => controls.rerun({ mode: "failed", ...kept })}>
          {t("rerunFailed")}
        </MenuItem>
        <MenuItem onSelect={() => controls.ask("params")}>{t("rerunParams")}</MenuItem>
        {selected !== null && (
          <MenuItem onSelect={() => controls.rerun({ mode: "task", task: selected, ...kept })}>
            {t("rerunTask", { task: selected })}
          </MenuItem>
        )}
      </Menu>
    </Arming>
  );
}
