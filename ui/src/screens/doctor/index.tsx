/** Whether this machine has what a request needs, and the command that fixes what is missing. */
import { CircleCheck, CircleX, RefreshCw } from "lucide-react";
import { messages as common } from "../../agentRequests/messages";
import styles from "../../agentRequests/Requests.module.css";
import { type Check, examine } from "../../agentRequests/requestApi";
import { useRead } from "../../api/queries";
import { href } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { CommandLine } from "../../ui/CommandLine";
import { Button, ButtonLink, joined } from "../../ui/controls";
import { Loading, ProblemBox } from "../../ui/feedback";
import { Page } from "../../ui/Page";
import { UserText } from "../../ui/UserText";
import { checkName, checkText, passedText } from "./checkTexts";
import { messages } from "./messages";

export default function DoctorScreen() {
  const t = useMessages(messages);
  const c = useMessages(common);
  const { data, error, isPending, isFetching, refetch } = useRead(["doctor"], examine);
  const checks = data?.checks ?? [];
  const bad = checks.filter(({ ok }) => !ok).length;
  return (
    <Page
      title={t("title")}
      note={data && (bad > 0 ? t("bad", { count: bad }) : t("good"))}
      actions={
        <>
          <ButtonLink href={href("/requests")}>{c("allRequests")}</ButtonLink>
          <Button kind="primary" disabled={isFetching} onClick={() => void refetch()}>
            <RefreshCw size={14} aria-hidden />
            {t("again")}
          </Button>
        </>
      }
    >
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      {isPending && <Loading />}
      {checks.length > 0 && (
        <ul className={styles.group}>
          {[...checks]
            .sort((a, b) => Number(a.ok) - Number(b.ok))
            .map((check) => (
              <CheckRow key={check.name} check={check} />
            ))}
        </ul>
      )}
    </Page>
  );
}

function CheckRow({ check }: { check: Check }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const text = checkText(check.name, language);
  const details = check.ok && text?.passed ? passedText(text.passed, check.details) : check.details;
  const Icon = check.ok ? CircleCheck : CircleX;
  return (
    <li className={styles.card} data-check={check.name} data-ok={check.ok}>
      <Icon
        size={17}
        className={joined(check.ok ? styles.good : styles.bad)}
        aria-label={t(check.ok ? "passed" : "failed")}
      />
      <div className={styles.what}>
        <p>
          <strong>{checkName(check.name, language)}</strong> {check.version && <code>{check.version}</code>}
        </p>
        {!check.ok && text && <p>{text.hint}</p>}
        {details && (
          <p className={styles.soft}>
            <UserText text={details} />
          </p>
        )}
        {!check.ok && check.fix && !text?.isWhole && <CommandLine text={check.fix} />}
      </div>
    </li>
  );
}
