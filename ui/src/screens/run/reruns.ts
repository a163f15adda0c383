/** Rerunning a run. */
import { useRef } from "react";
import { api, body, type Schemas } from "../../api/client";
import { Attempt } from "../../api/idempotencyKey";
import { useAct } from "../../api/queries";
import { href, navigate, pathTo } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { showToast } from "../../ui/toasts";
import { messages } from "./messages";

/** Reruns a run, and opens the new one. */
export function useRerun(id: string) {
  const t = useMessages(messages);
  const attempt = useRef(new Attempt());
  return useAct(
    (how: Partial<Schemas["RerunRequest"]>) =>
      api.POST("/runs/{run_id}/rerun", {
        params: {
          path: { run_id: id },
          header: { "Idempotency-Key": attempt.current.keyFor(JSON.stringify([id, how])) },
        },
        body: body<Schemas["RerunRequest"]>(how),
      }),
    {
      refresh: [["reruns", id]],
      onDone: (answer) => {
        attempt.current.accepted();
        showToast({ tone: "good", title: t("rerunSubmitted") });
        navigate(href(pathTo("/runs/:id", { id: answer.run_id })));
      },
    },
  );
}

/** Reruns a run from its start with other params, which are sent as they were typed. */
export function useRerunWith(id: string) {
  const t = useMessages(messages);
  const attempt = useRef(new Attempt());
  return useAct(
    (params: string) =>
      api.POST("/runs/{run_id}/rerun", {
        params: {
          path: { run_id: id },
          header: { "Idempotency-Key": attempt.current.keyFor(JSON.stringify([id, params])) },
        },
        body: {} as Schemas["RerunRequest"],
        bodySerializer: () => `{"mode":"start","params":${params}}`,
      }),
    {
      quiet: true,
      refresh: [["reruns", id]],
      onDone: (answer) => {
        attempt.current.accepted();
        showToast({ tone: "good", title: t("rerunSubmitted") });
        navigate(href(pathTo("/runs/:id", { id: answer.run_id })));
      },
    },
  );
}
