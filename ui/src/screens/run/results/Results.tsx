/** What a run has made: its result, and its files. */
import { Download, Eye, PackageOpen } from "lucide-react";
import { useState } from "react";
import { send } from "../../../api/client";
import { download } from "../../../api/download";
import { Problem } from "../../../api/problem";
import { useRead } from "../../../api/queries";
import { useMessages } from "../../../i18n/messages";
import { fileSize } from "../../../i18n/size";
import { parseJson } from "../../../lib/exactJson";
import { Button, IconButton } from "../../../ui/controls";
import { ProblemBox } from "../../../ui/feedback";
import { isTerminal } from "../../../ui/status";
import { UserText } from "../../../ui/UserText";
import { JsonValue } from "../details/JsonValue";
import { Panel } from "../Panel";
import type { Run } from "../run";
import { previewOf } from "./kinds";
import { messages } from "./messages";
import { type Artifact, PreviewDialog } from "./Preview";
import { artifactPath, resultPath } from "./paths";
import styles from "./Results.module.css";

const EVERY_MS = 5_000;

interface Artifacts {
  artifacts: (Artifact & { task: string | null })[];
  bytes: number;
  left_out: { name: string; reason: string }[];
  left_out_count: number;
}

const NO_FILES: Artifacts = { artifacts: [], bytes: 0, left_out: [], left_out_count: 0 };

interface Result {
  task: string;
  type: "json" | "bytes";
  bytes: number;
  value?: unknown;
  preview?: string;
  is_cut?: boolean;
  reason?: string;
}

export const RESULTS_ID = "run-results";

export function Results({ run }: { run: Run }) {
  const t = useMessages(messages);
  const result = useResult(run);
  const files = useArtifacts(run);
  const [shown, show] = useState<Artifact | null>(null);
  const artifacts = files.data?.artifacts ?? [];
  const left = files.data?.left_out_count ?? 0;
  if (!result && artifacts.length === 0 && left === 0 && !files.error) return null;
  return (
    <Panel id={RESULTS_ID} title={t("title")} icon={PackageOpen}>
      <div className={styles.results}>
        {result && <ResultPart id={run.run_id} result={result} />}
        {files.error && <ProblemBox problem={files.error} onRetry={() => void files.refetch()} />}
        {(artifacts.length > 0 || left > 0) && (
          <section aria-label={t("artifacts")}>
            <h3>
              {t("artifacts")}{" "}
              <span className={styles.soft}>
                {t("artifactCount", { count: artifacts.length, size: fileSize(files.data?.bytes ?? 0) })}
              </span>
            </h3>
            <ul className={styles.files}>
              {artifacts.map((file) => (
                <li key={file.name} data-artifact={file.name}>
                  <span className={styles.name}>
                    <UserText text={file.name} />
                  </span>
                  <span className={styles.soft}>{file.task && <UserText text={file.task} />}</span>
                  <span className={styles.size}>{fileSize(file.bytes)}</span>
                  {previewOf(file) ? (
                    <IconButton
                      label={t("preview", { name: file.name })}
                      icon={<Eye size={15} />}
                      onClick={() => show(file)}
                    />
                  ) : (
                    <span />
                  )}
                  <IconButton
                    label={t("download", { name: file.name })}
                    icon={<Download size={15} />}
                    onClick={() =>
                      void download({
                        path: artifactPath(run.run_id, file.name),
                        name: file.name.split("/").at(-1) ?? file.name,
                        bytes: file.bytes,
                      })
                    }
                  />
                </li>
              ))}
            </ul>
            {left > 0 && (
              <details className={styles.left}>
                <summary>{t("leftOut", { count: left })}</summary>
                <ul>
                  {files.data?.left_out.map((each) => (
                    <li key={each.name}>
                      <UserText text={each.name} />: <UserText text={each.reason} />
                    </li>
                  ))}
                </ul>
              </details>
            )}
          </section>
        )}
      </div>
      {shown && <PreviewDialog id={run.run_id} file={shown} onClose={() => show(null)} />}
    </Panel>
  );
}

function ResultPart({ id, result }: { id: string; result: Result }) {
  const t = useMessages(messages);
  const name = `${id}.${result.type === "json" ? "json" : "bin"}`;
  return (
    <div data-result>
      <h3>
        {t("result")}{" "}
        <span className={styles.soft}>
          {t("resultOf", { task: result.task, size: fileSize(result.bytes) })}
        </span>
        {!result.reason && (
          <Button
            kind="plain"
            onClick={() => void download({ path: resultPath(id), name, bytes: result.bytes })}
          >
            <Download size={14} aria-hidden />
            {t("downloadResult")}
          </Button>
        )}
      </h3>
      {result.reason && <p className={styles.soft}>{result.reason}</p>}
      {result.type === "bytes" ? (
        <p className={styles.soft}>{t("bytes")}</p>
      ) : result.is_cut ? (
        <>
          <p className={styles.soft}>{t("resultCut")}</p>
          <JsonValue value={result.preview ?? ""} label={t("result")} />
        </>
      ) : (
        <JsonValue value={result.value ?? null} label={t("result")} />
      )}
    </div>
  );
}

/** Only a completed run has a result; the stream of the run has none. Long numbers stay exact. */
function useResult(run: Run): Result | null {
  const { data } = useRead(
    ["run-result", run.run_id, run.end_time],
    async (signal) => {
      const answer = await send(
        new Request(new URL(`/runs/${encodeURIComponent(run.run_id)}`, location.origin), { signal }),
      );
      return { data: (parseJson(await answer.text()) as { result?: Result }).result ?? null };
    },
    { enabled: run.status === "COMPLETED" },
  );
  return data ?? null;
}

function useArtifacts(run: Run) {
  return useRead(
    // Once more at the end: files are uploaded when a task ends.
    ["artifacts", run.run_id, isTerminal(run.status)],
    async (signal) => {
      const path = `/runs/${encodeURIComponent(run.run_id)}/artifacts`;
      try {
        const answer = await send(new Request(new URL(path, location.origin), { signal }));
        return { data: (await answer.json()) as Artifacts };
      } catch (error) {
        // A gateway of an earlier version has none.
        if (Problem.from(error).status === 404) return { data: NO_FILES };
        throw error;
      }
    },
    { enabled: run.start_time != null, keep: true, every: isTerminal(run.status) ? undefined : EVERY_MS },
  );
}
