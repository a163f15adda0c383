/** How a file is shown, by its type and its name. */

export type Kind = "image" | "markdown" | "csv" | "jsonLines" | "html" | "text";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml"]);
const BY_ENDING: Record<string, Kind> = {
  md: "markdown",
  markdown: "markdown",
  csv: "csv",
  tsv: "csv",
  jsonl: "jsonLines",
  ndjson: "jsonLines",
  html: "html",
  htm: "html",
};
const TEXT_ENDINGS = new Set([
  "txt",
  "log",
  "json",
  "yaml",
  "yml",
  "toml",
  "xml",
  "ini",
  "py",
  "sql",
  "diff",
]);

/** Null: it can only be downloaded. */
export function previewOf({ name, content_type }: { name: string; content_type: string }): Kind | null {
  const type = content_type.split(";", 1)[0]?.trim() ?? "";
  const ending = name.slice(name.lastIndexOf(".") + 1).toLowerCase();
  if (IMAGES.has(type)) return "image";
  const known = BY_ENDING[ending];
  if (known) return known;
  return type.startsWith("text/") || type === "application/json" || TEXT_ENDINGS.has(ending) ? "text" : null;
}

export const kindOf = (file: { name: string; content_type: string }): Kind => previewOf(file) ?? "text";
