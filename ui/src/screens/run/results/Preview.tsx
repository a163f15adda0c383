/** Shows the beginning of a file. Nothing in it is executed, and nothing is loaded for it. */
import { useEffect, useState } from "react";
import { Markdown } from "../../../agentRequests/Markdown";
import { useRead } from "../../../api/queries";
import { useMessages } from "../../../i18n/messages";
import { visible } from "../../../lib/visible";
import { Dialog } from "../../../ui/Dialog";
import { Loading, ProblemBox } from "../../../ui/feedback";
import { TextTable } from "../../../ui/TextTable";
import { type Kind, kindOf } from "./kinds";
import { messages } from "./messages";
import { artifactPath, beginning } from "./paths";
import styles from "./Results.module.css";
import { csvTable, jsonLinesTable, type Table } from "./tables";

const MOST_TEXT = 512_000;
const MOST_IMAGE = 8_000_000;

export interface Artifact {
  name: string;
  bytes: number;
  sha256: string;
  content_type: string;
}

export function PreviewDialog({ id, file, onClose }: { id: string; file: Artifact; onClose: () => void }) {
  const t = useMessages(messages);
  const kind = kindOf(file);
  const most = kind === "image" ? MOST_IMAGE : MOST_TEXT;
  const { data, error, refetch } = useRead(["artifact", id, file.name, file.sha256], async (signal) => ({
    data: await beginning(artifactPath(id, file.name), { bytes: file.bytes, most, signal }),
  }));
  return (
    <Dialog open onClose={onClose} title={file.name} width={920}>
      <div className={styles.preview} data-preview={kind}>
        {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
        {!data && !error && <Loading />}
        {data && kind === "image" && data.isCut && <p>{t("tooLarge")}</p>}
        {data && kind === "image" && !data.isCut && <Picture blob={data.data} name={file.name} />}
        {data && kind !== "image" && (
          <TextOf blob={data.data} kind={kind} name={file.name} isCut={data.isCut} />
        )}
      </div>
    </Dialog>
  );
}

/** As a data URL: the policy of the page allows no other. */
function Picture({ blob, name }: { blob: Blob; name: string }) {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    const reader = new FileReader();
    reader.onload = () => setUrl(String(reader.result));
    reader.readAsDataURL(blob);
    return () => reader.abort();
  }, [blob]);
  return url && <img src={url} alt={visible(name)} />;
}

interface TextProps {
  blob: Blob;
  kind: Kind;
  name: string;
  isCut: boolean;
}

function TextOf({ blob, kind, name, isCut }: TextProps) {
  const t = useMessages(messages);
  const [text, setText] = useState<string | null>(null);
  useEffect(() => {
    let isCurrent = true;
    void blob.text().then((read) => isCurrent && setText(read));
    return () => {
      isCurrent = false;
    };
  }, [blob]);
  if (text === null) return <Loading />;
  if (text === "") return <p>{t("emptyFile")}</p>;
  const table =
    kind === "csv" ? csvTable(text, isCut) : kind === "jsonLines" ? jsonLinesTable(text, isCut) : null;
  return (
    <>
      {(table ? table.isCut : isCut) && <p role="note">{t("firstPart")}</p>}
      {table ? (
        <TableOf table={table} name={name} />
      ) : kind === "markdown" ? (
        <Markdown text={text} />
      ) : kind === "html" ? (
        // Without any permission: no scripts, no forms, no navigation, an origin of its own.
        <iframe sandbox="" srcDoc={text} title={visible(name)} />
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: whoever has no mouse scrolls it with the arrows.
        <pre tabIndex={0}>{visible(text)}</pre>
      )}
    </>
  );
}

function TableOf({ table: { head, rows }, name }: { table: Table; name: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: whoever has no mouse scrolls it with the arrows.
    <section className={styles.table} tabIndex={0} aria-label={visible(name)}>
      <TextTable head={head} rows={rows} cell={visible} />
    </section>
  );
}
