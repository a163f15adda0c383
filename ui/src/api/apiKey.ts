/** The API key of this tab: forgotten when the tab is closed, and never written anywhere else. */
import { forgetStored, storedValue } from "../lib/store";

/** Whether a header can carry it: of anything else, the browser refuses to send the request at all. */
export const isSendable = (key: string): boolean => /^[\x21-\x7e]*$/.test(key);

const isKey = (value: unknown): value is string => typeof value === "string" && isSendable(value);

export const apiKey = storedValue<string>(() => sessionStorage, "pyoco.api-key", "", isKey);

/** Where answers are kept that are being written. Whoever has another key may not read the question. */
export const ANSWERS = "pyoco.answers";
// Here, since the code of the questions may not have been loaded yet when the key changes.
apiKey.subscribe(() => forgetStored(() => sessionStorage, ANSWERS));
