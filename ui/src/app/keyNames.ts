/** The names of keys on this operating system. */
const NAMES: Record<string, string> = { Enter: "↵", Escape: "Esc", shift: "⇧" };

/** `["Ctrl", "k"]` of `mod+k`. */
export function keyNames(keys: string, platform = navigator.platform): string[] {
  const names: Record<string, string> = { ...NAMES, mod: /^(Mac|iP)/.test(platform) ? "⌘" : "Ctrl" };
  return keys.split("+").map((key) => names[key] ?? key);
}
