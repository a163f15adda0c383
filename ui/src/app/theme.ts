/** Light, dark, or the setting of the system. */
import { storedValue } from "../lib/store";

export type Theme = "auto" | "light" | "dark";
const isTheme = (value: unknown): value is Theme => value === "auto" || value === "light" || value === "dark";

export const theme = storedValue<Theme>(() => localStorage, "pyoco.theme", "auto", isTheme);

const apply = () => {
  document.documentElement.dataset.theme = theme.get();
};
apply();
theme.subscribe(apply);
theme.followOtherTabs();
