/** A secret that was just made: in memory only, until it is copied. */
import { apiKey } from "../../api/apiKey";
import { createStore } from "../../lib/store";

export const newSecret = createStore<{ hookId: string; secret: string } | null>(null);
apiKey.subscribe(() => newSecret.set(null));

/** Of the answer that creates a hook or rotates its secret. */
export function keepSecret({ hook_id, secret }: { hook_id: string; secret: string | null }): void {
  newSecret.set(secret === null ? null : { hookId: hook_id, secret });
}
