/** The filters of the inbox. They are part of the address. */
import { Search } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { useQueryState } from "../../app/router";
import { useShortcut } from "../../app/shortcuts";
import type { HumanWait } from "../../human-waits";
import { useMessages } from "../../i18n/messages";
import { Button, Input, Kbd, Select } from "../../ui/controls";
import { choices, DUE, type Due, dueOf, isFiltered, NO_FILTERS } from "./filters";
import styles from "./Inbox.module.css";
import { messages } from "./messages";

export function InboxFilters({ waits }: { waits: readonly HumanWait[] }) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const flows = choices(
    waits.map(({ flow_name }) => flow_name),
    query.get("flow"),
  );
  const people = choices(
    waits.flatMap(({ assignees }) => assignees),
    query.get("assignee"),
  );
  const dues: (Due | "any")[] = ["any", ...(Object.keys(DUE) as Due[])];
  return (
    <search className={styles.filters}>
      <SearchField />
      <Select
        aria-label={t("flow")}
        value={query.get("flow") ?? ""}
        onChange={({ target }) => change({ flow: target.value })}
      >
        <option value="">{t("allFlows")}</option>
        {flows.map((flow) => (
          <option key={flow}>{flow}</option>
        ))}
      </Select>
      {people.length > 0 && (
        <Select
          aria-label={t("assignee")}
          value={query.get("assignee") ?? ""}
          onChange={({ target }) => change({ assignee: target.value })}
        >
          <option value="">{t("everybody")}</option>
          {people.map((person) => (
            <option key={person}>{person}</option>
          ))}
        </Select>
      )}
      <Select
        aria-label={t("due")}
        value={dueOf(query) ?? "any"}
        onChange={({ target }) => change({ due: target.value === "any" ? null : target.value })}
      >
        {dues.map((due) => (
          <option key={due} value={due}>
            {t(`due.${due}`)}
          </option>
        ))}
      </Select>
      {isFiltered(query) && (
        <Button kind="plain" onClick={() => change(NO_FILTERS)}>
          {t("clear")}
        </Button>
      )}
    </search>
  );
}

function SearchField() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const kept = query.get("q") ?? "";
  const [text, setText] = useState(kept);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => setText(kept), [kept]);
  useShortcut("/", () => field.current?.focus(), t("keySearch"));
  return (
    <div className={styles.searchField}>
      <Search size={14} aria-hidden />
      <Input
        ref={field}
        type="search"
        aria-label={t("search")}
        placeholder={t("searchPlaceholder")}
        value={text}
        maxLength={200}
        onChange={({ target }) => {
          setText(target.value);
          change({ q: target.value.trim() }, { replace: true });
        }}
        onKeyDown={(event) => event.key === "Escape" && field.current?.blur()}
      />
      <Kbd>/</Kbd>
    </div>
  );
}
