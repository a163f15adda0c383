/** One submission: validated, sent, and its errors mapped to the form. */
import { useMemo, useRef, useState } from "react";
import { api, type Schemas, send } from "../../api/client";
import { Attempt } from "../../api/idempotencyKey";
import type { Problem } from "../../api/problem";
import { useAct } from "../../api/queries";
import { href, navigate, pathTo } from "../../app/router";
import type { Mark } from "../../editor/CodeEditor";
import { useMessages } from "../../i18n/messages";
import { useStore } from "../../lib/store";
import { type Draft, draft } from "./draft";
import { messages } from "./messages";
import {
  type FieldName,
  parseParams,
  type RunBody,
  runBody,
  runJson,
  sorted,
  startOf,
  yamlForm,
} from "./submission";

export type Kind = "flow" | "yaml";
type Accepted = Schemas["RunAccepted"];

interface Wrong {
  fields: Partial<Record<FieldName, string>>;
  paramMarks: readonly Mark[];
  yamlMarks: readonly Mark[];
}

const NO_MARKS: readonly Mark[] = [];
const FLOW_NOT_FOUND = "ERR-PYOCO-0006";

async function sendYaml(form: FormData, key: string): Promise<{ data: Accepted }> {
  const headers = { "Idempotency-Key": key };
  const answer = await send(
    new Request(new URL("/runs/yaml", location.origin), { method: "POST", body: form, headers }),
  );
  return { data: (await answer.json()) as Accepted };
}

/** With `strict` a flow that no worker has, and params that do not match its schema, are refused. */
const sendRun = (run: RunBody, json: string, key: string, strict: boolean) =>
  api.POST("/runs", {
    params: { query: strict ? { strict } : {}, header: { "Idempotency-Key": key } },
    body: run as Schemas["RunSubmitRequest"],
    bodySerializer: () => json,
  });

/** The errors of the gateway for this text only. */
interface Answered {
  content: string;
  problem: Problem;
}

const contentOf = (kind: Kind, draft: Draft): string => {
  const { flowName, tag, tags, timeoutSec, params, yaml } = draft;
  const own = kind === "flow" ? [tags, params] : [yaml];
  return JSON.stringify([kind, flowName, tag, timeoutSec, startOf(draft), ...own]);
};

export function useSubmission(kind: Kind) {
  const written = useStore(draft);
  const content = contentOf(kind, written);
  const attempt = useRef(new Attempt());
  // Missing fields are reported only after the first try.
  const [tried, setTried] = useState<string | null>(null);
  const [answered, setAnswered] = useState<Answered | null>(null);
  const own = useOwnFindings(kind, written, tried === kind);
  const act = useAct(
    (strict: boolean) => {
      const key = attempt.current.keyFor(content);
      const params = parseParams(written.params);
      return kind === "yaml"
        ? sendYaml(yamlForm(written), key)
        : sendRun(runBody(written), runJson(written, "json" in params ? params.json : "{}"), key, strict);
    },
    {
      quiet: true,
      refresh: [["runs"], ["overview"]],
      onDone: ({ run_id: id }) => {
        attempt.current.accepted();
        navigate(href(pathTo("/runs/:id", { id })));
      },
    },
  );
  const submitWith = (strict: boolean) => {
    setTried(kind);
    // A double click is one run.
    if (act.isPending || own.isWrong) return;
    setAnswered(null);
    act.mutate(strict, { onError: (problem) => setAnswered({ content, problem }) });
  };
  const problem = answered?.content === content ? answered.problem : null;
  const isRefused = problem?.errId === FLOW_NOT_FOUND || (kind === "flow" && problem?.status === 422);
  const told = useMemo(() => sorted(problem), [problem]);
  const isShownInPlace = problem !== null && problem.fields.length > 0 && told.rest.length === 0;
  const wrong: Wrong = {
    fields: { ...told.fields, ...own.fields },
    paramMarks: own.marks,
    yamlMarks: told.marks,
  };
  return {
    wrong,
    problem: isShownInPlace ? null : problem,
    isPending: act.isPending,
    submit: () => submitWith(true),
    anyway: isRefused ? () => submitWith(false) : null,
  };
}

/** Validation without the gateway. */
function useOwnFindings(kind: Kind, written: Draft, tried: boolean) {
  const t = useMessages(messages);
  const { flowName, timeoutSec, params } = written;
  const { start_at: startAt, delay_sec: delay } = startOf(written);
  return useMemo(() => {
    const fields: Wrong["fields"] = {};
    const parsed = kind === "flow" ? parseParams(params) : { json: "{}" };
    let marks = NO_MARKS;
    if (flowName.trim() === "") fields.flow_name = t("required");
    if (timeoutSec.trim() !== "" && !(Number(timeoutSec) > 0)) fields.timeout_sec = t("badNumber");
    if (Number.isNaN(startAt)) fields.start_at = t("badMoment");
    if (delay !== undefined && !(delay >= 0)) fields.delay_sec = t("badDelay");
    if ("place" in parsed) {
      const { place } = parsed;
      fields.params = place ? t("badJson", { line: place.line, column: place.column }) : t("badObject");
      if (place) marks = [{ ...place, message: fields.params }];
    }
    const isWrong = Object.keys(fields).length > 0;
    return { isWrong, fields: tried ? fields : {}, marks: tried ? marks : NO_MARKS };
  }, [t, kind, flowName, timeoutSec, params, startAt, delay, tried]);
}
