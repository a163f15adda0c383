/** The token of workflow events, where the gateway asks for it: for this tab, and removed with the API key. */
import { apiKey, isSendable } from "../api/apiKey";
import { queryClient } from "../api/queries";
import { storedValue } from "../lib/store";

export const EVENTS = "workflow-events";
/** The error of a missing or wrong token. */
const WRONG_TOKEN = "ERR-PYOCO-0054";

const isToken = (value: unknown): value is string => typeof value === "string" && isSendable(value);

export const eventToken = storedValue<string>(() => sessionStorage, "pyoco.event-token", "", isToken);
apiKey.subscribe(() => eventToken.set(""));
eventToken.subscribe(() => void queryClient.resetQueries({ queryKey: [EVENTS] }));

/** In a header: a query would stand in logs. */
export const eventHeaders = (): Record<string, string> => {
  const token = eventToken.get();
  return token ? { "x-workflow-event-token": token } : {};
};

export const wantsToken = (problem: { errId: string | null } | null): boolean =>
  problem?.errId === WRONG_TOKEN;
