/** The views over the list as tabs, and what can be done with the current one. */
import { Bookmark, ChevronDown } from "lucide-react";
import { useEffect, useState } from "react";
import { useMay } from "../../../api/access";
import { useAct } from "../../../api/queries";
import { href, navigate, useQueryState } from "../../../app/router";
import { useMessages } from "../../../i18n/messages";
import { ConfirmDialog } from "../../../ui/ConfirmDialog";
import { Button, joined } from "../../../ui/controls";
import { Menu, MenuItem, MenuLine } from "../../../ui/menus";
import { showToast } from "../../../ui/toasts";
import { UserText } from "../../../ui/UserText";
import { messages } from "./messages";
import { type Naming, SaveDialog } from "./SaveDialog";
import { deleteView, putView, REFRESH, removeOwn, saveOwn, useViews } from "./useViews";
import styles from "./ViewBar.module.css";
import {
  BUILT_IN,
  type BuiltIn,
  contentOf,
  LINK,
  type OwnView,
  queryOf,
  requestOf,
  type SharedView,
} from "./views";

/** A saved view, wherever it is saved. */
export interface Saved {
  name: string;
  query: URLSearchParams;
  /** Null: in this browser. */
  shared: SharedView | null;
}

const savedShared = (shared: SharedView): Saved => ({ name: shared.name, query: queryOf(shared), shared });
const savedOwn = ({ name, query }: OwnView): Saved => ({
  name,
  query: new URLSearchParams(query),
  shared: null,
});

/** The URL of a view also names it, so that a changed filter is still a change of this view. */
function hrefOf({ name, query, shared }: Saved): string {
  const named = new URLSearchParams(query);
  named.set(shared ? "view" : "own", name);
  return href("/runs", named);
}

export function ViewBar() {
  const t = useMessages(messages);
  const [query] = useQueryState();
  const views = useViews();
  const saved = [...(views.shared ?? []).map(savedShared), ...views.own.map(savedOwn)];
  const [view, own] = [query.get("view"), query.get("own")];
  const current = saved.find(({ name, shared }) => name === (shared ? view : own)) ?? null;
  const content = contentOf(query);
  const isChanged = current !== null && contentOf(current.query) !== content;
  const isNamed = view !== null || own !== null;
  useOpenedLink(saved, views.shared !== undefined);
  const seen = useSeenRevision(current?.shared ?? null, isChanged);
  return (
    <div className={styles.bar}>
      <nav className={styles.tabs} aria-label={t("views")}>
        {(Object.keys(BUILT_IN) as BuiltIn[]).map((name) => (
          <a
            key={name}
            className={styles.tab}
            href={href("/runs", new URLSearchParams(BUILT_IN[name]))}
            aria-current={
              !isNamed && contentOf(new URLSearchParams(BUILT_IN[name])) === content ? "page" : undefined
            }
          >
            {t(`builtIn.${name}`)}
          </a>
        ))}
        {saved.map((each) => (
          <a
            key={`${each.shared ? "shared" : "own"} ${each.name}`}
            className={joined(styles.tab, !each.shared && styles.own)}
            href={hrefOf(each)}
            title={titleOf(each, t)}
            aria-current={each === current ? "page" : undefined}
            data-view={each.name}
          >
            <UserText text={each.name} />
            {each === current && isChanged && <span className={styles.changed}>{t("changed")}</span>}
          </a>
        ))}
      </nav>
      <ViewMenu key={current ? hrefOf(current) : ""} current={current} isChanged={isChanged} seen={seen} />
    </div>
  );
}

type Texts = ReturnType<typeof useMessages<(typeof messages)["en"]>>;

function titleOf({ shared }: Saved, t: Texts): string {
  if (!shared) return t("own");
  return shared.updated_by ? t("sharedBy", { name: shared.updated_by }) : t("shared");
}

/** A link to a view names it only: what it shows is what the view is now. */
function useOpenedLink(saved: readonly Saved[], isLoaded: boolean): void {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const name = query.get(LINK);
  const found = saved.find((each) => each.shared && each.name === name);
  const target = found ? hrefOf(found) : null;
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each link.
  useEffect(() => {
    if (name === null || !isLoaded) return;
    if (target) navigate(target, { replace: true });
    else {
      showToast({ tone: "bad", title: t("missing", { name }) });
      change({ [LINK]: null }, { replace: true });
    }
  }, [name, isLoaded, target]);
}

interface Seen {
  /** The revision that the changes of the reader are based on. */
  revision: number;
  /** The reader knows that there is a newer one. */
  takeNewest: () => void;
}

/** A change of somebody else, which arrives while the reader changes the view, is not what was seen. */
function useSeenRevision(view: SharedView | null, isChanged: boolean): Seen {
  const [seen, setSeen] = useState<{ name: string; revision: number } | null>(null);
  const { name = "", revision = 0 } = view ?? {};
  const isStale = seen?.name !== name || (!isChanged && seen.revision !== revision);
  useEffect(() => {
    if (isStale) setSeen({ name, revision });
  }, [isStale, name, revision]);
  return { revision: isStale ? revision : seen.revision, takeNewest: () => setSeen(null) };
}

interface ViewMenuProps {
  current: Saved | null;
  isChanged: boolean;
  seen: Seen;
}

/** Saves the current list as a view, and changes the current view. */
function ViewMenu({ current, isChanged, seen }: ViewMenuProps) {
  const t = useMessages(messages);
  const [query] = useQueryState();
  const [naming, setNaming] = useState<Naming | null>(null);
  const [deleting, setDeleting] = useState(false);
  const mayShare = useMay("PUT /views/{view_name}");
  const mayChange = current !== null && (mayShare || !current.shared);
  const store = useAct((name: string) => putView(name, requestOf(query), { revision: seen.revision }), {
    refresh: REFRESH,
    onDone: ({ name }) => showToast({ tone: "good", title: t("saved", { name }) }),
  });
  const saveChanges = ({ name, shared }: Saved) => {
    // After a conflict the reader has been told, and may save once more.
    if (shared) store.mutate(name, { onError: seen.takeNewest });
    else {
      saveOwn({ name, query: contentOf(query) });
      showToast({ tone: "good", title: t("saved", { name }) });
    }
  };
  const copyLink = async ({ name }: Saved) => {
    await navigator.clipboard.writeText(new URL(href("/runs", { [LINK]: name }), location.href).toString());
    showToast({ tone: "good", title: t("copied") });
  };
  return (
    <div className={styles.actions}>
      {current && mayChange && isChanged && (
        <Button kind="primary" disabled={store.isPending} onClick={() => saveChanges(current)}>
          {t("saveChanges")}
        </Button>
      )}
      {current ? (
        <Menu
          align="end"
          trigger={
            <Button aria-label={t("menu", { name: current.name })}>
              <Bookmark size={14} aria-hidden />
              <ChevronDown size={13} aria-hidden />
            </Button>
          }
        >
          {isChanged && <MenuItem onSelect={() => navigate(hrefOf(current))}>{t("reset")}</MenuItem>}
          <MenuItem onSelect={() => setNaming({ kind: "save" })}>{t("saveAs")}</MenuItem>
          {mayChange && (
            <MenuItem onSelect={() => setNaming({ kind: "rename", view: current })}>{t("rename")}</MenuItem>
          )}
          {current.shared && <MenuItem onSelect={() => void copyLink(current)}>{t("copyLink")}</MenuItem>}
          {mayChange && (
            <>
              <MenuLine />
              <MenuItem danger onSelect={() => setDeleting(true)}>
                {t("remove")}
              </MenuItem>
            </>
          )}
        </Menu>
      ) : (
        <Button aria-label={t("saveAs")} onClick={() => setNaming({ kind: "save" })}>
          <Bookmark size={14} aria-hidden />
          <span className={styles.wide}>{t("saveAs")}</span>
        </Button>
      )}
      {naming && (
        <SaveDialog
          naming={naming}
          mayShare={mayShare}
          onSaved={(saved) => navigate(hrefOf(saved), { replace: true })}
          onClose={() => setNaming(null)}
        />
      )}
      {deleting && current && <DeleteDialog view={current} onClose={() => setDeleting(false)} />}
    </div>
  );
}

function DeleteDialog({ view, onClose }: { view: Saved; onClose: () => void }) {
  const t = useMessages(messages);
  const { name, shared } = view;
  const [, change] = useQueryState();
  return (
    <ConfirmDialog
      title={t("deleteTitle", { name })}
      text={t(shared ? "deleteShared" : "deleteOwn")}
      confirm={t("doDelete")}
      refresh={REFRESH}
      act={async () => {
        if (shared) return deleteView(shared);
        removeOwn(name);
        return { data: undefined };
      }}
      onDone={() => {
        // The list stays as it is.
        change({ view: null, own: null }, { replace: true });
        showToast({ tone: "good", title: t("deleted", { name }) });
      }}
      onClose={onClose}
    />
  );
}
