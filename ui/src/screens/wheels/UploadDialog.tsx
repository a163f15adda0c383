/** Uploads a wheel, with tags and progress. */

import { FileArchive } from "lucide-react";
import { type DragEvent, type FormEvent, useEffect, useRef, useState } from "react";
import { Problem } from "../../api/problem";
import { queryClient } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { fileSize } from "../../i18n/size";
import { Button, Field, joined } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { ProblemBox } from "../../ui/feedback";
import { InputField } from "../../ui/fields";
import { showToast } from "../../ui/toasts";
import { UserText } from "../../ui/UserText";
import { messages } from "./messages";
import { formProblems, type Transfer, UploadAborted, uploadWheel } from "./upload";
import styles from "./Wheels.module.css";
import { newestVersion, parseWheelName, type Wheel } from "./wheelName";

interface UploadDialogProps {
  wheels: readonly Wheel[];
  onClose: () => void;
}

export function UploadDialog({ wheels, onClose }: UploadDialogProps) {
  const t = useMessages(messages);
  const [file, setFile] = useState<File | null>(null);
  const [tags, setTags] = useState("");
  const [replace, setReplace] = useState(true);
  const { sent, problem, begin, forget } = useUpload((wheel) => {
    showToast({ tone: "good", title: t("uploadedToast", { wheel }), detail: t("workersWill") });
    onClose();
  });
  const objections = formProblems(problem);
  const wrongName = file && !parseWheelName(file.name) ? t("notAWheel", { name: file.name }) : null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (file) begin({ file, tags, replace });
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={t("uploadTitle")}
      width={540}
      actions={
        <>
          <Button onClick={onClose}>{t("cancel")}</Button>
          <Button
            kind="primary"
            type="submit"
            form="upload-wheel"
            disabled={!file || wrongName !== null || sent !== null}
          >
            {t("doUpload")}
          </Button>
        </>
      }
    >
      <form id="upload-wheel" className={styles.form} onSubmit={submit}>
        {objections.other && <ProblemBox problem={objections.other} />}
        <FileField
          file={file}
          wheels={wheels}
          error={wrongName ?? objections.wheel}
          disabled={sent !== null}
          onChoose={(chosen) => {
            forget();
            setFile(chosen);
          }}
        />
        <InputField
          label={t("tags")}
          hint={t("tagsHint")}
          error={objections.tags}
          value={tags}
          placeholder="gpu, linux"
          disabled={sent !== null}
          onChange={setTags}
        />
        <label className={styles.check}>
          <input
            type="checkbox"
            checked={replace}
            disabled={sent !== null}
            onChange={({ target }) => setReplace(target.checked)}
          />
          <span>
            {t("replace")}
            <span className={styles.hint}>{t("replaceHint")}</span>
          </span>
        </label>
        {sent !== null && file && <Progress part={sent} size={file.size} />}
      </form>
    </Dialog>
  );
}

/** One upload at a time; it is aborted when the dialog closes. */
function useUpload(onDone: (wheel: string) => void) {
  const [sent, setSent] = useState<number | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const transfer = useRef<Transfer>(undefined);
  useEffect(() => () => transfer.current?.abort(), []);
  const begin = async (parcel: Parameters<typeof uploadWheel>[0]) => {
    setProblem(null);
    setSent(0);
    transfer.current = uploadWheel(parcel, setSent);
    try {
      const { name } = await transfer.current.done;
      await queryClient.invalidateQueries({ queryKey: ["wheels"] });
      onDone(name);
    } catch (error) {
      if (!(error instanceof UploadAborted)) setProblem(Problem.from(error));
    } finally {
      setSent(null);
    }
  };
  return {
    sent,
    problem,
    begin: (parcel: Parameters<typeof uploadWheel>[0]) => void begin(parcel),
    forget: () => setProblem(null),
  };
}

interface FileFieldProps {
  file: File | null;
  wheels: readonly Wheel[];
  error: string | null;
  disabled: boolean;
  onChoose: (file: File | null) => void;
}

/** The browser's file input with a drop area. */
function FileField({ file, wheels, error, disabled, onChoose }: FileFieldProps) {
  const t = useMessages(messages);
  const [over, setOver] = useState(false);
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const [dropped] = event.dataTransfer.files;
    if (dropped && !disabled) onChoose(dropped);
  };
  return (
    <Field label={t("file")} hint={t("fileHint")} error={error} required>
      {(wired) => (
        // biome-ignore lint/a11y/noStaticElementInteractions: dropping is the mouse's way to the field inside.
        <div
          className={joined(styles.drop, over && styles.over, error && styles.wrong)}
          onDragOver={(event) => {
            event.preventDefault();
            setOver(true);
          }}
          onDragLeave={() => setOver(false)}
          onDrop={drop}
        >
          <input
            {...wired}
            type="file"
            accept=".whl"
            disabled={disabled}
            onChange={({ target }) => onChoose(target.files?.[0] ?? null)}
          />
          <FileArchive size={20} aria-hidden />
          {file ? <Chosen file={file} wheels={wheels} /> : <span>{t("choose")}</span>}
        </div>
      )}
    </Field>
  );
}

function Chosen({ file, wheels }: { file: File; wheels: readonly Wheel[] }) {
  const t = useMessages(messages);
  const said = parseWheelName(file.name);
  const newest = said && newestVersion(wheels, said.package);
  return (
    <span className={styles.chosen}>
      <strong className={styles.fileName}>
        <UserText text={file.name} />
      </strong>
      <span className={styles.faint}>
        {said && `${t("isThat", { package: said.package, version: said.version })} · `}
        {said && `${newest ? t("above", { version: newest }) : t("newPackage")} · `}
        {fileSize(file.size)}
      </span>
      <span className={styles.faint}>{t("chooseOther")}</span>
    </span>
  );
}

function Progress({ part, size }: { part: number; size: number }) {
  const t = useMessages(messages);
  const word =
    part < 1
      ? t("sending", {
          percent: Math.floor(part * 100),
          sent: fileSize(part * size),
          size: fileSize(size),
        })
      : t("checking");
  return (
    <div className={styles.upload}>
      {/* Indeterminate: the duration of the check is unknown. */}
      <progress max={1} value={part < 1 ? part : undefined} aria-label={t("uploadTitle")} />
      <span role="status">{word}</span>
    </div>
  );
}
