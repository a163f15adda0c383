/** The first script, kept small: it requests everything that the first view needs at once.
 *
 * Only the browser knows the screen: the URL after `#` is not sent to the gateway.
 */
import "./styles/tokens.css";
import "./styles/base.css";
import { parseHash } from "./app/router";
import { findScreen } from "./app/routes";
import { reloadOnce, started } from "./startRecovery";

const { path, query } = parseHash(location.hash);
// Failures are retried and reported where the result is used (app/loading.ts).
findScreen(path)
  ?.screen.load()
  .then((part) => part.begin?.(query))
  .catch(() => undefined);
void import("./main").then(started, (error: unknown) => {
  reloadOnce();
  throw error;
});
