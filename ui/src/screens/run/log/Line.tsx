/** One line of a log: time, task, level, and its text with colours and matches. */
import { ChevronDown, ChevronRight, Link } from "lucide-react";
import { type MouseEvent, memo } from "react";
import { useLanguage } from "../../../i18n/language";
import { currentMessages, useMessages } from "../../../i18n/messages";
import { clockTime, exactTime } from "../../../i18n/time";
import { visible } from "../../../lib/visible";
import { joined } from "../../../ui/controls";
import { showToast } from "../../../ui/toasts";
import { UserText } from "../../../ui/UserText";
import { parseAnsi, type StyledPart } from "./ansi";
import { cssOf } from "./colours";
import styles from "./Log.module.css";
import { type LogLine, levelOf, matchesIn, segments, structure } from "./logLines";
import { messages } from "./messages";

interface LineProps {
  line: LogLine;
  search: string;
  /** The linked line, or the current match. */
  isCurrent: boolean;
  /** Whether its fields are shown. */
  isOpen: boolean;
  /** Of the selected task. */
  isChosen: boolean;
  onToggle: (id: string) => void;
  onSelect?: (name: string | null) => void;
  href?: string;
  /** The line before it is of another task. */
  startsTask: boolean;
}

export const Line = memo(function Line(props: LineProps) {
  const { line, search, isCurrent, isChosen, onSelect, href, startsTask } = props;
  const t = useMessages(messages);
  const language = useLanguage();
  const level = levelOf(line);
  const { level: named, message, fields } = structure(line);
  const { task } = line;
  return (
    <div
      className={joined(
        styles.line,
        (level === "error" || level === "critical") && styles.error,
        level === "warning" && styles.warning,
        isChosen && styles.chosen,
        isCurrent && styles.current,
      )}
      data-stream={line.stream}
      data-line={line.id}
      data-level={level ?? undefined}
      data-starts-task={(startsTask && task !== null) || undefined}
      aria-current={isCurrent || undefined}
    >
      <time className={styles.time} title={exactTime(line.ts, language)}>
        {clockTime(line.ts)}
        <span>.{String(Math.floor((line.ts % 1) * 1000)).padStart(3, "0")}</span>
      </time>
      {onSelect === undefined ? null : task === null ? (
        <span className={styles.task} />
      ) : (
        <button
          type="button"
          className={styles.task}
          title={visible(task)}
          tabIndex={-1}
          onClick={() => onSelect(task)}
        >
          <UserText text={task} />
        </button>
      )}
      <div className={styles.content}>
        {named && (
          <span className={styles.badge} data-badge={named}>
            {named}
          </span>
        )}
        <bdi className={styles.text}>
          {message === null ? (
            <Segments text={line.text} parts={line.parts} search={search} />
          ) : (
            <Segments {...parseAnsi(message)} search={search} />
          )}
        </bdi>
        {message !== null && fields.length > 0 && <Fields {...props} fields={fields} />}
      </div>
      {href && (
        <a
          className={styles.link}
          href={href}
          tabIndex={isCurrent ? 0 : -1}
          aria-label={t("linkTo")}
          title={t("linkTo")}
          onClick={copyLink}
        >
          <Link size={12} aria-hidden />
        </a>
      )}
    </div>
  );
});

/** Copies the address; where the browser does not allow that, the link is followed. */
function copyLink(event: MouseEvent<HTMLAnchorElement>): void {
  if (!navigator.clipboard || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  void navigator.clipboard
    .writeText(event.currentTarget.href)
    .then(() => showToast({ tone: "good", title: currentMessages(messages)("linkCopied") }));
}

interface SegmentsProps {
  text: string;
  search: string;
  parts?: readonly StyledPart[];
}

function Segments({ text, search, parts }: SegmentsProps) {
  return segments(text, search, parts).map((each, index) => {
    const shown = visible(each.text);
    // biome-ignore-start lint/suspicious/noArrayIndexKey: parts of one text have no other name.
    if (each.isMatch) return <mark key={index}>{shown}</mark>;
    if (!each.part) return shown;
    return (
      <span key={index} data-ansi style={cssOf(each.part.style)}>
        {shown}
      </span>
    );
    // biome-ignore-end lint/suspicious/noArrayIndexKey: parts of one text have no other name.
  });
}

function Fields({
  line,
  search,
  isOpen,
  onToggle,
  fields,
}: LineProps & { fields: readonly (readonly [string, string])[] }) {
  const t = useMessages(messages);
  const { message } = structure(line);
  // A match that only the fields have would not be seen.
  const hasHiddenMatch =
    search !== "" &&
    matchesIn([line], search).length > 0 &&
    matchesIn([{ ...line, text: message ?? "" }], search).length === 0;
  const open = isOpen || hasHiddenMatch;
  const Icon = open ? ChevronDown : ChevronRight;
  return (
    <>
      <button
        type="button"
        className={styles.fieldsButton}
        aria-expanded={open}
        tabIndex={-1}
        onClick={() => onToggle(line.id)}
      >
        <Icon size={11} aria-hidden />
        {t("fields", { count: fields.length })}
      </button>
      {open && (
        <dl className={styles.fields}>
          {fields.map(([name, value]) => (
            <div key={name}>
              <dt>
                <Segments text={name} search={search} />
              </dt>
              <dd>
                <Segments {...parseAnsi(value)} search={search} />
              </dd>
            </div>
          ))}
        </dl>
      )}
    </>
  );
}
