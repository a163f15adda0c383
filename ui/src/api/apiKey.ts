/** The API key of this tab: forgotten when the tab is closed, and never written anywhere else. */
import { storedValue } from "../lib/store";

const isText = (value: unknown): value is string => typeof value === "string";

export const apiKey = storedValue<string>(sessionStorage, "pyoco.api-key", "", isText);
