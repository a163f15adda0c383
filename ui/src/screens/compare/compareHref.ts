import { href } from "../../app/router";

/** The earlier one is on the left. */
export const compareHref = (earlier: string, later: string): string =>
  href("/compare", { a: earlier, b: later });
