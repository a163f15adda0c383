/** Why a schedule is paused: in our own words if the gateway paused it. */
import { href, pathTo } from "../app/router";
import { useMessages } from "../i18n/messages";
import { UserText } from "../ui/UserText";
import { messages } from "./messages";
import { pauseReason } from "./pauseReason";

export function PauseNote({ note }: { note: string }) {
  const t = useMessages(messages);
  const reason = pauseReason(note);
  if (!reason) return <UserText text={note} />;
  const { kind, runId: id } = reason;
  const short = <code>{id.slice(0, 8)}</code>;
  return (
    <>
      {t(`pausedBy.${kind}`)} {/* One that was not started does not exist. */}
      {kind === "failed" ? <a href={href(pathTo("/runs/:id", { id }))}>{short}</a> : short}
    </>
  );
}
