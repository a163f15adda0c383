/** The workflow events of a month: counts, the retry queue, recent events, notifications. */

import { ChevronLeft, ChevronRight, CircleHelp, Copy, ListTree, RadioTower } from "lucide-react";
import { type FormEvent, useState } from "react";
import { isSendable } from "../../api/apiKey";
import { useRead } from "../../api/queries";
import { href, useQueryState } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { useStore } from "../../lib/store";
import { readSummary, type Summary } from "../../triggers/eventApi";
import { EVENTS, eventToken, wantsToken } from "../../triggers/eventToken";
import styles from "../../triggers/Triggers.module.css";
import { CommandLine } from "../../ui/CommandLine";
import { Button, ButtonLink, IconButton, Select } from "../../ui/controls";
import { EmptyState, Loading, ProblemBox } from "../../ui/feedback";
import { InputField } from "../../ui/fields";
import { Card, Page } from "../../ui/Page";
import { Panel } from "../run/Panel";
import { type Bar, Bars, Shares } from "./Charts";
import local from "./Events.module.css";
import { messages } from "./messages";
import { isMonth, monthName, monthOf, monthsAround, shifted } from "./month";
import { Notifications } from "./Notifications";
import { Recent } from "./Recent";
import { RetryQueue } from "./RetryQueue";
import { useEventWords } from "./words";

const EVERY_MS = 5_000;
const SEND = "pyoco-client events send --template monthly-close --key close-2026-11 --year 2026 --month 11";

export default function EventsScreen() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const ym = query.get("ym") ?? monthOf(new Date());
  const { data, error, isPending, refetch } = useRead(
    [EVENTS, "summary", ym],
    (signal) => readSummary(ym, signal),
    { every: EVERY_MS, keep: true },
  );
  return (
    <Page
      title={t("title")}
      note={data && t("count", { count: data.total })}
      actions={
        <>
          <MonthBar ym={ym} onChange={(next) => change({ ym: next })} />
          <ButtonLink href={href("/templates")}>
            <ListTree size={14} aria-hidden />
            {t("templates")}
          </ButtonLink>
        </>
      }
    >
      {wantsToken(error) ? (
        <TokenForm />
      ) : (
        <>
          {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
          {isPending && <Loading />}
          {data && !error && <Shown summary={data} />}
        </>
      )}
    </Page>
  );
}

function MonthBar({ ym, onChange }: { ym: string; onChange: (ym: string) => void }) {
  const t = useMessages(messages);
  const language = useLanguage();
  return (
    <span className={local.month}>
      <IconButton
        label={t("previousMonth")}
        icon={<ChevronLeft size={16} />}
        onClick={() => onChange(shifted(ym, -1))}
      />
      {/* An input of the type month has the language of the browser, not of this page. */}
      <Select
        aria-label={t("month")}
        value={isMonth(ym) ? ym : ""}
        onChange={({ target }) => target.value && onChange(target.value)}
      >
        {!isMonth(ym) && <option value="" />}
        {monthsAround(ym, monthOf(new Date())).map((each) => (
          <option key={each} value={each}>
            {monthName(each, language)}
          </option>
        ))}
      </Select>
      <IconButton
        label={t("nextMonth")}
        icon={<ChevronRight size={16} />}
        onClick={() => onChange(shifted(ym, 1))}
      />
    </span>
  );
}

/** Where the gateway asks for the token of workflow events. */
function TokenForm() {
  const t = useMessages(messages);
  const kept = useStore(eventToken);
  const [token, setToken] = useState("");
  const isWrong = !isSendable(token.trim());
  const use = (event: FormEvent) => {
    event.preventDefault();
    if (token.trim() && !isWrong) eventToken.set(token.trim());
  };
  return (
    <Card title={t("tokenTitle")} className={local.token}>
      <form className={styles.dialog} onSubmit={use}>
        <p>{t("tokenText")}</p>
        <InputField
          label={t("token")}
          error={isWrong ? t("tokenCharacters") : null}
          type="password"
          autoComplete="off"
          value={token}
          onChange={setToken}
        />
        <div className={styles.actions}>
          <Button kind="primary" type="submit">
            {t("tokenUse")}
          </Button>
          {kept && <Button onClick={() => eventToken.set("")}>{t("tokenForget")}</Button>}
        </div>
      </form>
    </Card>
  );
}

function Shown({ summary }: { summary: Summary }) {
  const t = useMessages(messages);
  return (
    <div className={styles.parts}>
      {summary.total === 0 ? (
        <EmptyState
          icon={RadioTower}
          title={t("emptyTitle", { month: summary.ym })}
          actions={<ButtonLink href={href("/templates")}>{t("templates")}</ButtonLink>}
        >
          <p>{t("emptyText")}</p>
          <CommandLine text={SEND} />
        </EmptyState>
      ) : (
        <Charts summary={summary} />
      )}
      <RetryQueue />
      {summary.total > 0 && <Recent summary={summary} />}
      <Notifications settings={summary.notification} />
    </div>
  );
}

const STATUSES = ["success", "skipped", "rejected", "failed", "unknown"] as const;
const DUPLICATES = ["true", "false", "unknown"] as const;

function Charts({ summary }: { summary: Summary }) {
  const t = useMessages(messages);
  const { reason, advice } = useEventWords();
  const statuses: Bar[] = STATUSES.map((name) => ({
    name,
    label: t(`status.${name}`),
    count: summary.by_status[name],
    tone: name,
  }));
  const classes = summary.by_reason_class.map(({ reason_class: name, count }) => ({
    name,
    label: reason(name),
    count,
  }));
  const codes = summary.by_reason_code.map(({ reason_code: name, count }) => ({ name, label: name, count }));
  const advices = summary.by_retry_advice.map(({ retry_advice: name, count }) => ({
    name,
    label: advice(name),
    count,
  }));
  const duplicates = DUPLICATES.map((name) => ({
    name,
    label: t(`duplicate.${name}`),
    count: summary.duplicate[name],
  }));
  const { ttl_days: days, max_receipts: max } = summary.receipt_retention;
  return (
    <div className={local.charts}>
      <Panel title={t("byStatus")} icon={RadioTower}>
        <Shares bars={statuses} />
        <Bars bars={statuses} label={t("byStatus")} />
      </Panel>
      <Panel title={t("byReason")} icon={CircleHelp}>
        {classes.length === 0 && <p className={styles.nothing}>{t("noReasons")}</p>}
        <Bars bars={classes} label={t("byReason")} />
        {classes.length > 0 && (
          <div className={styles.body}>
            <details>
              <summary>{t("byCode")}</summary>
              <Bars bars={codes} label={t("byCode")} />
            </details>
            <details>
              <summary>{t("byAdvice")}</summary>
              <Bars bars={advices} label={t("byAdvice")} />
            </details>
          </div>
        )}
      </Panel>
      <Panel title={t("duplicates")} icon={Copy}>
        <Bars bars={duplicates} label={t("duplicates")} />
        <p className={styles.nothing}>{t("retention", { days, max })}</p>
      </Panel>
    </div>
  );
}
