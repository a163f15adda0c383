/** A long text: its beginning, which fades out, and a button that shows all of it. */
import { type ReactNode, useLayoutEffect, useRef, useState } from "react";
import styles from "../../agentRequests/Requests.module.css";
import { Button, joined } from "../../ui/controls";
import local from "./Request.module.css";

interface FoldedProps {
  open: string;
  close: string;
  children: ReactNode;
}

export function Folded({ open, close, children }: FoldedProps) {
  const box = useRef<HTMLDivElement>(null);
  const [isLong, setLong] = useState(false);
  const [isWhole, setWhole] = useState(false);
  useLayoutEffect(() => {
    const { current } = box;
    if (!current || isWhole) return;
    const measure = () => setLong(current.scrollHeight > current.clientHeight + 1);
    const observer = new ResizeObserver(measure);
    observer.observe(current);
    for (const child of current.children) observer.observe(child);
    measure();
    return () => observer.disconnect();
  }, [isWhole]);
  return (
    <>
      <div
        ref={box}
        className={joined(styles.body, !isWhole && local.document, isLong && !isWhole && local.faded)}
        data-folded={isLong && !isWhole}
      >
        {children}
      </div>
      {isLong && (
        <Button
          kind="plain"
          className={styles.more}
          aria-expanded={isWhole}
          onClick={() => setWhole(!isWhole)}
        >
          {isWhole ? close : open}
        </Button>
      )}
    </>
  );
}
