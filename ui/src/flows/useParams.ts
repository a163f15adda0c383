/** Params that are edited, checked against a schema, and sent as they were typed. */
import { useState } from "react";
import type { Problem } from "../api/problem";
import { useLanguage } from "../i18n/language";
import { useMessages } from "../i18n/messages";
import { jsonText } from "../lib/exactJson";
import { fieldOf, initialOf } from "../schemaForm/fields";
import { isObject, type Json, type Schema } from "../schemaForm/json";
import { NO_PROBLEMS, type Problems, problemsOf } from "../schemaForm/validation";
import { isParams, paramProblems } from "./flowApi";
import { messages } from "./messages";

export function useParams(schema: Schema | null, begin?: Json) {
  const t = useMessages(messages);
  const language = useLanguage();
  const [value, setValue] = useState<Json | undefined>(() => begin ?? defaultsOf(schema));
  const [problems, setProblems] = useState<Problems>(NO_PROBLEMS);

  /** The params as JSON; null: something is wrong with them, which is shown. */
  const check = async (): Promise<string | null> => {
    const found = isParams(value)
      ? await problemsOf(value, schema, language)
      : new Map([["", t("mustBeObject")]]);
    setProblems(found);
    return found.size === 0 ? jsonText(value) : null;
  };
  /** Show what the gateway says about the params; false: it says nothing about them. */
  const refused = (problem: Problem): boolean => {
    const found = paramProblems(problem);
    setProblems(found);
    return found.size > 0;
  };
  /** After a refusal, what is wrong follows what is typed. */
  const change = (next: Json | undefined) => {
    setValue(next);
    if (problems.size > 0 && isParams(next)) void problemsOf(next, schema, language).then(setProblems);
  };
  return { value, problems, check, refused, change };
}

function defaultsOf(schema: Schema | null): Json {
  const initial = schema === null ? undefined : initialOf(fieldOf(schema));
  return isObject(initial) ? initial : {};
}
