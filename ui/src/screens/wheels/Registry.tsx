/** The registered wheels by package. */

import { Boxes, Download, History, Trash2, Upload } from "lucide-react";
import { useState } from "react";
import { api } from "../../api/client";
import { download } from "../../api/download";
import { useRead } from "../../api/queries";
import { href, useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { fileSize } from "../../i18n/size";
import { CommandLine } from "../../ui/CommandLine";
import { CopyButton } from "../../ui/Copy";
import { Button, ButtonLink, IconButton, joined } from "../../ui/controls";
import { EmptyState, NothingMatches } from "../../ui/feedback";
import { FilterRow } from "../../ui/filters";
import { useRowKeys } from "../../ui/rowKeys";
import { SearchField } from "../../ui/SearchField";
import { Tags } from "../../ui/Tags";
import base from "../../ui/table.module.css";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { DeleteDialog } from "./DeleteDialog";
import { messages } from "./messages";
import { type Rollout, rolloutOf } from "./rollout";
import styles from "./Wheels.module.css";
import { WheelWorkers } from "./WheelWorkers";
import { byPackage, type Package, parseWheelName, versionsOf, type Wheel } from "./wheelName";

const WORKERS_EVERY_MS = 5_000;
const UPLOAD_COMMAND = "pyoco-client wheel-upload --wheel-file dist/mypackage-1.2.0-py3-none-any.whl";

export function Registry({ wheels, onUpload }: { wheels: readonly Wheel[]; onUpload: () => void }) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const [deleting, setDeleting] = useState<Wheel | null>(null);
  const rollout = useRollout();
  const list = useRowKeys<HTMLTableElement>({ next: t("nextWheel"), previous: t("previousWheel") });
  const text = query.get("q") ?? "";
  if (wheels.length === 0) return <NoWheels onUpload={onUpload} />;
  const packages = byPackage(wheels, text);
  return (
    <>
      <FilterRow>
        <SearchField
          live
          label={t("search")}
          placeholder={t("searchPlaceholder")}
          value={text}
          onSearch={(wanted) => {
            change({ q: wanted }, { replace: true });
            return wanted;
          }}
        />
      </FilterRow>
      {packages.length === 0 && (
        <NothingMatches
          title={t("nothingTitle")}
          clear={t("nothingClear")}
          onClear={() => change({ q: null })}
        />
      )}
      {packages.length > 0 && (
        <div className={base.frame}>
          <table ref={list} className={joined(base.table, styles.table, styles.registry)}>
            <thead>
              <tr>
                <th scope="col">{t("version")}</th>
                <th scope="col">{t("workers")}</th>
                <th scope="col">{t("size")}</th>
                <th scope="col">{t("sha256")}</th>
                <th scope="col">{t("uploaded")}</th>
                <th scope="col">
                  <span className="hidden-visually">{t("actions")}</span>
                </th>
              </tr>
            </thead>
            {packages.map((each) => (
              <PackageRows key={each.name} package={each} rollout={rollout} onDelete={setDeleting} />
            ))}
          </table>
        </div>
      )}
      {rollout !== null && rollout.off > 0 && (
        <p className={styles.off}>{t("syncOff", { count: rollout.off })}</p>
      )}
      {deleting && (
        <DeleteDialog
          wheel={deleting}
          last={versionsOf(wheels, deleting) === 1}
          onClose={() => setDeleting(null)}
        />
      )}
    </>
  );
}

/** Not shown to keys that may not read workers. */
function useRollout(): Rollout | null {
  const { data } = useRead(["workers", "active"], (signal) => api.GET("/workers", { signal }), {
    every: WORKERS_EVERY_MS,
  });
  return data ? rolloutOf(data) : null;
}

interface PackageRowsProps {
  package: Package;
  rollout: Rollout | null;
  onDelete: (wheel: Wheel) => void;
}

function PackageRows({ package: { name, wheels }, rollout, onDelete }: PackageRowsProps) {
  const t = useMessages(messages);
  return (
    <tbody>
      <tr className={styles.package}>
        <th scope="rowgroup" colSpan={6}>
          <h2>
            <UserText text={name} />
          </h2>
          <span className={styles.faint}>{t("versions", { count: wheels.length })}</span>
        </th>
      </tr>
      {wheels.map((wheel, at) => (
        <WheelRow
          key={wheel.nuid}
          wheel={wheel}
          newest={at === 0 && wheels.length > 1}
          rollout={rollout}
          onDelete={onDelete}
        />
      ))}
    </tbody>
  );
}

interface WheelRowProps {
  wheel: Wheel;
  newest: boolean;
  rollout: Rollout | null;
  onDelete: (wheel: Wheel) => void;
}

function WheelRow({ wheel, newest, rollout, onDelete }: WheelRowProps) {
  const t = useMessages(messages);
  const { name } = wheel;
  const said = parseWheelName(name);
  return (
    <tr data-wheel={name}>
      <th scope="row" title={name}>
        <span className={styles.version}>{said?.version ?? name}</span>
        {newest && <span className={styles.newest}>{t("newest")}</span>}
        {said?.platform && <code className={styles.platform}>{said.platform}</code>}
      </th>
      <td>
        {wheel.tags.length > 0 ? <Tags tags={wheel.tags} /> : t("forAll")}
        {rollout && <WheelWorkers {...rollout.of(wheel)} />}
      </td>
      <td className={styles.number}>{fileSize(wheel.size_bytes)}</td>
      <td>
        {wheel.sha256_hex ? (
          <span className={styles.digest}>
            <code title={wheel.sha256_hex}>{wheel.sha256_hex.slice(0, 12)}</code>
            <CopyButton text={wheel.sha256_hex} />
          </span>
        ) : (
          t("noDigest")
        )}
      </td>
      <td>
        <Ago at={wheel.modified} />
      </td>
      <td className={styles.actions}>
        <IconButton
          data-row
          label={t("download", { wheel: name })}
          icon={<Download size={15} aria-hidden />}
          onClick={() =>
            void download({ path: `/wheels/${encodeURIComponent(name)}`, name, bytes: wheel.size_bytes })
          }
        />
        <ButtonLink
          kind="plain"
          className={styles.icon}
          href={href("/wheels", { view: "history", wheel: name })}
          aria-label={t("historyOf", { wheel: name })}
          title={t("historyOf", { wheel: name })}
        >
          <History size={15} aria-hidden />
        </ButtonLink>
        <IconButton
          label={t("delete", { wheel: name })}
          icon={<Trash2 size={15} aria-hidden />}
          onClick={() => onDelete(wheel)}
        />
      </td>
    </tr>
  );
}

function NoWheels({ onUpload }: { onUpload: () => void }) {
  const t = useMessages(messages);
  return (
    <EmptyState
      icon={Boxes}
      title={t("emptyTitle")}
      actions={
        <Button kind="primary" onClick={onUpload}>
          <Upload size={14} aria-hidden />
          {t("upload")}
        </Button>
      }
    >
      <p>{t("emptyText")}</p>
      <CommandLine text={UPLOAD_COMMAND} />
      <p>{t("emptySync")}</p>
    </EmptyState>
  );
}
