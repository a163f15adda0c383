/** The filters of the audit log: words such as `actor:ann`, action, outcome and time. */
import { useQueryState } from "../../app/router";
import { ACTIONS, KINDS, kindOf } from "../../audit/actions";
import { OUTCOMES } from "../../audit/auditApi";
import { useActionText } from "../../audit/EntryParts";
import { messages } from "../../audit/messages";
import { useMessages } from "../../i18n/messages";
import { Select } from "../../ui/controls";
import { FilterChips, FilterRow } from "../../ui/filters";
import { SearchField } from "../../ui/SearchField";
import { NO_FILTERS, parseTyped, SPANS, type Span, spanOf } from "./filters";

export function FilterBar() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const spans: (Span | "any")[] = ["any", ...(Object.keys(SPANS) as Span[])];
  return (
    <FilterRow>
      <SearchField
        label={t("search")}
        placeholder={t("searchPlaceholder")}
        value=""
        onSearch={(text) => {
          change(parseTyped(text));
          return "";
        }}
      />
      <ActionSelect />
      <Select
        aria-label={t("outcome")}
        value={query.get("outcome") ?? ""}
        onChange={({ target }) => change({ outcome: target.value, cursor: null })}
      >
        <option value="">{t("anyOutcome")}</option>
        {OUTCOMES.map((each) => (
          <option key={each} value={each}>
            {t(`outcome.${each}`)}
          </option>
        ))}
      </Select>
      <Select
        aria-label={t("since")}
        value={spanOf(query) ?? "any"}
        onChange={({ target }) =>
          change({ since: target.value === "any" ? null : target.value, cursor: null })
        }
      >
        {spans.map((span) => (
          <option key={span} value={span}>
            {t(`span.${span}`)}
          </option>
        ))}
      </Select>
      <Chips />
    </FilterRow>
  );
}

function ActionSelect() {
  const t = useMessages(messages);
  const text = useActionText();
  const [query, change] = useQueryState();
  return (
    <Select
      aria-label={t("action")}
      value={query.get("action") ?? ""}
      onChange={({ target }) => change({ action: target.value, cursor: null })}
    >
      <option value="">{t("anyAction")}</option>
      {KINDS.map((kind) => (
        <optgroup key={kind} label={t(`kind.${kind}`)}>
          <option value={kind}>{t("allOf", { kind: t(`kind.${kind}`) })}</option>
          {ACTIONS.filter((action) => kindOf(action) === kind).map((action) => (
            <option key={action} value={action}>
              {text(action)}
            </option>
          ))}
        </optgroup>
      ))}
    </Select>
  );
}

function Chips() {
  const t = useMessages(messages);
  const [query] = useQueryState();
  const set = (["actor", "target", "run_id"] as const)
    .filter((name) => query.get(name))
    .map((name) => ({
      key: name,
      name: t(`word.${name}`),
      value: query.get(name) ?? "",
      without: { [name]: null, cursor: null },
    }));
  return set.length > 0 && <FilterChips chips={set} none={NO_FILTERS} />;
}
