/** The key under which a request may be repeated: as long as the same is sent, it is done once. */

export class Attempt {
  #sent: string | null = null;
  #key = "";

  /** The key of this content: that of the last time if nothing was changed since. */
  keyFor(content: string): string {
    if (content !== this.#sent) {
      this.#sent = content;
      this.#key = newKey();
    }
    return this.#key;
  }

  /** It is done: the same content again is meant as another request. */
  accepted(): void {
    this.#sent = null;
  }
}

/** `crypto.randomUUID` is there for https and localhost only; this is for plain http, too. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `dashboard-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
