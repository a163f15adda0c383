/** The filters of the inbox, in the URL. */

import type { HumanWait } from "pyoco-server-react";
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Button, Select } from "../../ui/controls";
import { FilterRow } from "../../ui/filters";
import { SearchField } from "../../ui/SearchField";
import { choices, DUE, type Due, dueOf, isFiltered, NO_FILTERS } from "./filters";
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
    <FilterRow>
      <SearchField
        label={t("search")}
        placeholder={t("searchPlaceholder")}
        value={query.get("q") ?? ""}
        live
        onSearch={(text) => {
          change({ q: text.trim() }, { replace: true });
          return text;
        }}
      />
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
    </FilterRow>
  );
}
