/** The controls of a form, one per kind of value. */
import { type ComponentProps, useId } from "react";
import { useMessages } from "../i18n/messages";
import { ExactNumber, isInexact, parseJson, sendsExact } from "../lib/exactJson";
import { visible } from "../lib/visible";
import { Input, joined, Select, TextArea } from "../ui/controls";
import { UserText } from "../ui/UserText";
import type { Choice, Shape } from "./fields";
import { exactIn, hasInfinite, type Json, jsonWritten, same } from "./json";
import { messages } from "./messages";
import styles from "./SchemaForm.module.css";
import { useTyped } from "./typedText";

export interface ControlProps {
  id: string;
  /** The path of its value and its kind: the key of the typed text. */
  place: string;
  label: string;
  /** The id of its description. */
  note?: string;
  invalid: boolean;
  required: boolean;
}

interface InputProps {
  wired: ControlProps;
  value: Json | undefined;
  onChange: (value: Json | undefined) => void;
}

const attributes = ({ id, note, invalid, required }: ControlProps) => ({
  id,
  "aria-describedby": note,
  "aria-invalid": invalid || undefined,
  "aria-required": required || undefined,
});

export function TextInput({
  wired,
  value,
  onChange,
  shape,
}: InputProps & { shape: Extract<Shape, { kind: "text" }> }) {
  const text = typeof value === "string" ? value : "";
  const give = (next: string) => onChange(next === "" ? undefined : next);
  if (shape.as === "multiline" || text.includes("\n"))
    return (
      <TextArea
        {...attributes(wired)}
        className={styles.area}
        rows={3}
        value={text}
        onChange={({ target }) => give(target.value)}
      />
    );
  if (shape.as === "date-time") return <MomentInput wired={wired} value={value} onChange={onChange} />;
  return (
    <Input
      {...attributes(wired)}
      type={shape.as}
      className={shape.as === "date" ? styles.short : undefined}
      value={text}
      onChange={({ target }) => give(target.value)}
    />
  );
}

/** In local time; sent with its time zone. */
function MomentInput({ wired, value, onChange }: InputProps) {
  const [text, setText] = useTyped(wired.place, value, localMoment, (typed) => momentIn(typed));
  return (
    <Input
      {...attributes(wired)}
      type="datetime-local"
      step={1}
      className={styles.short}
      value={text}
      onChange={({ target }) => {
        setText(target.value);
        onChange(momentIn(target.value));
      }}
    />
  );
}

function localMoment(value: Json | undefined): string {
  const moment = typeof value === "string" ? new Date(value) : null;
  if (!moment || Number.isNaN(moment.getTime())) return "";
  return new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** A timestamp, or the text itself if it is invalid: validation reports it. */
export function momentIn(text: string): string | undefined {
  if (text === "") return undefined;
  const moment = new Date(text);
  return Number.isNaN(moment.getTime()) ? text : moment.toISOString();
}

export function NumberInput({ wired, value, onChange }: InputProps) {
  const [text, setText] = useTyped(
    wired.place,
    value,
    (given) => (given == null ? "" : String(given)),
    numberIn,
  );
  return (
    <Input
      {...attributes(wired)}
      inputMode="decimal"
      autoComplete="off"
      className={styles.short}
      value={text}
      onChange={({ target }) => {
        setText(target.value);
        onChange(numberIn(target.value));
      }}
    />
  );
}

/** A number, or the text itself if it is invalid or inexact: validation reports it. */
export function numberIn(text: string): Json | undefined {
  const bare = text.trim();
  if (bare === "") return undefined;
  const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(bare) ? Number(bare) : Number.NaN;
  if (isInexact(bare)) return sendsExact() ? new ExactNumber(BigInt(bare).toString()) : bare;
  return Number.isFinite(number) ? number : bare;
}

export function BooleanInput({ wired, value, onChange }: InputProps) {
  const t = useMessages(messages);
  const choices: Choice[] = [
    { value: true, label: t("yes") },
    { value: false, label: t("no") },
  ];
  return <Radios wired={wired} value={value} onChange={onChange} choices={choices} inline />;
}

interface ChoiceInputProps extends InputProps {
  choices: Choice[];
  /** All choices visible, or a dropdown. */
  radios: boolean;
}

export function ChoiceInput({ radios, ...props }: ChoiceInputProps) {
  return radios ? <Radios {...props} /> : <ChoiceSelect {...props} />;
}

function ChoiceSelect({ wired, value, onChange, choices }: Omit<ChoiceInputProps, "radios">) {
  const t = useMessages(messages);
  const chosen = choices.findIndex((choice) => same(choice.value, value));
  return (
    <Select
      {...attributes(wired)}
      className={styles.short}
      value={chosen}
      onChange={({ target }) => onChange(choices[Number(target.value)]?.value)}
    >
      <option value={-1}>{wired.required ? t("choose") : t("notGiven")}</option>
      {choices.map((choice, at) => (
        <option key={choice.label} value={at}>
          {visible(choice.label)}
        </option>
      ))}
    </Select>
  );
}

interface RadiosProps extends Omit<ChoiceInputProps, "radios"> {
  inline?: boolean;
}

function Radios({ wired, value, onChange, choices, inline }: RadiosProps) {
  const t = useMessages(messages);
  const name = useId();
  const hints = choices.some(({ hint }) => hint);
  return (
    <div
      role="radiogroup"
      aria-labelledby={`${wired.id}-label`}
      aria-describedby={wired.note}
      aria-invalid={wired.invalid || undefined}
      aria-required={wired.required || undefined}
      className={joined(styles.choices, (inline || !hints) && styles.inline)}
    >
      {choices.map((choice) => (
        <Tile
          key={choice.label}
          choice={choice}
          type="radio"
          name={name}
          checked={same(choice.value, value)}
          onChange={() => onChange(choice.value)}
        />
      ))}
      {!wired.required && (
        <Tile
          choice={{ value: null, label: t("notGiven") }}
          type="radio"
          name={name}
          checked={value == null}
          onChange={() => onChange(undefined)}
        />
      )}
    </div>
  );
}

export function SeveralInput({ wired, value, onChange, choices }: InputProps & { choices: Choice[] }) {
  const chosen = Array.isArray(value) ? value : [];
  const toggle = (choice: Choice) => {
    const rest = chosen.filter((each) => !same(each, choice.value));
    onChange(rest.length < chosen.length ? rest : [...chosen, choice.value]);
  };
  return (
    <div
      role="group"
      aria-labelledby={`${wired.id}-label`}
      aria-describedby={wired.note}
      className={joined(styles.choices, styles.inline)}
    >
      {choices.map((choice) => (
        <Tile
          key={choice.label}
          choice={choice}
          type="checkbox"
          checked={chosen.some((each) => same(each, choice.value))}
          onChange={() => toggle(choice)}
        />
      ))}
    </div>
  );
}

function Tile({ choice, ...input }: { choice: Choice } & ComponentProps<"input">) {
  return (
    <label className={styles.tile}>
      <input {...input} />
      <span>
        <UserText text={choice.label} />
        {choice.hint && (
          <span className={styles.tileHint}>
            <UserText text={choice.hint} />
          </span>
        )}
      </span>
    </label>
  );
}

/** For values that no other control supports. Invalid JSON is kept as typed and reported. */
export function JsonInput({ wired, value, onChange }: InputProps) {
  const t = useMessages(messages);
  const [text, setText] = useTyped(wired.place, value, jsonWritten, (typed) => jsonIn(typed).value);
  const { why, inexact, tooLarge } = jsonIn(text);
  return (
    <>
      <TextArea
        {...attributes(wired)}
        className={joined(styles.area, styles.code)}
        rows={Math.min(16, Math.max(3, text.split("\n").length + 1))}
        spellCheck={false}
        value={text}
        onChange={({ target }) => {
          setText(target.value);
          onChange(jsonIn(target.value).value);
        }}
      />
      {why && (
        <p className={styles.problem} role="alert">
          {t("notJson", { why })}
        </p>
      )}
      {inexact && (
        <p className={styles.problem} role="alert">
          {t("inexact", { number: inexact })}
        </p>
      )}
      {tooLarge && (
        <p className={styles.problem} role="alert">
          {t("tooLarge")}
        </p>
      )}
    </>
  );
}

interface ReadJson {
  value: Json | undefined;
  /** The parse error. */
  why?: string;
  /** A number in it that would be changed. */
  inexact?: string;
  /** Whether it contains a number beyond the range of JavaScript, which would become `null`. */
  tooLarge?: boolean;
}

export function jsonIn(text: string): ReadJson {
  if (text.trim() === "") return { value: undefined };
  try {
    const value = parseJson(text) as Json;
    if (hasInfinite(value)) return { value: undefined, tooLarge: true };
    const [inexact] = sendsExact() ? [] : exactIn(value);
    return inexact === undefined ? { value } : { value: undefined, inexact: inexact.source };
  } catch (error) {
    return { value: undefined, why: error instanceof Error ? error.message : String(error) };
  }
}
