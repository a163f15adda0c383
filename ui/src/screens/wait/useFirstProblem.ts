/** Focuses the first invalid field. */
import { type RefObject, useEffect } from "react";
import type { Problems } from "../../schemaForm/validation";

export function useFirstProblem(form: RefObject<HTMLFormElement | null>, problems: Problems): void {
  useEffect(() => {
    if (problems.size === 0) return;
    const place = form.current?.querySelector("[aria-invalid=true]");
    const control = place?.matches("[role]") ? place.querySelector("input") : place;
    if (control instanceof HTMLElement) control.focus();
  }, [form, problems]);
}
