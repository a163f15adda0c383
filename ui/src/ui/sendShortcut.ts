/** Ctrl or Cmd with Enter submits only the focused form: an answer cannot be undone. */
import type { KeyboardEvent } from "react";

export const SEND_KEYS = "Control+Enter Meta+Enter";

export const onSendShortcut = (send: () => void) => (event: KeyboardEvent) => {
  const isSend = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  if (!isSend || event.nativeEvent.isComposing || event.defaultPrevented) return;
  event.preventDefault();
  send();
};
