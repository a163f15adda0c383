/** File sizes as text. */
const UNITS = ["B", "kB", "MB", "GB"] as const;

/** "512 B", "18.2 kB", "4.1 MB": in powers of ten, as in file managers. */
export function fileSize(bytes: number): string {
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), UNITS.length - 1);
  const value = bytes / 1000 ** power;
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`;
}
