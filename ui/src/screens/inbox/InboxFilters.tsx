/** The filters of the inbox, in the URL. */

import type { HumanWait } from "pyoco-server-react";
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Button } from "../../ui/controls";
import { FilterRow, FilterSelect } from "../../ui/filters";
import { SearchField } from "../../ui/SearchField";
import { choices, DUE, type Due, isFiltered, NO_FILTERS } from "./filters";
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
      <FilterSelect name="flow" label={t("flow")} any={t("allFlows")} options={flows} text={(flow) => flow} />
      {people.length > 0 && (
        <FilterSelect
          name="assignee"
          label={t("assignee")}
          any={t("everybody")}
          options={people}
          text={(person) => person}
        />
      )}
      <FilterSelect
        name="due"
        label={t("due")}
        any={t("due.any")}
        options={Object.keys(DUE) as Due[]}
        text={(due) => t(`due.${due}`)}
      />
      {isFiltered(query) && (
        <Button kind="plain" onClick={() => change(NO_FILTERS)}>
          {t("clear")}
        </Button>
      )}
    </FilterRow>
  );
}
