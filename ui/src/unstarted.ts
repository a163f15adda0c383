/** What is done when the page's own code does not come: after an update of the gateway, that of the old page is gone.
 *
 * Nothing of the page is there then, neither its messages nor its components: it is said in both languages.
 */
const TRIED = "pyoco.loaded-again";
const WORDS = {
  en: "The dashboard could not be loaded. Reload the page to try again.",
  ja: "ダッシュボードを読み込めませんでした。ページを再読み込みしてください。",
};

/** For the tests, which have one page that cannot be loaded again. */
export const browser = { reload: () => location.reload() };

/** The page is loaded once more; where that did not help, it says so. */
export function startAgain(): void {
  if (isFirstTime()) browser.reload();
  else tell();
}

/** The next time is a first one again. */
export function started(): void {
  try {
    sessionStorage.removeItem(TRIED);
  } catch {
    // Forbidden by the browser's settings: nothing was kept.
  }
}

function isFirstTime(): boolean {
  try {
    if (sessionStorage.getItem(TRIED) !== null) return false;
    sessionStorage.setItem(TRIED, "yes");
    return true;
  } catch {
    // What cannot be remembered would be done for ever.
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
