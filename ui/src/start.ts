/** The first script, and a small one: what is needed for the first view is asked for at once, and not bit by bit.
 *
 * The page knows only here which screen that is: the address behind the `#` stays in the browser.
 */
import "./styles/tokens.css";
import "./styles/base.css";
import { parseHash } from "./app/router";
import { findScreen } from "./app/routes";
import { startAgain, started } from "./unstarted";

const { path, query } = parseHash(location.hash);
// What fails here is tried again, and told, where it is used (app/loading.ts).
findScreen(path)
  ?.screen.load()
  .then((part) => part.begin?.(query))
  .catch(() => undefined);
void import("./main").then(started, (error: unknown) => {
  startAgain();
  throw error;
});
