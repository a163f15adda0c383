import { duration, wholeSeconds } from "../../i18n/time";

/** How long something has waited; tenths of a second are no news. */
export const age = (seconds: number): string => (seconds < 10 ? wholeSeconds(seconds) : duration(seconds));
