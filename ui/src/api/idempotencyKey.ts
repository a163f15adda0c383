/** An idempotency key per content: the same content is sent under the same key. */

export class Attempt {
  #sent: string | null = null;
  #key = "";

  /** The key of this content: the previous one if nothing has changed. */
  keyFor(content: string): string {
    if (content !== this.#sent) {
      this.#sent = content;
      this.#key = newKey();
    }
    return this.#key;
  }

  /** After success, the same content is a new request. */
  accepted(): void {
    this.#sent = null;
  }
}

/** `crypto.randomUUID` exists for https and localhost only; this works over plain http too. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `dashboard-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
