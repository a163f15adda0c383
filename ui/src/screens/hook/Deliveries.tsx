/** The kept deliveries of a hook, and one of them with what was sent and answered. */

import { Inbox, RotateCcw } from "lucide-react";
import { type ReactNode, useRef } from "react";
import { useMay } from "../../api/access";
import { Attempt } from "../../api/idempotencyKey";
import { useAct, useRead } from "../../api/queries";
import { href, pathTo, useQueryState } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { listText, useMessages } from "../../i18n/messages";
import { fileSize } from "../../i18n/size";
import { exactTime } from "../../i18n/time";
import { formattedJson, parseJson } from "../../lib/exactJson";
import { visible } from "../../lib/visible";
import {
  type Delivery,
  type DeliveryItem,
  readDeliveries,
  readDelivery,
  redeliver,
} from "../../triggers/hookApi";
import { messages as common } from "../../triggers/messages";
import { Outcome } from "../../triggers/Outcome";
import styles from "../../triggers/Triggers.module.css";
import type { HookRef } from "../../triggers/triggerRef";
import { CopyButton } from "../../ui/Copy";
import { Button, Select } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { Fact, FactList } from "../../ui/FactList";
import { Loading, ProblemBox } from "../../ui/feedback";
import { useRowKeys } from "../../ui/rowKeys";
import { TableHead } from "../../ui/TableHead";
import { Ago } from "../../ui/time";
import { showToast } from "../../ui/toasts";
import { UserText } from "../../ui/UserText";
import { JsonValue } from "../run/details/JsonValue";
import { Panel } from "../run/Panel";
import local from "./Hook.module.css";
import { messages } from "./messages";

const EVERY_MS = 3_000;
const PAGE = "50";
const STATUSES = ["started", "duplicate", "ignored", "skipped", "rejected", "refused", "failed"] as const;

function useStatusText(): (status: string) => string {
  const t = useMessages(messages);
  return (status) => {
    const known = STATUSES.find((each) => each === status);
    return known ? t(`status.${known}`) : status;
  };
}

export function Deliveries({ hook }: { hook: HookRef }) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const status = query.get("status") ?? "";
  const cursor = query.get("cursor") ?? "";
  const opened = Number(query.get("delivery") ?? "");
  const { data, error, refetch } = useRead(
    ["hook", "deliveries", hook.id, hook.tenant, status, cursor],
    (signal) =>
      readDeliveries(hook, { limit: PAGE, ...(status && { status }), ...(cursor && { cursor }) }, signal),
    { every: EVERY_MS, keep: true },
  );
  return (
    <Panel
      title={t("deliveries")}
      icon={Inbox}
      actions={
        <span className={local.tools}>
          {data && data.total > 0 && (
            <span className={styles.soft}>{t("deliveriesNote", { count: data.total })}</span>
          )}
          <StatusFilter status={status} onChange={(next) => change({ status: next || null, cursor: null })} />
        </span>
      }
    >
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      {data?.items.length === 0 && (
        <p className={styles.nothing}>{status ? t("noSuch") : t("noDeliveries")}</p>
      )}
      {data && data.items.length > 0 && (
        <DeliveryTable items={data.items} onOpen={(id) => change({ delivery: String(id) })} />
      )}
      {(cursor || data?.next_cursor) && (
        <div className={styles.pages}>
          <Button disabled={!cursor} onClick={() => change({ cursor: null })}>
            {t("newest")}
          </Button>
          <Button disabled={!data?.next_cursor} onClick={() => change({ cursor: data?.next_cursor })}>
            {t("older")}
          </Button>
        </div>
      )}
      {opened > 0 && <DeliveryDialog hook={hook} id={opened} onClose={() => change({ delivery: null })} />}
    </Panel>
  );
}

function StatusFilter({ status, onChange }: { status: string; onChange: (status: string) => void }) {
  const t = useMessages(messages);
  const word = useStatusText();
  return (
    <Select aria-label={t("statusFilter")} value={status} onChange={({ target }) => onChange(target.value)}>
      <option value="">{t("anyStatus")}</option>
      {STATUSES.map((each) => (
        <option key={each} value={each}>
          {word(each)}
        </option>
      ))}
    </Select>
  );
}

interface DeliveryTableProps {
  items: readonly DeliveryItem[];
  onOpen: (id: number) => void;
}

function DeliveryTable({ items, onOpen }: DeliveryTableProps) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const word = useStatusText();
  const table = useRowKeys<HTMLTableElement>({ next: t("keyNext"), previous: t("keyPrevious") });
  return (
    <table ref={table} className={styles.table}>
      <TableHead columns={[t("number"), t("status"), t("when"), t("answer"), c("run"), t("reason")]} />
      <tbody>
        {items.map((item) => (
          <tr key={item.delivery_id} data-delivery={item.delivery_id}>
            <th scope="row">
              <button
                type="button"
                className={styles.link}
                data-row
                aria-label={t("openDelivery", { delivery: String(item.delivery_id) })}
                onClick={() => onOpen(item.delivery_id)}
              >
                #{item.delivery_id}
              </button>
            </th>
            <td>
              <Outcome outcome={item.status} label={word(item.status)} />
            </td>
            <td>
              <Ago at={item.at} />
            </td>
            <td data-head={t("answer")}>{item.http_status ?? "NATS"}</td>
            <td>
              <RunLink id={item.run_id} />
            </td>
            <td>
              <Why item={item} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function RunLink({ id }: { id: string | null }) {
  if (!id) return null;
  return (
    <a className="mono" href={href(pathTo("/runs/:id", { id }))} title={id}>
      {id.slice(0, 8)}
    </a>
  );
}

const REASONS = [
  "missing_proof",
  "wrong_proof",
  "old_timestamp",
  "not_over_http",
  "only_if",
  "ping",
  "overlap",
] as const;

function Why({ item }: { item: DeliveryItem }) {
  const t = useMessages(messages);
  const known = REASONS.find((each) => each === item.reason);
  const why = item.detail ?? (known ? t(`reason.${known}`) : item.reason);
  return (
    <>
      {why && <UserText text={why} />}{" "}
      {item.count > 1 && <span className={styles.soft}>{t("times", { count: item.count })}</span>}{" "}
      {item.redelivery_of !== null && (
        <span className={styles.soft}>{t("again", { delivery: String(item.redelivery_of) })}</span>
      )}
    </>
  );
}

interface DeliveryDialogProps {
  hook: HookRef;
  id: number;
  onClose: () => void;
}

function DeliveryDialog({ hook, id, onClose }: DeliveryDialogProps) {
  const t = useMessages(messages);
  const word = useStatusText();
  const may = useMay("POST /hooks/{hook_id}/deliveries/{delivery_id}/redeliver");
  const attempt = useRef(new Attempt());
  const { data, error } = useRead(["hook", "delivery", hook.id, hook.tenant, id], (signal) =>
    readDelivery(hook, id, signal),
  );
  const again = useAct(
    (newRun: boolean) => redeliver(hook, id, newRun, attempt.current.keyFor(String(newRun))),
    {
      quiet: true,
      refresh: [["hook", "deliveries"]],
      onDone: ({ status, run_id }) => {
        attempt.current.accepted();
        const title =
          status === "started" ? t("redelivered.started") : t("redelivered.other", { status: word(status) });
        const link = run_id && { href: href(pathTo("/runs/:id", { id: run_id })), label: t("showRun") };
        showToast({ tone: "good", title, ...(link && { link }) });
        onClose();
      },
    },
  );
  return (
    <Dialog
      open
      onClose={onClose}
      title={t("delivery", { delivery: String(id) })}
      width={720}
      actions={
        data &&
        data.body !== null && (
          <>
            <Button disabled={!may || again.isPending} onClick={() => again.mutate(true)}>
              {t("redeliverNew")}
            </Button>
            <Button kind="primary" disabled={!may || again.isPending} onClick={() => again.mutate(false)}>
              <RotateCcw size={14} aria-hidden />
              {t("redeliver")}
            </Button>
          </>
        )
      }
    >
      <div className={styles.dialog}>
        {again.error && <ProblemBox problem={again.error} />}
        {error && <ProblemBox problem={error} />}
        {!data && !error && <Loading />}
        {data && <Shown delivery={data} />}
      </div>
    </Dialog>
  );
}

function Shown({ delivery }: { delivery: Delivery }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const word = useStatusText();
  const language = useLanguage();
  return (
    <>
      <FactList>
        <Fact name={t("status")}>
          <Outcome outcome={delivery.status} label={word(delivery.status)} />
        </Fact>
        <Fact name={t("when")}>{exactTime(delivery.at, language)}</Fact>
        {delivery.run_id && (
          <Fact name={c("run")}>
            <RunLink id={delivery.run_id} />
          </Fact>
        )}
        {delivery.client_ip && <Fact name={t("from")}>{delivery.client_ip}</Fact>}
        {delivery.idempotency_key && (
          <Fact name={c("idempotencyKey")}>
            <code>{delivery.idempotency_key}</code>
          </Fact>
        )}
        {(delivery.reason || delivery.redelivery_of) && (
          <Fact name={t("reason")}>
            <Why item={delivery} />
          </Fact>
        )}
      </FactList>
      {delivery.missing.length > 0 && (
        <p className={styles.wrapped}>{t("missing", { names: listText(delivery.missing) })}</p>
      )}
      <Body delivery={delivery} />
      <Pairs title={t("headers")} pairs={delivery.headers} />
      <Pairs title={t("queryParams")} pairs={delivery.query} />
      {Object.keys(delivery.params).length > 0 && (
        <Part title={c("mappedParams")}>
          <JsonValue value={delivery.params} label={c("mappedParams")} />
        </Part>
      )}
      <Part
        title={delivery.http_status === null ? t("answered") : `${t("answered")} (${delivery.http_status})`}
      >
        <Content text={delivery.answer} label={t("answered")} />
      </Part>
      <p className={styles.soft}>{t("redeliverHint")}</p>
    </>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={local.part}>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

function Body({ delivery }: { delivery: Delivery }) {
  const t = useMessages(messages);
  const { body, body_is_base64: isBase64 } = delivery;
  const title = isBase64 ? t("bodyBase64") : t("body");
  return (
    <Part title={delivery.body_bytes > 0 ? `${title} · ${fileSize(delivery.body_bytes)}` : title}>
      {body === null && <p className={styles.soft}>{t("noBody")}</p>}
      {body === "" && <p className={styles.soft}>{t("emptyBody")}</p>}
      {body && <Content text={body} label={title} />}
    </Part>
  );
}

/** JSON with one value per line, any other text as it is. */
function Content({ text, label }: { text: string; label: string }) {
  return (
    <div className={local.example}>
      {/** biome-ignore lint/a11y/noNoninteractiveTabindex: whoever has no mouse scrolls it with the arrows. */}
      <pre tabIndex={0} role="region" aria-label={label} className={styles.code}>
        {visible(isJson(text) ? formattedJson(text) : text)}
      </pre>
      <CopyButton text={text} />
    </div>
  );
}

function isJson(text: string): boolean {
  try {
    parseJson(text);
    return true;
  } catch {
    return false;
  }
}

function Pairs({ title, pairs }: { title: string; pairs: Record<string, string> }) {
  const entries = Object.entries(pairs);
  if (entries.length === 0) return null;
  return (
    <Part title={title}>
      <dl className={local.headers}>
        {entries.map(([name, value]) => (
          <div key={name}>
            <dt>
              <code>{visible(name)}</code>
            </dt>
            <dd>
              <UserText text={value} />
            </dd>
          </div>
        ))}
      </dl>
    </Part>
  );
}
