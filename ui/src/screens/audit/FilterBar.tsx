/** The filters of the audit log: words such as `actor:ann`, action, outcome and time. */
import { useQueryState } from "../../app/router";
import { ACTIONS, KINDS, kindOf } from "../../audit/actions";
import { OUTCOMES } from "../../audit/auditApi";
import { useActionText } from "../../audit/EntryParts";
import { messages } from "../../audit/messages";
import { useMessages } from "../../i18n/messages";
import { Select } from "../../ui/controls";
import { FilterChips, FilterRow, FilterSelect, SpanSelect, wordChips } from "../../ui/filters";
import { SearchField } from "../../ui/SearchField";
import { NO_FILTERS, parseTyped } from "./filters";

export function FilterBar() {
  const t = useMessages(messages);
  const [, change] = useQueryState();
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
      <FilterSelect
        name="outcome"
        label={t("outcome")}
        any={t("anyOutcome")}
        options={OUTCOMES}
        text={(each) => t(`outcome.${each}`)}
      />
      <SpanSelect label={t("since")} text={(span) => t(`span.${span}`)} />
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
  const set = wordChips(query, ["actor", "target", "run_id"], (name) => t(`word.${name}`));
  return set.length > 0 && <FilterChips chips={set} none={NO_FILTERS} />;
}
