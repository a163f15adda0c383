/** The wheels screen: registry, history and upload. */
import { Upload } from "lucide-react";
import { useState } from "react";
import { api } from "../../api/client";
import { useRead } from "../../api/queries";
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { fileSize } from "../../i18n/size";
import { Button, Segments } from "../../ui/controls";
import { Loading, ProblemBox } from "../../ui/feedback";
import { Page } from "../../ui/Page";
import { History } from "./History";
import { messages } from "./messages";
import { Registry } from "./Registry";
import { UploadDialog } from "./UploadDialog";

const EVERY_MS = 5_000;
const VIEWS = ["registry", "history"] as const;

export default function WheelsScreen() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const [uploading, setUploading] = useState(false);
  const wheels = useRead(["wheels", "all"], (signal) => api.GET("/wheels", { signal }), { every: EVERY_MS });
  const all = wheels.data ?? [];
  const view = query.get("view") === "history" ? "history" : "registry";
  const size = fileSize(all.reduce((sum, each) => sum + each.size_bytes, 0));
  return (
    <Page
      title={t("title")}
      note={all.length > 0 && t("inAll", { count: all.length, size })}
      actions={
        <>
          <Segments
            label={t("view")}
            value={view}
            options={VIEWS.map((value) => ({ value, label: t(`view.${value}`) }))}
            onChange={(next) =>
              change({ view: next === "registry" ? null : next, wheel: null, action: null, q: null })
            }
          />
          <Button kind={all.length > 0 ? "primary" : "normal"} onClick={() => setUploading(true)}>
            <Upload size={14} aria-hidden />
            {t("upload")}
          </Button>
        </>
      }
    >
      {view === "history" ? (
        <History />
      ) : (
        <>
          {wheels.error && <ProblemBox problem={wheels.error} onRetry={() => void wheels.refetch()} />}
          {wheels.isPending && <Loading />}
          {wheels.data && <Registry wheels={wheels.data} onUpload={() => setUploading(true)} />}
        </>
      )}
      {uploading && <UploadDialog wheels={all} onClose={() => setUploading(false)} />}
    </Page>
  );
}
