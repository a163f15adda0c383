/** The filters of letters: text, words such as `flow:etl`, reasons and time. */
import { ChevronDown } from "lucide-react";
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Button } from "../../ui/controls";
import { FilterChips, FilterRow, SpanSelect, searchTyped, wordChips } from "../../ui/filters";
import { Menu, MenuCheck } from "../../ui/menus";
import { SearchField } from "../../ui/SearchField";
import { NO_FILTERS, parseTyped, REASONS, WORDS } from "./filters";
import { messages } from "./messages";
import { useReasonText } from "./reasons";

export function FilterBar() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  return (
    <FilterRow>
      <SearchField
        label={t("search")}
        placeholder={t("searchPlaceholder")}
        value={query.get("q") ?? ""}
        onSearch={searchTyped(parseTyped, change)}
      />
      <ReasonMenu />
      <SpanSelect label={t("since")} text={(span) => t(`span.${span}`)} />
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
    ...wordChips(query, [...WORDS, "q"] as const, (name) => t(`word.${name}`)),
  ];
  return set.length > 0 && <FilterChips chips={set} none={NO_FILTERS} />;
}
