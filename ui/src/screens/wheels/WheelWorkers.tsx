/** The workers of one wheel: those that have it, and those that cannot install it. */
import { CircleAlert } from "lucide-react";
import { href } from "../../app/router";
import { listText, useMessages } from "../../i18n/messages";
import { UserText } from "../../ui/UserText";
import { messages } from "./messages";
import type { Refusal, WheelWorkers as Workers } from "./rollout";
import styles from "./Wheels.module.css";

export function WheelWorkers({ installed, refused, pending }: Workers) {
  const t = useMessages(messages);
  const incomplete = installed.filter(({ missing }) => missing.length > 0).length;
  if (installed.length + refused.length + pending.length === 0) return null;
  return (
    <details className={styles.workers}>
      <summary>
        {installed.length > 0 && <span>{t("installedOn", { count: installed.length })}</span>}
        {pending.length > 0 && <span>{t("pendingOn", { count: pending.length })}</span>}
        {incomplete > 0 && <Warning text={t("incompleteOn", { count: incomplete })} />}
        {refused.length > 0 && <Warning text={t("refusedOn", { count: refused.length })} />}
      </summary>
      <ul>
        {refused.map((refusal) => (
          <li key={refusal.worker} data-refused={refusal.worker}>
            <WorkerLink id={refusal.worker} /> <Why refusal={refusal} />
          </li>
        ))}
        {installed.map(({ worker, missing }) => (
          <li key={worker}>
            <WorkerLink id={worker} /> {t("hasIt")}
            {missing.length > 0 && <p className={styles.why}>{t("misses", { what: listText(missing) })}</p>}
          </li>
        ))}
        {pending.map((worker) => (
          <li key={worker}>
            <WorkerLink id={worker} /> {t("willHaveIt")}
          </li>
        ))}
      </ul>
    </details>
  );
}

function Warning({ text }: { text: string }) {
  return (
    <span className={styles.refused}>
      <CircleAlert size={12} aria-hidden />
      {text}
    </span>
  );
}

function WorkerLink({ id }: { id: string }) {
  return (
    <a href={href("/workers", { worker: id })}>
      <UserText text={id} />
    </a>
  );
}

function Why({ refusal: { needs, expected, has, reason } }: { refusal: Refusal }) {
  const t = useMessages(messages);
  return (
    <p className={styles.why}>
      {needs ? t(`needs.${needs}`, { expected, has }) : <UserText text={reason} />}
    </p>
  );
}
