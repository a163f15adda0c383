/** The inbox: a live list, and the selected question. */
import { ArrowRight, Inbox as InboxIcon, Maximize2, MousePointerClick } from "lucide-react";
import type { HumanWait } from "pyoco-server-react";
import { useEffect, useLayoutEffect, useRef } from "react";
import { queryClient } from "../../api/queries";
import { href, navigate, patched, pathTo, useQueryState } from "../../app/router";
import { useShortcut } from "../../app/shortcuts";
import { useMessages } from "../../i18n/messages";
import { useNarrow } from "../../lib/media";
import { Button, ButtonLink, Segments } from "../../ui/controls";
import { EmptyState, Loading, NothingMatches, ProblemBox } from "../../ui/feedback";
import { Page } from "../../ui/Page";
import { useStepKeys } from "../../ui/stepKeys";
import { type Inbox, isOpenIn, useQuestions } from "../wait/useQuestions";
import { WaitPanel } from "../wait/WaitPanel";
import { ClosedWaits } from "./ClosedWaits";
import { isFiltered, matching, NO_FILTERS, VIEWS, viewOf } from "./filters";
import styles from "./Inbox.module.css";
import { InboxFilters } from "./InboxFilters";
import { messages } from "./messages";
import { WaitList } from "./WaitList";

export default function InboxScreen() {
  const inbox = useQuestions();
  const [query] = useQueryState();
  const narrow = useNarrow();
  const view = viewOf(query);
  const shown = matching(inbox.waits, query, Date.now() / 1000);
  const selected = narrow ? null : query.get("wait");
  useFirstSelected(shown, selected, narrow || view !== "open");
  useCountInNavigation(inbox);
  const hrefOf = ({ wait_id }: { wait_id: string }) =>
    narrow ? href(pathTo("/waits/:id", { id: wait_id })) : href("/inbox", patched(query, { wait: wait_id }));
  const step = useSteps(shown, selected);
  if (view !== "open")
    return (
      <Frame inbox={inbox} shown={shown.length}>
        <div className={styles.panes}>
          <ClosedWaits key={view} view={view} selected={selected} hrefOf={hrefOf} />
          {!narrow && <Side inbox={inbox} selected={selected} onStep={step} hasNext={false} />}
        </div>
      </Frame>
    );
  return (
    <Frame inbox={inbox} shown={shown.length}>
      {!inbox.ready ? (
        !inbox.problem && <Loading />
      ) : inbox.waits.length === 0 && !selected ? (
        <NothingAsked />
      ) : (
        <>
          <InboxFilters waits={inbox.waits} />
          <div className={styles.panes}>
            {shown.length > 0 ? (
              <WaitList waits={shown} selected={selected} hrefOf={hrefOf} />
            ) : (
              <NoneShown filtered={isFiltered(query)} />
            )}
            {!narrow && <Side inbox={inbox} selected={selected} onStep={step} hasNext={shown.length > 0} />}
          </div>
        </>
      )}
    </Frame>
  );
}

function Frame({ inbox, shown, children }: { inbox: Inbox; shown: number; children: React.ReactNode }) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const count = inbox.waits.length;
  return (
    <Page
      full
      title={t("title")}
      actions={
        <Segments
          label={t("view")}
          value={viewOf(query)}
          options={VIEWS.map((value) => ({ value, label: t(`view.${value}`) }))}
          onChange={(view) => change({ ...NO_FILTERS, view: view === "open" ? null : view, wait: null })}
        />
      }
      note={inbox.ready && (shown === count ? t("open", { count }) : t("shown", { shown, count }))}
    >
      {/* That the gateway does not answer is said once, in the frame. */}
      {inbox.problem !== null && !(inbox.ready && inbox.state === "away") && (
        <div className={styles.problem}>
          <ProblemBox problem={inbox.problem} onRetry={() => void inbox.reload().catch(() => undefined)} />
        </div>
      )}
      {children}
    </Page>
  );
}

interface SideProps {
  inbox: Inbox;
  selected: string | null;
  onStep: (by: number) => void;
  hasNext: boolean;
}

function Side({ inbox, selected, onStep, hasNext }: SideProps) {
  const t = useMessages(messages);
  const [query] = useQueryState();
  const side = useRef<HTMLElement>(null);
  useStepKeys(onStep, { next: t("next"), previous: t("previous") });
  useShortcut("Enter", () => firstControl(side.current)?.focus(), t("answer"));
  useEffect(() => {
    if (selected) side.current?.scrollTo(0, 0);
  }, [selected]);
  if (!selected)
    return (
      <section className={styles.side}>
        <EmptyState icon={MousePointerClick} title={t("chooseTitle")}>
          {t(viewOf(query) === "open" ? "chooseText" : "chooseDecided")}
        </EmptyState>
      </section>
    );
  const page = href(pathTo("/waits/:id", { id: selected }));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys.
    <section ref={side} className={styles.side} tabIndex={0} aria-label={t("answer")}>
      <WaitPanel
        key={selected}
        id={selected}
        respond={inbox.respond}
        isOpen={isOpenIn(inbox, selected)}
        // The result is shown first; the form that had the focus is gone.
        onAnswered={() => side.current?.focus()}
        next={
          hasNext && (
            <Button className={styles.next} onClick={() => onStep(1)}>
              {t("next")}
              <ArrowRight size={14} aria-hidden />
            </Button>
          )
        }
        actions={
          <ButtonLink kind="plain" href={page} title={t("openPage")} aria-label={t("openPage")}>
            <Maximize2 size={14} aria-hidden />
          </ButtonLink>
        }
      />
    </section>
  );
}

/** Keys of the answer itself. */
function firstControl(side: HTMLElement | null) {
  const control = ":is(input, textarea, select)";
  const find = (selector: string) => side?.querySelector<HTMLElement>(selector);
  return find(`form [data-field] ${control}`) ?? find(`form ${control}`);
}

/** Selects the next or the previous question of the list. */
function useSteps(shown: readonly HumanWait[], selected: string | null): (by: number) => void {
  const [, change] = useQueryState();
  const place = shown.findIndex(({ wait_id }) => wait_id === selected);
  // An answered question is no longer in the list: those after it have moved up to its place.
  const last = useRef(0);
  useEffect(() => {
    if (place >= 0) last.current = place;
  }, [place]);
  return (by) => {
    const target = place >= 0 ? place + by : by > 0 ? last.current : last.current - 1;
    const next = shown[Math.min(Math.max(target, 0), shown.length - 1)];
    if (next) change({ wait: next.wait_id }, { replace: true });
  };
}

/** The most urgent question is selected by default, and stays selected. */
function useFirstSelected(shown: readonly HumanWait[], selected: string | null, narrow: boolean) {
  const [query] = useQueryState();
  const first = shown[0]?.wait_id;
  // Before it is painted: a later effect would undo the selection of another one.
  useLayoutEffect(() => {
    if (!narrow && !selected && first)
      navigate(href("/inbox", patched(query, { wait: first })), { replace: true });
  }, [narrow, selected, first, query]);
}

/** Updates the polled number in the navigation at once. */
function useCountInNavigation({ ready, waits }: Inbox) {
  const count = waits.length;
  useEffect(() => {
    if (ready) queryClient.setQueryData(["waits", "count"], { items: [], next_cursor: null, total: count });
  }, [ready, count]);
}

function NothingAsked() {
  const t = useMessages(messages);
  return (
    <EmptyState
      icon={InboxIcon}
      title={t("emptyTitle")}
      actions={
        <>
          <ButtonLink kind="primary" href={href("/submit")}>
            {t("emptySubmit")}
          </ButtonLink>
          <ButtonLink href={href("/runs")}>{t("emptyRuns")}</ButtonLink>
        </>
      }
    >
      {t("emptyText")}
      <pre className={styles.example}>{EXAMPLE}</pre>
    </EmptyState>
  );
}

const EXAMPLE = 'ok = ctx.human("Pay 120 EUR to Ada?")';

function NoneShown({ filtered }: { filtered: boolean }) {
  const t = useMessages(messages);
  const [, change] = useQueryState();
  if (!filtered) return <EmptyState icon={InboxIcon} title={t("emptyTitle")} />;
  return (
    <NothingMatches title={t("nothingTitle")} onClear={() => change(NO_FILTERS)}>
      {t("nothingText")}
    </NothingMatches>
  );
}
