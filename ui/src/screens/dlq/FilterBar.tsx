/** The filters of letters: text, words such as `flow:etl`, reasons and time. */
import { ChevronDown } from "lucide-react";
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Button, Select } from "../../ui/controls";
import { FilterChips, FilterRow } from "../../ui/filters";
import { Menu, MenuCheck } from "../../ui/menus";
import { SearchField } from "../../ui/SearchField";
import { NO_FILTERS, parseTyped, REASONS, SPANS, type Span, spanOf, WORDS } from "./filters";
import { messages } from "./messages";
import { useReasonText } from "./reasons";

export function FilterBar() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const spans: (Span | "any")[] = ["any", ...(Object.keys(SPANS) as Span[])];
  return (
    <FilterRow>
      <SearchField
        label={t("search")}
        placeholder={t("searchPlaceholder")}
        value={query.get("q") ?? ""}
        onSearch={(text) => {
          const patch = parseTyped(text);
          change(patch);
          return typeof patch.q === "string" ? patch.q : "";
        }}
      />
      <ReasonMenu />
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

function ReasonMenu() {
  const t = useMessages(messages);
  const word = useReasonText();
  const [query, change] = useQueryState();
  const chosen = query.getAll("reason");
  const toggle = (reason: string) =>
    change({ reason: chosen.includes(reason) ? without(chosen, reason) : [...chosen, reason], cursor: null });
  return (
    <Menu
      trigger={
        <Button>
          {t("reasons")}
          <ChevronDown size={13} aria-hidden />
        </Button>
      }
    >
      {REASONS.map((reason) => (
        <MenuCheck key={reason} checked={chosen.includes(reason)} onChange={() => toggle(reason)}>
          {word(reason)}
        </MenuCheck>
      ))}
    </Menu>
  );
}

const without = (words: readonly string[], word: string) => words.filter((each) => each !== word);

function Chips() {
  const t = useMessages(messages);
  const reasonWord = useReasonText();
  const [query] = useQueryState();
  const reasons = query.getAll("reason");
  const set = [
    ...reasons.map((reason) => ({
      key: reason,
      name: t("word.reason"),
      value: reasonWord(reason),
      without: { reason: without(reasons, reason), cursor: null },
    })),
    ...[...WORDS, "q" as const]
      .filter((name) => query.get(name))
      .map((name) => ({
        key: name,
        name: t(`word.${name}`),
        value: query.get(name) ?? "",
        without: { [name]: null, cursor: null },
      })),
  ];
  return set.length > 0 && <FilterChips chips={set} none={NO_FILTERS} />;
}
