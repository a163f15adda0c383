/** The reference of the HTTP API, from the gateway's own OpenAPI document, with a form for each operation. */
import { Braces, SearchX } from "lucide-react";
import { Fragment, useMemo } from "react";
import { send } from "../../api/client";
import { useRead } from "../../api/queries";
import { version } from "../../app/pageConfig";
import { href, useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { joined } from "../../ui/controls";
import { EmptyState, Loading, ProblemBox } from "../../ui/feedback";
import { Page } from "../../ui/Page";
import { SearchField } from "../../ui/SearchField";
import styles from "./Api.module.css";
import { type Document, type Group, groupsOf, matching, type Operation } from "./document";
import { Method } from "./Method";
import { messages } from "./messages";
import { OperationView } from "./OperationView";

async function readDocument(signal: AbortSignal): Promise<{ data: Document }> {
  const answer = await send(new Request("/openapi.json", { signal }));
  return { data: (await answer.json()) as Document };
}

export default function ApiScreen() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const { data, error, refetch } = useRead(["openapi"], readDocument);
  const groups = useMemo(() => (data ? groupsOf(data) : []), [data]);
  const search = query.get("q") ?? "";
  const shown = matching(groups, search);
  const chosen = groups.flatMap(({ operations }) => operations).find(({ id }) => id === query.get("op"));
  return (
    <Page title={t("title")} note={version} actions={<a href="/openapi.json">{t("document")}</a>}>
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <div className={joined(styles.columns, chosen && styles.withChosen)}>
          <div className={styles.index}>
            <SearchField
              live
              label={t("search")}
              placeholder={t("searchPlaceholder")}
              value={search}
              onSearch={(text) => {
                change({ q: text }, { replace: true });
                return text;
              }}
            />
            <Index groups={shown} chosen={chosen} search={search} />
            {shown.length === 0 && <EmptyState icon={SearchX} title={t("nothingFound")} />}
          </div>
          <div className={styles.chosen}>
            {chosen && (
              <a className={styles.back} href={href("/api", { q: search })}>
                {t("allOperations")}
              </a>
            )}
            {chosen ? (
              <OperationView key={chosen.id} operation={chosen} document={data} />
            ) : (
              <EmptyState icon={Braces} title={t("choose")}>
                {t("chooseText")}
              </EmptyState>
            )}
          </div>
        </div>
      )}
    </Page>
  );
}

interface IndexProps {
  groups: readonly Group[];
  chosen: Operation | undefined;
  search: string;
}

function Index({ groups, chosen, search }: IndexProps) {
  const t = useMessages(messages);
  return (
    <nav aria-label={t("operations")}>
      {groups.map(({ name, description, operations }) => (
        <section key={name} aria-label={t("group", { name })}>
          <h2 className={styles.group}>{name}</h2>
          {description && <p className={styles.groupText}>{description}</p>}
          <ul>
            {operations.map(({ id, method, path }) => (
              <li key={id}>
                <a
                  className={styles.entry}
                  href={href("/api", { op: id, q: search })}
                  aria-current={id === chosen?.id ? "page" : undefined}
                >
                  <Method name={method} />
                  <code>
                    {path.split(/(?<=\/)/).map((part, at) => (
                      // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a path have no other name.
                      <Fragment key={at}>
                        {part}
                        <wbr />
                      </Fragment>
                    ))}
                  </code>
                </a>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </nav>
  );
}
