/** What is typed into the form of a request, and the body that it makes. */
import type { RequestDetail } from "../../agentRequests/requestApi";
import type { Draft } from "../../ui/draftForm";

export const EMPTY: Draft = { title: "", priority: "P2", tags: "", want: "" };

export const draftOf = ({ request, content }: RequestDetail): Draft => ({
  title: request.title,
  priority: request.priority,
  tags: request.tags.join(", "),
  want: content.sections.want ?? "",
});

const tagsOf = (text = ""): string[] => [
  ...new Set(
    text
      .split(/[,、，]/)
      .map((tag) => tag.trim())
      .filter(Boolean),
  ),
];

const fields = (draft: Draft) => ({
  title: (draft.title ?? "").trim(),
  priority: draft.priority,
  tags: tagsOf(draft.tags),
  want: { text: draft.want ?? "" },
});

export const newRequest = fields;

/** Only what differs: the want of a running request cannot be changed, the rest can. */
export function changes(draft: Draft, base: Draft): object {
  return Object.fromEntries(Object.entries(fields(draft)).filter(([name]) => draft[name] !== base[name]));
}
