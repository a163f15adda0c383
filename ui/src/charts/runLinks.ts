/** Links from charts to the runs that they count. */
import { href } from "../app/router";
import { type End, STATUS_OF } from "./ends";

export interface OnlyRuns {
  flow?: string;
  tag?: string;
}

/** The runs that ended between two times, optionally with one kind of end. */
export const endedBetween = (from: number, to: number, end?: End, only: OnlyRuns = {}): string =>
  href("/runs", {
    status: end ? STATUS_OF[end] : Object.values(STATUS_OF),
    flow: only.flow,
    tag: only.tag,
    updated_after: String(from),
    updated_before: String(to),
  });
