/** What a hook or an action starts, as texts of a form and as fields of a request. */
import { formattedJson, jsonText } from "../lib/exactJson";
import { parseParams, tagsIn } from "../screens/submit/submission";
import type { Draft } from "../ui/draftForm";

export interface FlowBinding {
  flow_name: string;
  workflow_yaml?: string | null;
  params: Record<string, unknown>;
  tag: string;
  tags: string[];
  timeout_sec?: number | null;
}

export const EMPTY_BINDING: Draft = {
  flow_name: "",
  workflow_yaml: "",
  params: "{}",
  tag: "",
  tags: "",
  timeout_sec: "",
};

export const bindingDraft = (binding: FlowBinding): Draft => ({
  flow_name: binding.flow_name,
  workflow_yaml: binding.workflow_yaml ?? "",
  params: formattedJson(jsonText(binding.params)),
  tag: binding.tag,
  tags: binding.tags.join(", "),
  timeout_sec: binding.timeout_sec == null ? "" : String(binding.timeout_sec),
});

/** As typed, if it is no number: the gateway says what is wrong with it. */
export function numberOrText(typed: string): number | string | null {
  const trimmed = typed.trim();
  if (trimmed === "") return null;
  return Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
}

/** The fields as JSON texts: params are sent as typed, however long their numbers are. */
export function bindingFields(draft: Draft): Record<string, string> {
  const params = parseParams(draft.params ?? "");
  const tags = tagsIn(draft.tags ?? "");
  return {
    flow_name: JSON.stringify((draft.flow_name ?? "").trim()),
    workflow_yaml: JSON.stringify(draft.workflow_yaml?.trim() ? draft.workflow_yaml : null),
    params: "json" in params ? params.json : "{}",
    // Null: the gateway's default.
    tag: JSON.stringify(draft.tag?.trim() || null),
    tags: JSON.stringify(tags.length > 0 ? tags : null),
    timeout_sec: JSON.stringify(numberOrText(draft.timeout_sec ?? "")),
  };
}

/** A JSON object of fields that are JSON texts. */
export const objectText = (fields: Record<string, string>): string =>
  `{${Object.entries(fields)
    .map(([name, json]) => `${JSON.stringify(name)}:${json}`)
    .join(",")}}`;
