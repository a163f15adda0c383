/** Words such as `flow:etl` or `flow:"my etl"` in a search field. */

/** Calls `take` for each of them; what it does not take is returned as text, with the rest. */
export function extractFilters(text: string, take: (name: string, value: string) => boolean): string {
  const rest = text.replace(/(?:^|\s)(\w+):(?:"([^"]+)"|(\S+))/g, (whole, name: string, quoted, plain) =>
    take(name, quoted ?? plain) ? " " : whole,
  );
  return rest.trim().replace(/\s+/g, " ");
}
