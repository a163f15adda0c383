/** The screen of one alert: its rule, its channels, and when it has fired. */

import { BellRing, History } from "lucide-react";
import { useRead } from "../../api/queries";
import { href, pathTo, usePlace } from "../../app/router";
import type { ScreenProps } from "../../app/screens";
import { useMessages } from "../../i18n/messages";
import { interval } from "../../i18n/time";
import { messages as words } from "../../triggers/messages";
import styles from "../../triggers/Triggers.module.css";
import { Fact, FactList } from "../../ui/FactList";
import { Loading, ProblemBox } from "../../ui/feedback";
import { Page } from "../../ui/Page";
import { LoadingPage, NotFoundPage } from "../../ui/pageStates";
import { TableHead } from "../../ui/TableHead";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import {
  type Alert,
  alertRef,
  type Channel,
  type Message,
  type Occurrence,
  readAlert,
  readHistory,
} from "../alerts/alertApi";
import { messages as common } from "../alerts/messages";
import { AlertState, MessageState } from "../alerts/parts";
import { Panel } from "../run/Panel";
import { AlertActions } from "./AlertActions";
import { Limit } from "./Limit";
import { messages } from "./messages";

const EVERY_MS = 5_000;

export default function Screen({ params }: ScreenProps) {
  const id = params.id ?? "";
  const tenant = usePlace().query.get("tenant");
  return <AlertScreen key={`${tenant} ${id}`} id={id} tenant={tenant} />;
}

function AlertScreen({ id, tenant }: { id: string; tenant: string | null }) {
  const t = useMessages(messages);
  const { data, error, refetch } = useRead(
    ["alert", id, tenant],
    (signal) => readAlert({ id, tenant }, signal),
    { every: EVERY_MS },
  );
  if (error?.status === 404)
    return (
      <NotFoundPage
        title={t("title")}
        heading={t("notFound")}
        list={{ path: "/alerts", label: t("allAlerts") }}
      >
        {t("notFoundText")}
      </NotFoundPage>
    );
  if (!data) return <LoadingPage title={id} problem={error} onRetry={refetch} />;
  return (
    <Page title={data.alert_id} actions={<AlertActions alert={data} />}>
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      <div className={styles.parts}>
        {data.mute && <Muted mute={data.mute} />}
        <AlertFacts alert={data} />
        <Channels channels={data.channels} />
        <AlertHistory alert={data} />
      </div>
    </Page>
  );
}

function Muted({ mute }: { mute: NonNullable<Alert["mute"]> }) {
  const t = useMessages(messages);
  return (
    <div className={styles.note}>
      {mute.until === null ? (
        t("mutedForGood")
      ) : (
        <>
          {t("mutedUntil")} <Ago at={mute.until} />
        </>
      )}
      {mute.note && (
        <p>
          <UserText text={mute.note} />
        </p>
      )}
    </div>
  );
}

function AlertFacts({ alert }: { alert: Alert }) {
  const t = useMessages(messages);
  const w = useMessages(words);
  const c = useMessages(common);
  const { rule } = alert;
  return (
    <FactList>
      <Fact name={t("state")}>
        <span>
          <AlertState alert={alert} />
        </span>
      </Fact>
      <Fact name={t("condition")}>{c(`condition.${rule.condition}`)}</Fact>
      {rule.flow_name !== null && (
        <Fact name={w("flow")}>
          {rule.flow_name.includes("*") ? (
            <code>{rule.flow_name}</code>
          ) : (
            <a href={href("/runs", { flow: rule.flow_name })}>
              <UserText text={rule.flow_name} />
            </a>
          )}
        </Fact>
      )}
      {rule.tag !== null && (
        <Fact name={w("tag")}>
          <a href={href("/runs", { tag: rule.tag })}>
            <UserText text={rule.tag} />
          </a>
        </Fact>
      )}
      <Limit alert={alert} />
      <Fact name={t("coolDown")}>
        {alert.cool_down_sec > 0 ? interval(alert.cool_down_sec) : t("noCoolDown")}
      </Fact>
      {rule.condition !== "run_failed" && (
        <Fact name={t("resolvedToo")}>{alert.send_resolved ? t("yes") : t("no")}</Fact>
      )}
      <Fact name={t("language")}>{t(`language.${alert.language}`)}</Fact>
      {alert.note && (
        <Fact name={w("note")}>
          <UserText text={alert.note} />
        </Fact>
      )}
      {alert.tenant_id && (
        <Fact name={w("tenant")}>
          <UserText text={alert.tenant_id} />
        </Fact>
      )}
      <Fact name={w("changed")}>
        <Ago at={alert.updated_at} />
      </Fact>
    </FactList>
  );
}

function Channels({ channels }: { channels: readonly Channel[] }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  return (
    <Panel title={t("channels")} icon={BellRing}>
      <table className={styles.table} aria-label={t("channels")}>
        <TableHead columns={[t("channel"), t("kind"), t("receiver")]} />
        <tbody>
          {channels.map((channel) => (
            <tr key={channel.name}>
              <th scope="row">
                <UserText text={channel.name} />
              </th>
              <td>{c(`kind.${channel.kind}`)}</td>
              <td>
                {channel.kind === "mail" ? (
                  <UserText text={channel.to.join(", ")} />
                ) : (
                  <>
                    <UserText text={channel.host} /> {channel.signed && `· ${t("signed")}`}
                    <p className={styles.soft} title={t("fingerprintHint")}>
                      {t("fingerprint", { fingerprint: channel.fingerprint })}
                    </p>
                  </>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

function AlertHistory({ alert }: { alert: Alert }) {
  const t = useMessages(messages);
  const ref = alertRef(alert);
  const { data, error, refetch } = useRead(
    ["alert", ref.id, ref.tenant, "history"],
    (signal) => readHistory(ref, signal),
    { every: EVERY_MS },
  );
  const items = data?.items ?? [];
  return (
    <Panel title={t("history")} icon={History}>
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && items.length === 0 && <p className={styles.nothing}>{t("noHistory")}</p>}
      {items.length > 0 && (
        <table className={styles.table} aria-label={t("history")}>
          <TableHead columns={[t("fired"), t("what"), t("resolved"), t("messages")]} />
          <tbody>
            {items.map((each) => (
              <OccurrenceRow key={each.number} occurrence={each} />
            ))}
          </tbody>
        </table>
      )}
      {items.length > 0 && <p className={styles.nothing}>{t("historyHint")}</p>}
    </Panel>
  );
}

function OccurrenceRow({ occurrence }: { occurrence: Occurrence }) {
  const t = useMessages(messages);
  const { facts, fired, resolved } = occurrence;
  return (
    <tr data-occurrence={occurrence.number}>
      <th scope="row">
        <Ago at={occurrence.fired_at} />
      </th>
      <td>
        <UserText text={occurrence.text} />
        {facts.run_ids.length > 0 && (
          <p className={styles.soft}>
            {t("runs")}:{" "}
            {facts.run_ids.map((id, index) => (
              <span key={id}>
                {index > 0 && ", "}
                <a href={href(pathTo("/runs/:id", { id }))}>{id.slice(0, 8)}</a>
              </span>
            ))}
          </p>
        )}
      </td>
      <td>{occurrence.resolved_at !== null && <Ago at={occurrence.resolved_at} />}</td>
      <td>
        <Sent messages={fired} />
        {resolved.length > 0 && (
          <>
            <p className={styles.soft}>{t("resolvedMessages")}</p>
            <Sent messages={resolved} />
          </>
        )}
      </td>
    </tr>
  );
}

function Sent({ messages: sent }: { messages: readonly Message[] }) {
  const t = useMessages(messages);
  return sent.map((message) => (
    <div key={message.channel}>
      <UserText text={message.channel} /> <MessageState state={message.state} />{" "}
      {message.error && (
        <p className={styles.soft}>
          <UserText text={message.error} /> · {t("attempts", { count: message.attempts })}
          {message.next_at !== null && (
            <>
              {" "}
              · {t("nextTry")} <Ago at={message.next_at} />
            </>
          )}
        </p>
      )}
    </div>
  ));
}
