/** A readable JSON value: names and values, tables for uniform lists, multi-line texts. */
import { jsonText } from "../../lib/exactJson";
import { visibleJson } from "../../lib/visible";
import { isObject, type Json, type JsonObject } from "../../schemaForm/json";
import { UserText } from "../../ui/UserText";
import styles from "./JsonView.module.css";

export function JsonView({ value }: { value: unknown }) {
  if (Array.isArray(value)) {
    if (value.length === 0) return <code className={styles.plain}>[]</code>;
    const columns = columnsOf(value);
    return columns ? <Table rows={value as JsonObject[]} columns={columns} /> : <List items={value} />;
  }
  if (isObject(value)) return <Members value={value} />;
  if (typeof value === "string" && value !== "")
    return (
      <span className={styles.text}>
        <UserText text={value} />
      </span>
    );
  return <code className={styles.plain}>{shortJson(value)}</code>;
}

export const shortJson = (value: unknown): string =>
  value === undefined ? "" : visibleJson(jsonText(value));

function Members({ value }: { value: JsonObject }) {
  const members = Object.entries(value);
  if (members.length === 0) return <code className={styles.plain}>{"{}"}</code>;
  return (
    <dl className={styles.members}>
      {members.map(([name, each]) => (
        <div key={name} className={isDeep(each) ? styles.deep : styles.member}>
          <dt>
            <UserText text={name} />
          </dt>
          <dd>
            <JsonView value={each} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function List({ items }: { items: Json[] }) {
  return (
    <ol className={styles.list}>
      {items.map((item, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a value does not change while it is shown.
        <li key={at}>
          <JsonView value={item} />
        </li>
      ))}
    </ol>
  );
}

function Table({ rows, columns }: { rows: JsonObject[]; columns: string[] }) {
  return (
    <div className={styles.scroll}>
      <table className={styles.table}>
        <thead>
          <tr>
            {columns.map((name) => (
              <th key={name} scope="col">
                <UserText text={name} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: as above.
            <tr key={at}>
              {columns.map((name) => (
                <td key={name} className={typeof row[name] === "number" ? styles.number : undefined}>
                  {row[name] !== undefined && <JsonView value={row[name]} />}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const isDeep = (value: Json) => typeof value === "object" && value !== null;

/** The columns of a list of similar flat objects; null for any other list. */
export function columnsOf(items: unknown[]): string[] | null {
  if (!items.every((item) => isObject(item) && !Object.values(item).some(isDeep))) return null;
  const names = [...new Set(items.flatMap((item) => Object.keys(item as JsonObject)))];
  const filled = items.reduce<number>((sum, item) => sum + Object.keys(item as JsonObject).length, 0);
  return names.length > 0 && names.length <= 8 && filled >= (names.length * items.length) / 2 ? names : null;
}
