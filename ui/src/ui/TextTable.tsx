import type { ReactNode } from "react";

interface TextTableProps {
  head: readonly string[];
  rows: readonly (readonly string[])[];
  /** What a cell shows of its text. */
  cell: (text: string) => ReactNode;
}

/** A table of texts, whose rows and columns have no other names than their numbers. */
export function TextTable({ head, rows, cell }: TextTableProps) {
  const keyed = (cells: readonly string[]) => cells.map((text, index) => [`${index}`, text] as const);
  return (
    <table>
      <thead>
        <tr>
          {keyed(head).map(([key, text]) => (
            <th key={key} scope="col">
              {cell(text)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: see above.
          <tr key={index}>
            {keyed(row).map(([key, text]) => (
              <td key={key}>{cell(text)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
