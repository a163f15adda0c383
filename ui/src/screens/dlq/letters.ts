/** Reads pages of dead letters. */
import { api, type Schemas } from "../../api/client";
import type { LetterFilter } from "./filters";

export type Letter = Schemas["LetterView"];
type Page = Schemas["LettersView"];

export const PAGE = 50;
// One response covers a part of the stream; after this many without a match, stop.
const MOST_EMPTY = 20;

type Ask = (cursor: string | null, limit: number) => Promise<Page>;

/** Letters from the cursor on, until the page is full or there are no more. */
export async function fullPage(ask: Ask, cursor: string | null): Promise<Page> {
  const items: Letter[] = [];
  let next = cursor;
  for (let asked = 0; asked < MOST_EMPTY && items.length < PAGE; asked += 1) {
    const page = await ask(next, PAGE - items.length);
    items.push(...page.items);
    next = page.next_cursor;
    if (next === null) break;
  }
  return { items, next_cursor: next };
}

export async function readLetters(filter: LetterFilter, cursor: string | null, signal: AbortSignal) {
  const ask: Ask = async (from, limit) => {
    const query = { ...filter, limit, ...(from !== null && { cursor: Number(from) }) };
    const { data } = await api.GET("/dlq", { params: { query }, signal });
    return data as Page;
  };
  return { data: await fullPage(ask, cursor) };
}
