/** The current language: chosen in this browser, else the one that the gateway put into the page. */
import { createStore, storedValue, useStore } from "../lib/store";

export type Language = "en" | "ja";
export type LanguageChoice = Language | "auto";

const isChoice = (value: unknown): value is LanguageChoice =>
  value === "en" || value === "ja" || value === "auto";

export const serverLanguage: Language = document.documentElement.lang === "ja" ? "ja" : "en";
export const languageChoice = storedValue<LanguageChoice>(
  () => localStorage,
  "pyoco.language",
  "auto",
  isChoice,
);
const spoken = createStore<Language>(resolve(languageChoice.get()));

function resolve(choice: LanguageChoice): Language {
  return choice === "auto" ? serverLanguage : choice;
}

document.documentElement.lang = spoken.get();
languageChoice.subscribe(() => {
  spoken.set(resolve(languageChoice.get()));
  document.documentElement.lang = spoken.get();
});

languageChoice.followOtherTabs();

export const currentLanguage = (): Language => spoken.get();
export const onLanguageChange = spoken.subscribe;
export const useLanguage = (): Language => useStore(spoken);
