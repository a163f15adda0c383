/** A failed request (application/problem+json). */
import { currentMessages } from "../i18n/messages";
import { codeText } from "./agentCodes";
import { messages } from "./messages";
import type { components } from "./schema";

export type ProblemDocument = components["schemas"]["Problem"];
export type FieldProblem = components["schemas"]["FieldError"];

/** The form of the errors of agent requests. */
interface AgentError {
  code: string;
  message: string;
  details?: { hint?: string; errors?: FieldProblem[] };
}

export class Problem extends Error {
  override readonly name = "Problem";

  constructor(
    readonly title: string,
    readonly detail: string,
    readonly status: number,
    readonly errId: string | null,
    readonly fields: readonly FieldProblem[] = [],
  ) {
    super(detail || title);
  }

  /** Whether a key, or another key, would help. */
  get wantsKey(): boolean {
    return this.errId === "ERR-PYOCO-0014" || this.errId === "ERR-PYOCO-0015";
  }

  /** Whether a retry may succeed: an outage, not an invalid request. */
  get passing(): boolean {
    // 0: no response, or an incomplete one.
    return this.status === 0 || this.status >= 500 || this.status === 429;
  }

  static async of(answer: Response): Promise<Problem> {
    try {
      const document = (await answer.json()) as Omit<ProblemDocument, "error"> & {
        error?: string | AgentError;
      };
      if (typeof document.error === "object") {
        const { code, message, details } = document.error;
        const title = codeText(code);
        const detail = title === null ? (details?.hint ?? "") : message;
        return new Problem(title ?? message, detail, answer.status, code, details?.errors);
      }
      const { title, detail, err_id, errors } = document;
      return new Problem(title, detail ?? "", answer.status, err_id ?? null, errors ?? []);
    } catch {
      // The response came from something else, such as a proxy.
      const t = currentMessages(messages);
      return new Problem(t("notFromGateway"), `${answer.status} ${answer.statusText}`, answer.status, null);
    }
  }

  static unreachable(): Problem {
    const t = currentMessages(messages);
    return new Problem(t("unreachable"), t("unreachableCure"), 0, "ERR-PYOCO-0001");
  }

  /** Converts anything that was thrown. */
  static from(thrown: unknown): Problem {
    if (thrown instanceof Problem) return thrown;
    return new Problem(currentMessages(messages)("unexpected"), String(thrown), 0, null);
  }
}
