/** One question on its own page, the target of notification links. Opening it decides nothing. */
import { ArrowRight, Inbox as InboxIcon, Link as LinkIcon } from "lucide-react";
import { href, pathTo } from "../../app/router";
import type { ScreenProps } from "../../app/screens";
import { useMessages } from "../../i18n/messages";
import { ButtonLink } from "../../ui/controls";
import { Page } from "../../ui/Page";
import { messages } from "./messages";
import { isOpenIn, nextOf, useQuestions } from "./useQuestions";
import styles from "./Wait.module.css";
import { WaitPanel } from "./WaitPanel";

export default function WaitScreen({ params }: ScreenProps) {
  const t = useMessages(messages);
  const id = params.id ?? "";
  const inbox = useQuestions();
  const isOpen = isOpenIn(inbox, id);
  const next = nextOf(inbox.waits, id);
  const toNext = next && (
    <ButtonLink className={styles.next} href={href(pathTo("/waits/:id", { id: next.wait_id }))}>
      {t("next")}
      <ArrowRight size={14} aria-hidden />
    </ButtonLink>
  );
  return (
    <Page
      title={t("title")}
      actions={
        <>
          <ButtonLink href={href("/inbox")}>
            <InboxIcon size={14} aria-hidden />
            {t("toInbox")}
          </ButtonLink>
          {/* Below the result, once there is one. */}
          {isOpen && toNext}
        </>
      }
    >
      <div className={styles.sheet}>
        <WaitPanel key={id} id={id} respond={inbox.respond} isOpen={isOpen} next={toNext} />
        <p className={styles.footnote}>
          <LinkIcon size={12} aria-hidden />
          {t("linkNote")}
        </p>
      </div>
    </Page>
  );
}
