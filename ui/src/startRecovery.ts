/** Recovery when the page's own code cannot be loaded: after an update of the gateway, that of the old page is gone.
 *
 * Neither messages nor components are loaded then: the text is in both languages.
 */
const TRIED = "pyoco.loaded-again";
const WORDS = {
  en: "The dashboard could not be loaded. Reload the page to try again.",
  ja: "ダッシュボードを読み込めませんでした。ページを再読み込みしてください。",
};

/** Replaced in tests, which cannot reload their page. */
export const browser = { reload: () => location.reload() };

/** Reloads the page once, then shows an error. */
export function reloadOnce(): void {
  if (isFirstTime()) browser.reload();
  else tell();
}

/** Resets the counter after a successful start. */
export function started(): void {
  try {
    sessionStorage.removeItem(TRIED);
  } catch {
    // Forbidden by the browser's settings.
  }
}

function isFirstTime(): boolean {
  try {
    if (sessionStorage.getItem(TRIED) !== null) return false;
    sessionStorage.setItem(TRIED, "yes");
    return true;
  } catch {
    // Without storage the page would reload for ever.
    return false;
  }
}

function tell(): void {
  const box = document.createElement("div");
  box.setAttribute("role", "alert");
  box.style.padding = "2rem";
  for (const [language, words] of Object.entries(WORDS)) {
    const line = document.createElement("p");
    line.lang = language;
    line.textContent = words;
    box.append(line);
  }
  document.getElementById("root")?.replaceChildren(box);
}
