/** Links of the home screen to ended runs. */
import { href } from "../../app/router";
import { type End, STATUS_OF } from "../../charts/ends";
import { endedBetween } from "../../charts/runLinks";
import type { Overview } from "./warnings";

export type Window = Overview["window"];

/** The runs with this end in the window. */
export const endedHref = (window: Window, end: End, flow?: string): string =>
  href("/runs", { status: STATUS_OF[end], since: window, flow });

/** The runs that ended in one bar, optionally with one kind of end. */
export const intervalHref = (at: number, intervalSec: number, end?: End): string =>
  endedBetween(at, at + intervalSec, end);
