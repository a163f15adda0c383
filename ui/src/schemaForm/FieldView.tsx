/** One field of a form, with nested fields. */
import { Plus, Trash2 } from "lucide-react";
import { type ReactNode, useId } from "react";
import { listText, useMessages } from "../i18n/messages";
import { visible } from "../lib/visible";
import { Button, IconButton, joined } from "../ui/controls";
import { UserText } from "../ui/UserText";
import { type Field, initialOf, type NamedField, type Shape } from "./fields";
import { BooleanInput, ChoiceInput, JsonInput, NumberInput, SeveralInput, TextInput } from "./inputs";
import { dotted, isObject, type Json, type Path, withMember } from "./json";
import { messages } from "./messages";
import type { ValueKind } from "./outline";
import styles from "./SchemaForm.module.css";
import type { Problems } from "./validation";

export interface FieldViewProps {
  field: Field;
  label: string;
  required: boolean;
  /** The whole form: its label is outside. */
  outermost?: boolean;
  path: Path;
  value: Json | undefined;
  problems: Problems;
  onChange: (value: Json | undefined) => void;
}

export function FieldView(props: FieldViewProps) {
  const { shape } = props.field;
  if (shape.kind === "object") return <ObjectView {...props} fields={shape.fields} />;
  if (shape.kind === "list") return <ListView {...props} item={shape.item} most={shape.most} />;
  return <Leaf {...props} />;
}

function Leaf({ field, label, required, path, value, problems, onChange }: FieldViewProps) {
  const id = useId();
  const problem = problems.get(dotted(path));
  const bounds = useBounds(field.shape);
  const words = [field.description, bounds].filter(Boolean).join(" · ");
  const takes = field.shape.kind === "json" ? field.shape.takes : undefined;
  const hint = (words || takes?.length) && <Hint words={words} takes={takes} />;
  const note = problem || hint ? `${id}-note` : undefined;
  // Without a value, a required field is null if that is allowed, and missing otherwise.
  const orNull = required && field.nullable && field.shape.kind !== "json";
  const change = (next: Json | undefined) => onChange(next === undefined && orNull ? null : next);
  const place = `${field.shape.kind} ${dotted(path)}`;
  const wired = {
    id,
    place,
    label,
    note,
    invalid: problem !== undefined,
    required: required && !field.nullable,
  };
  const isGroup = ["boolean", "several"].includes(field.shape.kind) || isRadios(field.shape);
  return (
    <div className={styles.field} data-field={dotted(path)}>
      {isGroup ? (
        <span className={styles.label} id={`${id}-label`}>
          <UserText text={label} />
          {!required && <Optional />}
        </span>
      ) : (
        <label className={styles.label} htmlFor={id}>
          <UserText text={label} />
          {!required && <Optional />}
        </label>
      )}
      <Control shape={field.shape} wired={wired} value={value} onChange={change} />
      <Note id={note} problem={problem} hint={hint} />
    </div>
  );
}

const MOST_RADIOS = 5;
const isRadios = (shape: Shape) => shape.kind === "choice" && shape.choices.length <= MOST_RADIOS;

function Control({ shape, ...rest }: { shape: Shape } & Omit<Parameters<typeof JsonInput>[0], "shape">) {
  switch (shape.kind) {
    case "text":
      return <TextInput {...rest} shape={shape} />;
    case "number":
      return <NumberInput {...rest} />;
    case "boolean":
      return <BooleanInput {...rest} />;
    case "choice":
      return <ChoiceInput {...rest} choices={shape.choices} radios={isRadios(shape)} />;
    case "several":
      return <SeveralInput {...rest} choices={shape.choices} />;
    default:
      return <JsonInput {...rest} />;
  }
}

function ObjectView({ fields, ...props }: FieldViewProps & { fields: NamedField[] }) {
  const { field, label, required, outermost, path, value, problems, onChange } = props;
  const t = useMessages(messages);
  const members = isObject(value) ? value : {};
  const isThere = isObject(value) || required;
  const inner = fields.map((each) => (
    <FieldView
      key={each.name}
      field={each}
      label={each.title ?? each.name}
      required={each.required}
      path={[...path, each.name]}
      value={members[each.name]}
      problems={problems}
      onChange={(next) => onChange(withMember(members, each.name, next))}
    />
  ));
  if (outermost)
    return (
      <>
        <Note problem={problems.get(dotted(path))} />
        {inner}
      </>
    );
  return (
    <Group {...props}>
      {isThere && inner}
      {!required && (
        <Button kind="plain" onClick={() => onChange(isThere ? undefined : (initialOf(field) ?? {}))}>
          {isThere ? <Trash2 size={14} aria-hidden /> : <Plus size={14} aria-hidden />}
          {isThere ? t("leaveOut", { field: label }) : t("fillIn", { field: label })}
        </Button>
      )}
    </Group>
  );
}

function ListView({ item, most, ...props }: FieldViewProps & { item: Field; most?: number }) {
  const { label, path, value, problems, onChange } = props;
  const t = useMessages(messages);
  const entries = Array.isArray(value) ? value : [];
  const isFlat = item.shape.kind !== "object" && item.shape.kind !== "list";
  const add = () => onChange([...entries, initialOf(item) ?? emptyOf(item)]);
  return (
    <Group {...props}>
      {entries.map((entry, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: entries have nothing else that tells them apart.
        <div key={at} className={joined(styles.entry, isFlat && styles.flat)}>
          <FieldView
            field={item}
            label={item.title ?? t("entry", { count: at + 1 })}
            required
            path={[...path, at]}
            value={entry}
            problems={problems}
            onChange={(next) =>
              onChange(entries.map((each, index) => (index === at ? (next ?? emptyOf(item)) : each)))
            }
          />
          <IconButton
            label={t("removeFrom", { count: at + 1 })}
            icon={<Trash2 size={14} />}
            onClick={() => onChange(entries.filter((_, index) => index !== at))}
          />
        </div>
      ))}
      <Button onClick={add} disabled={most !== undefined && entries.length >= most}>
        <Plus size={14} aria-hidden />
        {t("addTo", { list: label })}
      </Button>
    </Group>
  );
}

/** The frame of an object or a list, with its name and description. */
function Group({
  field,
  label,
  required,
  path,
  problems,
  children,
}: FieldViewProps & { children: ReactNode }) {
  return (
    <fieldset className={styles.group} data-field={dotted(path)}>
      <legend>
        <UserText text={label} />
        {!required && <Optional />}
      </legend>
      <Note
        problem={problems.get(dotted(path))}
        hint={field.description && <UserText text={field.description} />}
      />
      {children}
    </fieldset>
  );
}

/** An entry of a list needs a value. */
const emptyOf = ({ shape }: Field): Json =>
  shape.kind === "object" ? {} : shape.kind === "text" ? "" : null;

const Optional = () => <span className={styles.optional}>{useMessages(messages)("optional")}</span>;

function Note({ id, problem, hint }: { id?: string; problem?: string; hint?: ReactNode }) {
  if (problem)
    return (
      <p id={id} className={styles.problem} role="alert">
        <UserText text={problem} />
      </p>
    );
  return hint ? (
    <div id={id} className={styles.hint}>
      {hint}
    </div>
  ) : null;
}

/** The description of a field, and the expected form of its JSON. */
function Hint({ words, takes = [] }: { words: string; takes?: readonly ValueKind[] }) {
  const t = useMessages(messages);
  return (
    <>
      {words && <UserText text={words} />}
      {takes.length > 1 && <p>{t("oneOf")}</p>}
      {takes.length > 0 && (
        <ul className={styles.takes}>
          {takes.map(({ outline, title, description }) => (
            <li key={`${outline} ${title} ${description}`}>
              <code>{visible(outline)}</code>
              {(title || description) && <UserText text={[title, description].filter(Boolean).join(": ")} />}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function useBounds(shape: Shape): string {
  const t = useMessages(messages);
  if (shape.kind !== "number") return "";
  const { integer, min, max, above, below } = shape;
  const bounds = [
    integer && t("wholeNumber"),
    min !== undefined && t("atLeast", { wanted: min }),
    above !== undefined && t("moreThan", { wanted: above }),
    max !== undefined && t("atMost", { wanted: max }),
    below !== undefined && t("lessThan", { wanted: below }),
  ];
  return listText(bounds.filter((bound) => bound !== false));
}
