/** Short messages about results of actions. */
import type { Problem } from "../api/problem";
import { createStore } from "../lib/store";

export interface Toast {
  id: number;
  tone: "good" | "bad";
  title: string;
  detail?: string;
  /** A link to the result. */
  link?: { href: string; label: string };
}

const GOOD_MS = 6_000;
const BAD_MS = 15_000;

export const toasts = createStore<readonly Toast[]>([]);
let lastId = 0;

export function showToast(toast: Omit<Toast, "id">): void {
  lastId += 1;
  const id = lastId;
  // The same message twice is shown once.
  const others = toasts.get().filter((each) => each.title !== toast.title || each.detail !== toast.detail);
  toasts.set([...others, { ...toast, id }].slice(-4));
  setTimeout(() => dismissToast(id), toast.tone === "bad" ? BAD_MS : GOOD_MS);
}

export function showProblem(problem: Problem): void {
  const title = problem.errId ? `${problem.title} (${problem.errId})` : problem.title;
  showToast({ tone: "bad", title, detail: problem.detail });
}

export function dismissToast(id: number): void {
  toasts.set(toasts.get().filter((each) => each.id !== id));
}
