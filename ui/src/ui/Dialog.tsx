/** A modal dialog: the native one, which traps the focus.
 *
 * Common libraries add a <style> to the page to stop scrolling, which our policy forbids.
 */

import { X } from "lucide-react";
import { type CSSProperties, type ReactNode, useId, useLayoutEffect, useRef } from "react";
import { useMessages } from "../i18n/messages";
import { Arming, useIsArmed } from "./arming";
import { IconButton, joined } from "./controls";
import styles from "./Dialog.module.css";
import { messages } from "./messages";
import { UserText } from "./UserText";

interface DialogProps {
  open: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  /** The buttons at the bottom. */
  actions?: ReactNode;
  width?: number;
  /** Without a header: the content shows its own. The title is still announced. */
  bare?: boolean;
  className?: string;
}

export function Dialog({ open, onClose, ...rest }: DialogProps) {
  return open ? (
    <Arming>
      <OpenDialog onClose={onClose} {...rest} />
    </Arming>
  ) : null;
}

function OpenDialog({
  onClose,
  title,
  children,
  actions,
  width,
  bare,
  className,
}: Omit<DialogProps, "open">) {
  const t = useMessages(messages);
  const isArmed = useIsArmed();
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  // Before the dialog leaves the page: later, the focus may already be elsewhere.
  useLayoutEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    // The browser would focus the close button. A long dialog is read from its top.
    (dialog?.querySelector<HTMLElement>("input, textarea, select") ?? dialog)?.focus({ preventScroll: true });
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the Escape key closes it, by the browser's own doing.
    <dialog
      ref={ref}
      tabIndex={-1}
      className={joined(styles.dialog, className)}
      style={width ? ({ "--dialog-width": `${width}px` } as CSSProperties) : undefined}
      aria-labelledby={bare ? undefined : titleId}
      aria-label={bare ? title : undefined}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === ref.current && onClose()}
      onSubmitCapture={(event) => {
        if (isArmed) return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      {bare ? (
        children
      ) : (
        <>
          <header className={styles.head}>
            <h2 id={titleId}>
              <UserText text={title} />
            </h2>
            <IconButton label={t("close")} icon={<X size={16} />} onClick={onClose} />
          </header>
          <div className={styles.body}>{children}</div>
          {actions && <footer className={styles.foot}>{actions}</footer>}
        </>
      )}
    </dialog>
  );
}
