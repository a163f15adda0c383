/** The screen of one hook: how to send to it, what it starts, and its deliveries. */

import { ArrowRightLeft, Terminal } from "lucide-react";
import { useRead } from "../../api/queries";
import { href, usePlace } from "../../app/router";
import type { ScreenProps } from "../../app/screens";
import { useMessages } from "../../i18n/messages";
import { looseText } from "../../lib/pairLines";
import { type Hook, readHook } from "../../triggers/hookApi";
import { useHookWords } from "../../triggers/kinds";
import { messages as common } from "../../triggers/messages";
import styles from "../../triggers/Triggers.module.css";
import { hookRef } from "../../triggers/triggerRef";
import { CommandLine } from "../../ui/CommandLine";
import { Fact, FactList } from "../../ui/FactList";
import { ProblemBox } from "../../ui/feedback";
import { Page } from "../../ui/Page";
import { LoadingPage, NotFoundPage } from "../../ui/pageStates";
import { TableHead } from "../../ui/TableHead";
import { Labels, Tags } from "../../ui/Tags";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { JsonValue } from "../run/details/JsonValue";
import { Panel } from "../run/Panel";
import { addressOf, curlExample } from "./curl";
import { Deliveries } from "./Deliveries";
import { Example } from "./Example";
import local from "./Hook.module.css";
import { HookActions } from "./HookActions";
import { messages } from "./messages";
import { SecretDialog } from "./SecretDialog";

const EVERY_MS = 5_000;

export default function Screen({ params }: ScreenProps) {
  const id = params.id ?? "";
  const tenant = usePlace().query.get("tenant");
  return <HookScreen key={`${tenant} ${id}`} id={id} tenant={tenant} />;
}

function HookScreen({ id, tenant }: { id: string; tenant: string | null }) {
  const t = useMessages(messages);
  const { data, error, refetch } = useRead(
    ["hook", id, tenant],
    (signal) => readHook({ id, tenant }, signal),
    { every: EVERY_MS },
  );
  if (error?.status === 404)
    return (
      <NotFoundPage
        title={t("title")}
        heading={t("notFound")}
        list={{ path: "/hooks", label: t("allHooks") }}
      >
        {t("notFoundText")}
      </NotFoundPage>
    );
  if (!data) return <LoadingPage title={id} problem={error} onRetry={refetch} />;
  return (
    <Page title={data.hook_id} actions={<HookActions hook={data} />}>
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      <div className={styles.parts}>
        <HookFacts hook={data} />
        <div className={styles.columns}>
          <Sending hook={data} />
          <Mapping hook={data} />
        </div>
        <Deliveries hook={hookRef(data)} />
      </div>
      <SecretDialog hook={data} />
    </Page>
  );
}

function HookFacts({ hook }: { hook: Hook }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const words = useHookWords();
  const conditions = Object.entries(hook.only_if);
  return (
    <FactList>
      <Fact name={c("flow")}>
        <a href={href("/runs", { flow: hook.flow_name })}>
          <UserText text={hook.flow_name} />
        </a>
        {hook.workflow_yaml && <Tags tags={["flow.yaml"]} />}
      </Fact>
      <Fact name={t("kind")}>{words(hook.kind)}</Fact>
      <Fact name={t("secrets")}>
        <Secrets hook={hook} />
      </Fact>
      <Fact name={t("idempotency")}>
        {hook.idempotency === null ? t("senderId") : <code>{hook.idempotency}</code>}
      </Fact>
      {conditions.length > 0 && (
        <Fact name={t("onlyIf")}>
          {conditions.map(([source, value]) => (
            <code key={source}>
              {source} = {looseText(value)}
            </code>
          ))}
        </Fact>
      )}
      <Fact name={c("overlap")}>{words(hook.overlap)}</Fact>
      <Fact name={c("tag")}>
        <Labels labels={[...new Set([hook.tag, ...hook.tags])]} />
      </Fact>
      {hook.note && (
        <Fact name={c("note")}>
          <UserText text={hook.note} />
        </Fact>
      )}
      {hook.tenant_id && (
        <Fact name={c("tenant")}>
          <UserText text={hook.tenant_id} />
        </Fact>
      )}
      <Fact name={t("runs")}>
        <a href={href("/runs", { cause: `event:hook:${hook.hook_id}` })}>{c("showRuns")}</a>
      </Fact>
      <Fact name={c("changed")}>
        <Ago at={hook.updated_at} />
      </Fact>
    </FactList>
  );
}

function Secrets({ hook: { secrets } }: { hook: Hook }) {
  const t = useMessages(messages);
  const [current, old] = secrets;
  if (!current) return t("noSecret");
  return (
    <>
      <span>
        {t("secretSince")} <Ago at={current.created_at} />
      </span>
      {old && (
        <span className={local.old}>
          {t("twoSecrets")},{" "}
          {old.expires_at === null ? (
            t("untilFinished")
          ) : (
            <>
              {t("until")} <Ago at={old.expires_at} />
            </>
          )}
        </span>
      )}
    </>
  );
}

function Sending({ hook }: { hook: Hook }) {
  const t = useMessages(messages);
  const isNats = hook.kind === "nats";
  const address = isNats ? (hook.subject ?? "") : addressOf(hook);
  return (
    <Panel title={t("send")} icon={Terminal}>
      <div className={styles.body}>
        <p className={styles.soft}>{isNats ? t("subject") : t("address")}</p>
        <CommandLine text={address} />
        <Example text={curlExample(hook, address, null)} />
        {!isNats && <p className={styles.soft}>{t("exampleHint")}</p>}
      </div>
    </Panel>
  );
}

function Mapping({ hook }: { hook: Hook }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  return (
    <Panel title={t("mapping")} icon={ArrowRightLeft}>
      {hook.map === null ? (
        <p className={styles.body}>{t("wholeBody")}</p>
      ) : (
        <table className={styles.table}>
          <TableHead columns={[t("param"), t("source")]} />
          <tbody>
            {Object.entries(hook.map).map(([name, source]) => (
              <tr key={name}>
                <th scope="row">
                  <UserText text={name} />
                </th>
                <td>
                  <code>{source || '""'}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {Object.keys(hook.params).length > 0 && (
        <div className={styles.body}>
          <p className={styles.soft}>{c("fixedParams")}</p>
          <JsonValue value={hook.params} label={c("fixedParams")} />
        </div>
      )}
    </Panel>
  );
}
