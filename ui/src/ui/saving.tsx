/** Saving a draft: what refuses it, the buttons below it, and a change of somebody else. */
import { Save } from "lucide-react";
import { useState } from "react";
import type { Problem } from "../api/problem";
import { useMessages } from "../i18n/messages";
import { Button, ButtonLink } from "./controls";
import { messages } from "./messages";
import styles from "./saving.module.css";

/** The mutation of `useAct`. */
interface SaveAct {
  isPending: boolean;
  mutate: (nothing: undefined, options: { onError: (problem: Problem) => void }) => void;
}

/** `localErrors` is what is wrong without asking the gateway, by input. */
export function useSaving<D>(save: SaveAct, draft: D, localErrors: object) {
  const [tried, setTried] = useState(false);
  // A new object for each refusal.
  const [refused, setRefused] = useState<object | null>(null);
  const [refusedByGateway, setRefusedByGateway] = useState<{ draft: D; problem: Problem } | null>(null);
  const submit = () => {
    setTried(true);
    if (save.isPending) return;
    if (Object.keys(localErrors).length > 0) return setRefused({});
    setRefusedByGateway(null);
    save.mutate(undefined, {
      onError: (problem) => {
        setRefusedByGateway({ draft, problem });
        setRefused({});
      },
    });
  };
  return {
    submit,
    refused,
    /** Local errors are not shown before somebody has tried. */
    tried,
    isPending: save.isPending,
    /** The errors of the gateway for this draft only. */
    problem: refusedByGateway?.draft === draft ? refusedByGateway.problem : null,
    clearProblem: () => setRefusedByGateway(null),
  };
}

interface SaveBarProps {
  isNew: boolean;
  isPending: boolean;
  /** Where the link leads that saves nothing. */
  back: string;
  onDiscard?: () => void;
}

export function SaveBar({ isNew, isPending, back, onDiscard }: SaveBarProps) {
  const t = useMessages(messages);
  return (
    <div className={styles.actions}>
      <Button kind="primary" type="submit" aria-disabled={isPending}>
        <Save size={14} aria-hidden />
        {isPending ? t("saving") : isNew ? t("create") : t("save")}
      </Button>
      <ButtonLink href={back} onClick={onDiscard}>
        {t("discard")}
      </ButtonLink>
      <span className={styles.keys}>{t("saveKeys")}</span>
    </div>
  );
}

interface StaleNoteProps {
  title: string;
  text: string;
  /** The button that loads the other version. */
  load: string;
  disabled?: boolean;
  onLoad: () => void;
}

/** Somebody else has changed it since it was read. */
export function StaleNote({ title, text, load, disabled, onLoad }: StaleNoteProps) {
  return (
    <div className={styles.stale} role="alert">
      <strong>{title}</strong>
      <p>{text}</p>
      <Button disabled={disabled} onClick={onLoad}>
        {load}
      </Button>
    </div>
  );
}
