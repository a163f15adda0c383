import { type RefObject, useEffect } from "react";

/** Shows and focuses the first invalid field after each refusal of a form; without one, it is null. */
export function useFirstInvalid(form: RefObject<HTMLFormElement | null>, refusal: unknown): void {
  useEffect(() => {
    if (!refusal) return;
    const place = form.current?.querySelector("[aria-invalid=true], [data-invalid]");
    const control = place?.matches("[role]") ? (place.querySelector("input") ?? place) : place;
    if (!(control instanceof HTMLElement)) return;
    control.focus();
    // A code editor cannot be focused from outside.
    if (document.activeElement !== control) control.scrollIntoView({ block: "center" });
  }, [form, refusal]);
}
