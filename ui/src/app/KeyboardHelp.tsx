/** The list of keyboard shortcuts of the current screen. */
import { Fragment } from "react";
import { useMessages } from "../i18n/messages";
import { useStore } from "../lib/store";
import { Kbd } from "../ui/controls";
import { Dialog } from "../ui/Dialog";
import styles from "./KeyboardHelp.module.css";
import { keyNames } from "./keyNames";
import { messages } from "./messages";
import { activeShortcuts } from "./shortcuts";

export function KeyboardHelp({ open, onClose }: { open: boolean; onClose: () => void }) {
  const t = useMessages(messages);
  const shortcuts = useStore(activeShortcuts).filter((each) => each.label);
  return (
    <Dialog open={open} onClose={onClose} title={t("keys")} width={520}>
      <dl className={styles.keys}>
        {shortcuts.map(({ keys, label }) => (
          <div key={keys} className={styles.row}>
            <dt>
              {keys.split(" ").map((part, at) => (
                <Fragment key={part}>
                  {at > 0 && <span className={styles.then}> {t("andThen")} </span>}
                  {keyNames(part).map((key) => (
                    <Kbd key={key}>{key}</Kbd>
                  ))}
                </Fragment>
              ))}
            </dt>
            <dd>{label}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
