/** The API key of this tab, removed when the tab is closed. */
import { forgetStored, storedValue } from "../lib/store";

/** Whether a header can carry it; the browser refuses to send anything else. */
export const isSendable = (key: string): boolean => /^[\x21-\x7e]*$/.test(key);

const isKey = (value: unknown): value is string => typeof value === "string" && isSendable(value);

export const apiKey = storedValue<string>(() => sessionStorage, "pyoco.api-key", "", isKey);

/** Where drafts of answers are stored. Another key may not be allowed to read the question. */
export const ANSWERS = "pyoco.answers";
/** Where the draft of a schedule is stored: it contains what the key could read. */
export const SCHEDULE_DRAFT = "pyoco.schedule-draft";
// Here, because the code of these screens may not be loaded yet when the key changes.
apiKey.subscribe(() => {
  forgetStored(() => sessionStorage, ANSWERS);
  forgetStored(() => sessionStorage, SCHEDULE_DRAFT);
});
