import { duration, wholeSeconds } from "../../i18n/time";

/** A waiting time, without tenths of a second. */
export const age = (seconds: number): string => (seconds < 10 ? wholeSeconds(seconds) : duration(seconds));
