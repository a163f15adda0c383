/** A month of occurrences, and those of the chosen day. */
import { CalendarDays, ChevronLeft, ChevronRight } from "lucide-react";
import { type KeyboardEvent, useMemo, useRef, useState } from "react";
import { useLanguage } from "../../i18n/language";
import { listText, useMessages } from "../../i18n/messages";
import { useNow } from "../../lib/clock";
import type { Schedule } from "../../schedules/schedule";
import { refOf } from "../../schedules/scheduleRef";
import {
  addDays,
  addMonths,
  type Day,
  dayOf,
  dayTitle,
  monthTitle,
  startOfDay,
  weekdayTitles,
  weeksOf,
} from "../../schedules/zones";
import { Button, IconButton, joined } from "../../ui/controls";
import { ProblemBox } from "../../ui/feedback";
import { useStatusText } from "../../ui/status";
import { Panel } from "../run/Panel";
import { DayList } from "./DayList";
import { MarkIcon, markClass } from "./marks";
import { messages } from "./messages";
import { byDay, type Mark, marksOf, type Occurrence, occurrencesOf } from "./occurrences";
import styles from "./Schedule.module.css";
import { MOST_COMING, MOST_RUNS, type RunRow, useComing, useRunsWithin } from "./useScheduleData";

interface CalendarProps {
  schedule: Schedule;
  recent: readonly RunRow[];
}

export function Calendar({ schedule, recent }: CalendarProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  const zone = schedule.spec.timezone;
  const today = dayOf(useNow(), zone);
  const [chosen, setChosen] = useState<Day | null>(null);
  const day = chosen ?? today;
  const month = `${day.slice(0, 7)}-01`;
  const { days, isCut, isCutAhead, error } = useOccurrences(schedule, recent, month);
  const move = (to: Day) => setChosen(to === today ? null : to);
  return (
    <Panel
      title={t("calendar")}
      icon={CalendarDays}
      actions={
        <div className={styles.monthBar}>
          <span className={styles.soft}>{t("inZone", { zone })}</span>
          <IconButton
            label={t("previousMonth")}
            icon={<ChevronLeft size={16} />}
            onClick={() => move(addMonths(month, -1))}
          />
          <strong className={styles.month} aria-live="polite">
            {monthTitle(month, language)}
          </strong>
          <IconButton
            label={t("nextMonth")}
            icon={<ChevronRight size={16} />}
            onClick={() => move(addMonths(month, 1))}
          />
          <Button disabled={chosen === null} onClick={() => setChosen(null)}>
            {t("today")}
          </Button>
        </div>
      }
    >
      {error && <ProblemBox problem={error} />}
      <div className={styles.calendar}>
        <Month month={month} days={days} day={day} today={today} onChoose={move} />
        <DayList key={day} day={day} occurrences={days.get(day) ?? []} zone={zone} paused={schedule.paused} />
      </div>
      {isCut && <p className={styles.cut}>{t("moreRuns", { count: MOST_RUNS })}</p>}
      {isCutAhead && <p className={styles.cut}>{t("moreComing", { count: MOST_COMING })}</p>}
    </Panel>
  );
}

function useOccurrences(schedule: Schedule, recent: readonly RunRow[], month: Day) {
  const { spec, decisions, remaining_runs: remaining } = schedule;
  const weeks = weeksOf(month);
  const from = startOfDay(weeks[0]?.[0] ?? month, spec.timezone);
  const to = startOfDay(addDays(weeks.at(-1)?.at(-1) ?? month, 1), spec.timezone);
  const { runs: within = NONE, error } = useRunsWithin(refOf(schedule), from, to);
  const now = Math.floor(useNow());
  // Read once a minute, not every second.
  const after = Math.max(from, now - (now % 60));
  const coming = useComing(spec, after, after < to);
  return useMemo(() => {
    const runs = new Map([...within, ...recent].map((run) => [run.run_id, run]));
    const left = remaining ?? Number.POSITIVE_INFINITY;
    const ahead = coming.filter((at) => at > now).slice(0, left);
    const last = ahead.at(-1) ?? to;
    const isCutAhead = coming.length >= MOST_COMING && ahead.length < left && last < to;
    const shown = occurrencesOf(
      [...runs.values()],
      decisions,
      ahead.filter((at) => at < to),
    );
    return {
      // How many the last day has is not known.
      days: byDay(isCutAhead ? shown.map((each) => endingAt(each, last)) : shown, spec.timezone),
      isCut: within.length >= MOST_RUNS,
      isCutAhead,
      error,
    };
  }, [within, recent, decisions, coming, now, to, spec.timezone, remaining, error]);
}

const NONE: RunRow[] = [];

/** The last that was read: more may follow it. */
const endingAt = (each: Occurrence, last: number): Occurrence =>
  each.kind === "coming" && each.at === last ? { ...each, atLeast: true } : each;

interface MonthProps {
  month: Day;
  days: ReadonlyMap<Day, readonly Occurrence[]>;
  day: Day;
  today: Day;
  onChoose: (day: Day) => void;
}

const STEPS: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -7, ArrowDown: 7 };

function Month({ month, days, day, today, onChoose }: MonthProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  const grid = useRef<HTMLTableElement>(null);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = STEPS[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const to = addDays(day, step);
    onChoose(to);
    // Drawn first: the day may be in another month.
    requestAnimationFrame(() => grid.current?.querySelector<HTMLElement>(`[data-day="${to}"]`)?.focus());
  };
  return (
    <table ref={grid} className={styles.grid} aria-label={t("calendarLabel")}>
      <thead>
        <tr>
          {weekdayTitles(language).map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {weeksOf(month).map((week) => (
          <tr key={week[0]}>
            {week.map((each) => (
              <td key={each}>
                <DayCell
                  day={each}
                  occurrences={days.get(each) ?? []}
                  chosen={each === day}
                  isToday={each === today}
                  outside={each.slice(0, 7) !== month.slice(0, 7)}
                  onChoose={() => onChoose(each)}
                  onKeyDown={onKeyDown}
                />
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface DayCellProps {
  day: Day;
  occurrences: readonly Occurrence[];
  chosen: boolean;
  isToday: boolean;
  outside: boolean;
  onChoose: () => void;
  onKeyDown: (event: KeyboardEvent) => void;
}

function DayCell({ day, occurrences, chosen, isToday, outside, onChoose, onKeyDown }: DayCellProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  const word = useMarkText();
  const marks = marksOf(occurrences);
  const title = dayTitle(day, language);
  const number = (mark: Mark) => t(mark.atLeast ? "atLeast" : "exactly", { count: mark.count });
  const said = listText(marks.map((each) => t("countOf", { count: number(each), what: word(each.mark) })));
  return (
    <button
      type="button"
      className={joined(
        styles.day,
        chosen && styles.chosen,
        isToday && styles.today,
        outside && styles.outside,
      )}
      data-day={day}
      aria-pressed={chosen}
      aria-current={isToday ? "date" : undefined}
      tabIndex={chosen ? 0 : -1}
      onClick={onChoose}
      onKeyDown={onKeyDown}
    >
      <span className="hidden-visually">
        {marks.length > 0 ? t("dayMarks", { day: title, marks: said }) : t("dayEmpty", { day: title })}
      </span>
      <span className={styles.date} aria-hidden>
        {Number(day.slice(8))}
      </span>
      <span className={styles.marks} aria-hidden>
        {marks.map((each) => (
          <span key={each.mark} className={joined(styles.mark, markClass(each.mark))}>
            <MarkIcon mark={each.mark} />
            {number(each)}
          </span>
        ))}
      </span>
    </button>
  );
}

const OWN = ["coming", "skipped", "buffered", "started"] as const;

/** The word of a mark: the status of a run, or one of ours. */
function useMarkText(): (mark: string) => string {
  const t = useMessages(messages);
  const status = useStatusText();
  return (mark) => {
    const own = OWN.find((each) => each === mark);
    return own ? t(`mark.${own}`) : status(mark);
  };
}
