/** Cut texts of the table. One layer for all of them shows the whole text on hover, and on focus. */
import { type ReactNode, type RefObject, useEffect, useId, useLayoutEffect, useRef, useState } from "react";
import { api } from "../../api/client";
import { useRead } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { jsonText, parseJson } from "../../lib/exactJson";
import { joined } from "../../ui/controls";
import { Loading } from "../../ui/feedback";
import { UserText } from "../../ui/UserText";
import { messages } from "./messages";
import styles from "./Peek.module.css";
import { CUT_CHARS, wholeParams } from "./paramsText";
import type { Run } from "./runList";

type PeekOf = "params" | "error" | "question";

const OPEN_MS = 180;
const CLOSE_MS = 160;
const EDGE = 8;

/** Keyboard users reach it with Tab; the layer finds it by `data-peek`. */
export function Peek({ of, className, children }: { of: PeekOf; className?: string; children: ReactNode }) {
  return (
    <button type="button" data-peek={of} className={joined(styles.peek, className)}>
      {children}
    </button>
  );
}

interface Shown {
  button: HTMLElement;
  of: PeekOf;
  run: Run;
}

interface LayerProps {
  /** The element with the peeks. */
  within: RefObject<HTMLElement | null>;
  rows: ReadonlyMap<string, Run>;
}

export function PeekLayer({ within, rows }: LayerProps) {
  const t = useMessages(messages);
  const [shown, setShown] = useState<Shown | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const id = useId();
  const known = useRef(rows);
  useLayoutEffect(() => {
    known.current = rows;
  });

  useEffect(() => {
    const table = within.current;
    if (!table) return;
    const later = (next: Shown | null, after: number) => {
      clearTimeout(timer.current);
      timer.current = setTimeout(() => setShown(next), after);
    };
    const at = (target: EventTarget | null): Shown | null => {
      const button = target instanceof Element ? target.closest<HTMLElement>("[data-peek]") : null;
      const run = known.current.get(button?.closest<HTMLElement>("[data-run]")?.dataset.run ?? "");
      return button && run ? { button, run, of: button.dataset.peek as PeekOf } : null;
    };
    const onOver = (event: PointerEvent) => {
      if (box.current?.contains(event.target as Node)) clearTimeout(timer.current);
      else {
        const found = at(event.target);
        later(found ?? at(document.activeElement), found ? OPEN_MS : CLOSE_MS);
      }
    };
    const onFocus = (event: FocusEvent) => later(at(event.target), 0);
    const onKey = (event: KeyboardEvent) => event.key === "Escape" && later(null, 0);
    const onScroll = (event: Event) => box.current?.contains(event.target as Node) || later(null, 0);
    document.addEventListener("pointerover", onOver);
    document.addEventListener("focusin", onFocus);
    document.addEventListener("keydown", onKey);
    document.addEventListener("scroll", onScroll, true);
    return () => {
      clearTimeout(timer.current);
      document.removeEventListener("pointerover", onOver);
      document.removeEventListener("focusin", onFocus);
      document.removeEventListener("keydown", onKey);
      document.removeEventListener("scroll", onScroll, true);
    };
  }, [within]);

  useLayoutEffect(() => {
    const element = box.current;
    if (!shown || !element) return;
    shown.button.setAttribute("aria-describedby", id);
    if (typeof element.showPopover === "function") {
      element.popover = "manual";
      element.showPopover();
    }
    place(element, shown.button);
    return () => shown.button.removeAttribute("aria-describedby");
  }, [shown, id]);

  if (!shown) return null;
  return (
    <div key={`${shown.run.run_id} ${shown.of}`} ref={box} id={id} role="tooltip" className={styles.box}>
      <strong className={styles.title}>{t(`whole.${shown.of}`)}</strong>
      <Whole
        {...shown}
        onLoaded={() => {
          if (box.current) place(box.current, shown.button);
        }}
      />
    </div>
  );
}

/** What the list has, or what the run has if the list has cut it. */
function Whole({ run, of, onLoaded }: Shown & { onLoaded: () => void }) {
  const listed = listedText(run, of);
  const { data, error } = useRead(["run", "whole", run.run_id], (signal) => readWhole(run.run_id, signal), {
    enabled: listed === null,
  });
  const text = listed ?? data?.[of];
  // biome-ignore lint/correctness/useExhaustiveDependencies: another text has another size.
  useLayoutEffect(onLoaded, [text]);
  if (text == null && error) return <p>{error.title}</p>;
  if (text == null) return <Loading />;
  return (
    <pre className={styles.text}>
      <UserText text={text} />
    </pre>
  );
}

/** Null: it was cut. */
function listedText(run: Run, of: PeekOf): string | null {
  if (of === "params") return wholeParams(run.params_preview ?? "{}");
  const text = (of === "error" ? run.error : run.wait_message) ?? "";
  return [...text].length < CUT_CHARS ? text : null;
}

async function readWhole(id: string, signal: AbortSignal): Promise<{ data: Record<PeekOf, string> }> {
  const params = { path: { run_id: id }, query: { include: ["full"] as "full"[] } };
  const { data } = await api.GET("/runs/{run_id}", { params, signal, parseAs: "text" });
  const run = parseJson(data ?? "{}") as { params?: unknown; error?: string; wait_message?: string };
  return {
    data: {
      params: jsonText(run.params ?? {}, 2),
      error: run.error ?? "",
      question: run.wait_message ?? "",
    },
  };
}

/** Below the text, or above it where there is more room; within the window. */
function place(box: HTMLElement, at: HTMLElement): void {
  const { left, top, bottom } = at.getBoundingClientRect();
  const below = window.innerHeight - bottom - EDGE;
  const isAbove = box.scrollHeight > below && top > below;
  box.style.maxHeight = `${Math.max(120, isAbove ? top - EDGE : below)}px`;
  box.style.left = `${Math.max(EDGE, Math.min(left, window.innerWidth - box.offsetWidth - EDGE))}px`;
  box.style.top = isAbove ? `${Math.max(EDGE, top - box.offsetHeight)}px` : `${bottom}px`;
}
