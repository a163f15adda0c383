/** The month of a template, for the events that name none. */
import type { Template } from "./eventApi";

/** "2026-11", "2026" or "11"; empty: neither is given. */
export const monthText = ({ year, month }: Pick<Template, "year" | "month">): string =>
  [year || "", month ? String(month).padStart(2, "0") : ""].filter(Boolean).join("-");
