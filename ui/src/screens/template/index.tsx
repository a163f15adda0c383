/** The screen of one template: what an event starts, and how to send one. */

import { Ellipsis, FlaskConical, ListOrdered, Pencil, Terminal, Trash2 } from "lucide-react";
import { useState } from "react";
import { useMay } from "../../api/access";
import { useRead } from "../../api/queries";
import { href, navigate } from "../../app/router";
import type { ScreenProps } from "../../app/screens";
import { useMessages } from "../../i18n/messages";
import { secondsOf } from "../../schedules/schedule";
import { deleteTemplate, readTemplate, type Template, testTemplate } from "../../triggers/eventApi";
import { messages as common } from "../../triggers/messages";
import { TestDialog, WouldStart } from "../../triggers/TestDialog";
import styles from "../../triggers/Triggers.module.css";
import { monthText } from "../../triggers/templateMonth";
import { CommandLine } from "../../ui/CommandLine";
import { ConfirmDialog } from "../../ui/ConfirmDialog";
import { Button, IconButton } from "../../ui/controls";
import { Fact, FactList } from "../../ui/FactList";
import { Loading, ProblemBox } from "../../ui/feedback";
import { Menu, MenuItem, MenuLabel } from "../../ui/menus";
import { Page } from "../../ui/Page";
import { NotFoundPage } from "../../ui/pageStates";
import { TableHead } from "../../ui/TableHead";
import { Ago } from "../../ui/time";
import { showToast } from "../../ui/toasts";
import { UserText } from "../../ui/UserText";
import { Panel } from "../run/Panel";
import { messages as listTexts } from "../templates/messages";
import { TemplateForm } from "../templates/TemplateForm";
import { messages } from "./messages";

const EVERY_MS = 5_000;
type Asked = "test" | "edit" | "delete";

export default function TemplateScreen({ params }: ScreenProps) {
  const t = useMessages(messages);
  const id = params.id ?? "";
  const { data, error, refetch } = useRead(["template", id], (signal) => readTemplate(id, signal), {
    every: EVERY_MS,
  });
  if (error?.status === 404)
    return (
      <NotFoundPage title={t("title")} heading={t("notFound")} list={{ path: "/templates", label: t("all") }}>
        {t("notFoundText")}
      </NotFoundPage>
    );
  return (
    <Page title={data?.name ?? id} actions={data && <TemplateActions key={id} template={data} />}>
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <div className={styles.parts}>
          <TemplateFacts template={data} />
          <div className={styles.columns}>
            <Sending template={data} />
            <Steps template={data} />
          </div>
        </div>
      )}
    </Page>
  );
}

function TemplateActions({ template }: { template: Template }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const [asked, setAsked] = useState<Asked | null>(null);
  const may = useMay("POST /api/workflow-templates");
  const close = () => setAsked(null);
  return (
    <>
      <Button onClick={() => setAsked("test")}>
        <FlaskConical size={14} aria-hidden />
        {c("test")}
      </Button>
      <Button disabled={!may} onClick={() => setAsked("edit")}>
        <Pencil size={14} aria-hidden />
        {c("edit")}
      </Button>
      <Menu
        align="end"
        trigger={<IconButton label={c("more")} icon={<Ellipsis size={16} />} kind="normal" />}
      >
        {!may && <MenuLabel>{c("needsScope")}</MenuLabel>}
        <MenuItem danger disabled={!may} onSelect={() => setAsked("delete")}>
          <Trash2 size={14} aria-hidden />
          {c("deleteIt")}
        </MenuItem>
      </Menu>
      {asked === "test" && <TemplateTest template={template} onClose={close} />}
      {asked === "edit" && <TemplateForm stored={template} onClose={close} />}
      {asked === "delete" && (
        <ConfirmDialog
          title={t("deleteTitle", { name: template.name })}
          text={t("deleteText")}
          confirm={c("delete")}
          back={c("keep")}
          refresh={[["templates"]]}
          act={() => deleteTemplate(template.id)}
          onDone={() => {
            showToast({ tone: "good", title: c("isDeleted", { name: template.name }) });
            navigate(href("/templates"));
          }}
          onClose={close}
        />
      )}
    </>
  );
}

function TemplateTest({ template, onClose }: { template: Template; onClose: () => void }) {
  const t = useMessages(messages);
  return (
    <TestDialog
      title={t("testTitle", { name: template.name })}
      label={t("sample")}
      hint={t("sampleHint")}
      sample={'{\n  "idempotency_key": "close-2026-11",\n  "year": 2026,\n  "month": 11,\n  "payload": {}\n}'}
      onClose={onClose}
      send={(json) => testTemplate(template.id, json === "null" ? "{}" : json)}
      view={(tested) => (
        <WouldStart
          flow={tested.flow_name}
          tag={tested.tag}
          params={tested.params}
          idempotencyKey={tested.idempotency_key}
          problems={tested.problem === null ? [] : [`${tested.problem_status ?? ""} ${tested.problem}`]}
        />
      )}
    />
  );
}

function TemplateFacts({ template }: { template: Template }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const l = useMessages(listTexts);
  const month = monthText(template);
  return (
    <FactList>
      <Fact name={t("id")}>
        <code>{template.id}</code>
      </Fact>
      {month && <Fact name={t("month")}>{month}</Fact>}
      <Fact name={t("overlap")}>{l(`overlap.${template.overlap}`)}</Fact>
      {template.mfcloud_url && (
        <Fact name={t("url")}>
          <UserText text={template.mfcloud_url} />
        </Fact>
      )}
      {template.notes && (
        <Fact name={t("notes")}>
          <UserText text={template.notes} />
        </Fact>
      )}
      {template.tenant_id && (
        <Fact name={c("tenant")}>
          <UserText text={template.tenant_id} />
        </Fact>
      )}
      <Fact name={t("runs")}>
        <a href={href("/runs", { cause: `event:template:${template.id}` })}>{c("showRuns")}</a>
      </Fact>
      <Fact name={c("changed")}>
        <Ago at={secondsOf(template.updated_at)} />
      </Fact>
    </FactList>
  );
}

function Sending({ template }: { template: Template }) {
  const t = useMessages(messages);
  const isExternal = template.steps[0]?.trigger_kind === "external_event";
  const hasMonth = template.year > 0 && template.month > 0;
  const now = new Date();
  const body = JSON.stringify({
    template_id: template.id,
    idempotency_key: "event-1",
    ...(!hasMonth && { year: now.getFullYear(), month: now.getMonth() + 1 }),
  });
  return (
    <Panel title={t("send")} icon={Terminal}>
      <div className={styles.body}>
        {isExternal ? (
          <>
            <CommandLine
              text={`curl '${location.origin}/api/workflow-events' -H 'Content-Type: application/json' -d '${body}'`}
            />
            <p className={styles.soft}>{t("sendText")}</p>
          </>
        ) : (
          <p>{t("notExternal")}</p>
        )}
      </div>
    </Panel>
  );
}

function Steps({ template }: { template: Template }) {
  const t = useMessages(messages);
  const l = useMessages(listTexts);
  return (
    <Panel title={t("steps")} icon={ListOrdered}>
      <table className={styles.table}>
        <TableHead columns={[t("step"), t("action"), t("starts"), t("mode")]} />
        <tbody>
          {template.steps.map((step, at) => (
            <tr key={step.id}>
              <th scope="row">
                {at + 1}. <UserText text={step.title || step.action} />
              </th>
              <td data-head={t("action")}>
                <code>{step.action}</code>
              </td>
              <td data-head={t("starts")}>{l(`trigger.${step.trigger_kind}`)}</td>
              <td data-head={t("mode")}>
                {l(`mode.${step.execution_mode}`)}
                {step.timer_minutes > 0 && ` · ${t("minutes", { count: step.timer_minutes })}`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className={styles.nothing}>{l("stepsNote")}</p>
    </Panel>
  );
}
