import { useMessages } from "../../i18n/messages";
import { isReason } from "./filters";
import { messages } from "./messages";

/** The text of a reason. An unknown reason is shown as it is. */
export function useReasonText(): (reason: string) => string {
  const t = useMessages(messages);
  return (reason) => (isReason(reason) ? t(`reason.${reason}`) : reason);
}
