/** The workflow templates, and the actions that they name. */

import { ListTree, Plus, RadioTower } from "lucide-react";
import { useState } from "react";
import { useMay } from "../../api/access";
import { useRead } from "../../api/queries";
import { href, navigate, pathTo, useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { secondsOf } from "../../schedules/schedule";
import { readTemplates, type Template } from "../../triggers/eventApi";
import { messages as common } from "../../triggers/messages";
import styles from "../../triggers/Triggers.module.css";
import { monthText } from "../../triggers/templateMonth";
import { CommandLine } from "../../ui/CommandLine";
import { Button, ButtonLink } from "../../ui/controls";
import { EmptyState, Loading, ProblemBox } from "../../ui/feedback";
import { Page } from "../../ui/Page";
import { useRowKeys } from "../../ui/rowKeys";
import { SearchField } from "../../ui/SearchField";
import { TableHead } from "../../ui/TableHead";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { Panel } from "../run/Panel";
import { Actions } from "./Actions";
import { messages } from "./messages";
import { TemplateForm } from "./TemplateForm";

const EVERY_MS = 5_000;
const PAGE = 50;
const CREATE = 'pyoco-client templates create monthly-close --name "Monthly close" --action close_month';

export default function TemplatesScreen() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const [creating, setCreating] = useState(false);
  const may = useMay("POST /api/workflow-templates");
  const search = query.get("search") ?? "";
  const offset = Number(query.get("offset")) || 0;
  const { data, error, isPending, refetch } = useRead(
    ["templates", search, offset],
    (signal) =>
      readTemplates(
        { limit: String(PAGE), offset: String(offset), sort: "name", ...(search && { search }) },
        signal,
      ),
    { keep: true, every: EVERY_MS },
  );
  const create = (
    <Button kind="primary" disabled={!may} onClick={() => setCreating(true)}>
      <Plus size={14} aria-hidden />
      {t("newTemplate")}
    </Button>
  );
  const isEmpty = data?.total === 0;
  return (
    <Page
      title={t("title")}
      actions={
        <>
          <ButtonLink href={href("/events")}>
            <RadioTower size={14} aria-hidden />
            {t("events")}
          </ButtonLink>
          {create}
        </>
      }
    >
      <div className={styles.parts}>
        {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
        {isPending && <Loading />}
        {data && !isEmpty && (
          <Panel
            title={t("templates")}
            icon={ListTree}
            actions={<Search search={search} onSearch={(text) => change({ search: text, offset: null })} />}
          >
            <TemplateTable items={data.items} />
            <Pages offset={offset} total={data.total} onMove={(to) => change({ offset: to })} />
          </Panel>
        )}
        {isEmpty && search && (
          <Panel
            title={t("templates")}
            icon={ListTree}
            actions={<Search search={search} onSearch={(text) => change({ search: text, offset: null })} />}
          >
            <p className={styles.nothing}>{t("nothing")}</p>
          </Panel>
        )}
        {isEmpty && !search && (
          <EmptyState icon={ListTree} title={t("emptyTitle")} actions={create}>
            <p>{t("emptyText")}</p>
            <CommandLine text={CREATE} />
          </EmptyState>
        )}
        <Actions />
      </div>
      {creating && (
        <TemplateForm
          stored={null}
          onClose={() => setCreating(false)}
          onSaved={({ id }) => navigate(href(pathTo("/templates/:id", { id })))}
        />
      )}
    </Page>
  );
}

function Search({ search, onSearch }: { search: string; onSearch: (text: string | null) => void }) {
  const t = useMessages(messages);
  return (
    <SearchField
      label={t("search")}
      placeholder={t("searchPlaceholder")}
      value={search}
      onSearch={(text) => {
        onSearch(text.trim() || null);
        return text.trim();
      }}
    />
  );
}

function TemplateTable({ items }: { items: readonly Template[] }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const table = useRowKeys<HTMLTableElement>({ next: t("keyNext"), previous: t("keyPrevious") });
  return (
    <table ref={table} className={styles.table}>
      <TableHead columns={[t("template"), t("starts"), t("action"), t("month"), c("changed")]} />
      <tbody>
        {items.map((template) => {
          const [first] = template.steps;
          return (
            <tr key={template.id} data-template={template.id}>
              <th scope="row">
                <a href={href(pathTo("/templates/:id", { id: template.id }))} data-row>
                  <UserText text={template.name} />
                </a>
                <p className={styles.soft}>{template.id}</p>
              </th>
              <td data-head={t("starts")}>{first && t(`trigger.${first.trigger_kind}`)}</td>
              <td data-head={t("action")}>{first && <UserText text={first.action} />}</td>
              <td data-head={t("month")}>{monthText(template)}</td>
              <td data-head={c("changed")}>
                <Ago at={secondsOf(template.updated_at)} />
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

interface PagesProps {
  offset: number;
  total: number;
  onMove: (offset: string | null) => void;
}

function Pages({ offset, total, onMove }: PagesProps) {
  const t = useMessages(messages);
  if (total <= PAGE) return null;
  return (
    <nav className={styles.pages} aria-label={t("pages")}>
      <Button disabled={offset === 0} onClick={() => onMove(String(Math.max(0, offset - PAGE)) || null)}>
        {t("before")}
      </Button>
      <Button disabled={offset + PAGE >= total} onClick={() => onMove(String(offset + PAGE))}>
        {t("further")}
      </Button>
    </nav>
  );
}
