/** One schedule: when, next and last run, and its actions. */
import { Ellipsis, List, Pause, Pencil, Play, Zap } from "lucide-react";
import { useState } from "react";
import { useMay } from "../../api/access";
import { href, navigate, pathTo } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { PauseDialog, useResume, useTrigger } from "../../schedules/actions";
import { specText } from "../../schedules/describe";
import { messages as common } from "../../schedules/messages";
import { PauseNote } from "../../schedules/PauseNote";
import { ScheduleStateBadge } from "../../schedules/ScheduleStateBadge";
import type { ScheduleItem } from "../../schedules/schedule";
import { refOf, scheduleHref } from "../../schedules/scheduleRef";
import { zonedTime } from "../../schedules/zones";
import { Button, IconButton, joined } from "../../ui/controls";
import { Menu, MenuItem, MenuLabel, MenuLine } from "../../ui/menus";
import { StatusBadge } from "../../ui/status";
import { Tags } from "../../ui/Tags";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { messages } from "./messages";
import styles from "./ScheduleList.module.css";

interface ScheduleRowProps {
  item: ScheduleItem;
  /** Whether no worker serves its tag. */
  isUnserved: boolean;
}

export function ScheduleRow({ item, isUnserved }: ScheduleRowProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  const { schedule_id: id, flow_name: flow, spec, paused, note } = item;
  return (
    <li className={joined(styles.schedule, paused && styles.paused)} data-schedule={id}>
      <div className={styles.state}>
        <ScheduleStateBadge paused={paused} ended={item.next_at === null && !item.problem} />
      </div>
      <div className={styles.what}>
        <h2 className={styles.name}>
          <a href={scheduleHref(refOf(item))} data-row>
            <UserText text={id} />
          </a>
        </h2>
        <p className={styles.flow}>
          <UserText text={flow} />
          {item.has_workflow_yaml && <Tags tags={[t("yaml")]} />}
          {item.tenant_id && <Tags tags={[item.tenant_id]} />}
        </p>
        {paused && note && (
          <p className={styles.note}>
            <PauseNote note={note} />
          </p>
        )}
        {item.problem && (
          <p className={styles.note}>
            <UserText text={item.problem} />
          </p>
        )}
        {isUnserved && <p className={styles.skipped}>{t("noWorker", { tag: item.tag })}</p>}
      </div>
      <div className={styles.when}>
        <span title={spec.cron.join("\n") || undefined}>{specText(spec, language)}</span>
        <span className={styles.faint}>{spec.timezone}</span>
      </div>
      <Next item={item} />
      <Last item={item} />
      <Actions item={item} />
    </li>
  );
}

function Next({ item }: { item: ScheduleItem }) {
  const t = useMessages(messages);
  const language = useLanguage();
  return (
    <div className={styles.moment}>
      <span className={styles.label}>{t("next")}</span>
      {item.paused ? (
        <span className={styles.faint}>{t("notBefore")}</span>
      ) : item.next_at === null ? (
        <span className={styles.faint}>{t(item.problem ? "unknownNext" : "noNext")}</span>
      ) : (
        <>
          <Ago at={item.next_at} />
          <span className={styles.faint}>{zonedTime(item.next_at, item.spec.timezone, language)}</span>
        </>
      )}
    </div>
  );
}

function Last({ item }: { item: ScheduleItem }) {
  const t = useMessages(messages);
  const { last_run_id: run, last_run_status: status, last_scheduled_for: at, last_decision: last } = item;
  // What has not started since the last run.
  const missed = MISSED.find((each) => each === last?.outcome);
  return (
    <div className={styles.moment}>
      <span className={styles.label}>{t("last")}</span>
      {run ? (
        <>
          <a className={styles.run} href={href(pathTo("/runs/:id", { id: run }))}>
            {status ? <StatusBadge status={status} /> : <code>{run.slice(0, 8)}</code>}
          </a>
          <span className={styles.faint}>
            <Ago at={at} />
          </span>
        </>
      ) : (
        <span className={styles.faint}>{t("noLast")}</span>
      )}
      {last && missed && (
        <span className={styles.skipped}>
          {t(`outcome.${missed}`)} <Ago at={last.at} />
        </span>
      )}
    </div>
  );
}

const MISSED = ["skipped", "missed", "failed"] as const;

function Actions({ item }: { item: ScheduleItem }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const [pausing, setPausing] = useState(false);
  const { schedule_id: id, paused } = item;
  const ref = refOf(item);
  const may = useMay("PATCH /schedules/{schedule_id}");
  const mayPause = useMay("POST /schedules/{schedule_id}/pause");
  const resume = useResume(ref);
  const trigger = useTrigger(ref);
  return (
    <div className={styles.actions}>
      {paused ? (
        <Button
          kind="plain"
          aria-label={`${c("resume")}: ${id}`}
          disabled={!mayPause || resume.isPending}
          onClick={() => resume.mutate()}
        >
          <Play size={15} aria-hidden />
          <span className={styles.actionName}>{c("resume")}</span>
        </Button>
      ) : (
        <Button
          kind="plain"
          aria-label={`${c("pause")}: ${id}`}
          disabled={!mayPause}
          onClick={() => setPausing(true)}
        >
          <Pause size={15} aria-hidden />
          <span className={styles.actionName}>{c("pause")}</span>
        </Button>
      )}
      <IconButton
        label={`${c("trigger")}: ${id}`}
        icon={<Zap size={15} />}
        disabled={!may || trigger.isPending}
        onClick={() => trigger.mutate("{}")}
      />
      <Menu
        align="end"
        trigger={<IconButton label={c("actionsOf", { schedule: id })} icon={<Ellipsis size={16} />} />}
      >
        {!may && <MenuLabel>{c("needsScope")}</MenuLabel>}
        <MenuItem onSelect={() => navigate(href("/runs", { cause: `schedule:${id}` }))}>
          <List size={14} aria-hidden />
          {t("runs")}
        </MenuItem>
        <MenuLine />
        <MenuItem disabled={!may} onSelect={() => navigate(scheduleHref(ref, "/edit"))}>
          <Pencil size={14} aria-hidden />
          {t("edit")}
        </MenuItem>
      </Menu>
      {pausing && <PauseDialog schedule={ref} onClose={() => setPausing(false)} />}
    </div>
  );
}
