/** An answer as it was given: yes or no in words. */
import { useMessages } from "../../i18n/messages";
import { messages as form } from "../../schemaForm/messages";
import { JsonView } from "./JsonView";

export function AnswerView({ value }: { value: unknown }) {
  const t = useMessages(form);
  return typeof value === "boolean" ? <span>{t(value ? "yes" : "no")}</span> : <JsonView value={value} />;
}
