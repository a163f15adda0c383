/** CSV and JSON lines as rows of a table. */

export interface Table {
  head: string[];
  rows: string[][];
  isCut: boolean;
}

const MOST_ROWS = 200;
const MOST_COLUMNS = 50;

/** RFC 4180: quoted fields may contain separators, quotes and line breaks. Tabs separate where the head has them. */
export function csvTable(text: string, isCut: boolean): Table {
  const firstLine = text.slice(0, text.search(/[\r\n]|$/));
  const separator = firstLine.includes("\t")
    ? "\t"
    : firstLine.includes(";") && !firstLine.includes(",")
      ? ";"
      : ",";
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let isQuoted = false;
  const endCell = () => {
    row.push(cell);
    cell = "";
  };
  const endRow = () => {
    endCell();
    if (row.length > 1 || row[0] !== "") rows.push(row);
    row = [];
  };
  for (let at = 0; at < text.length && rows.length <= MOST_ROWS + 1; at++) {
    const character = text[at] ?? "";
    if (isQuoted) {
      if (character !== '"') cell += character;
      else if (text[at + 1] === '"') {
        cell += '"';
        at++;
      } else isQuoted = false;
    } else if (character === '"' && cell === "") isQuoted = true;
    else if (character === separator) endCell();
    else if (character === "\n") endRow();
    else if (character !== "\r") cell += character;
  }
  // The last row of a part of a file may be cut as well.
  if ((cell !== "" || row.length > 0) && !isCut) endRow();
  return bounded(rows[0] ?? [], rows.slice(1), isCut);
}

/** Null: a line is no JSON. Objects have a column per key, other values one column. */
export function jsonLinesTable(text: string, isCut: boolean): Table | null {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (isCut) lines.pop();
  let values: unknown[];
  try {
    values = lines.slice(0, MOST_ROWS + 1).map((line) => JSON.parse(line) as unknown);
  } catch {
    return null;
  }
  const isRow = (value: unknown): value is Record<string, unknown> =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  if (!values.every(isRow))
    return bounded(
      ["value"],
      values.map((value) => [written(value)]),
      isCut,
    );
  const head = [...new Set(values.flatMap((value) => Object.keys(value)))];
  return bounded(
    head,
    values.map((value) => head.map((name) => written(value[name]))),
    isCut,
  );
}

const written = (value: unknown): string =>
  value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);

const bounded = (head: string[], rows: string[][], isCut: boolean): Table => ({
  head: head.slice(0, MOST_COLUMNS),
  rows: rows.slice(0, MOST_ROWS).map((row) => row.slice(0, MOST_COLUMNS)),
  isCut: isCut || rows.length > MOST_ROWS || head.length > MOST_COLUMNS,
});
