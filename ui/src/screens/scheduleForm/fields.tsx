/** The inputs of the form. Each is named by its part of the draft. */

import { createContext, type ReactNode, useContext } from "react";
import * as shared from "../../ui/draftForm";
import type { Draft } from "./draft";
import styles from "./ScheduleForm.module.css";
import type { Wrong } from "./useScheduleForm";

interface State {
  draft: Draft;
  change: (patch: Partial<Draft>) => void;
  wrong: Wrong;
}

const ScheduleContext = createContext<State | null>(null);

export function useForm(): State {
  const form = useContext(ScheduleContext);
  if (!form) throw new Error("outside of the form");
  return form;
}

/** For the inputs of this form, and for the shared ones, which know texts only. */
export function FormState({ children, ...state }: State & { children: ReactNode }) {
  const { pauseOnFailure, paused, ...texts } = state.draft;
  return (
    <ScheduleContext value={state}>
      <shared.FormContext value={{ draft: texts, change: state.change, wrong: state.wrong }}>
        {children}
      </shared.FormContext>
    </ScheduleContext>
  );
}

interface Named {
  name: { [K in keyof Draft]: string extends Draft[K] ? K : never }[keyof Draft];
}

/** The shared inputs, with the names of this draft only. */
export const TextField: (props: shared.TextFieldProps & Named) => ReactNode = shared.TextField;
export const LinesField: (props: shared.LinesFieldProps & Named) => ReactNode = shared.LinesField;

interface CheckFieldProps {
  name: "pauseOnFailure" | "paused";
  label: string;
}

export function CheckField({ name, label }: CheckFieldProps) {
  const { draft, change } = useForm();
  return (
    <label className={styles.check}>
      <input
        type="checkbox"
        checked={draft[name]}
        onChange={(event) => change({ [name]: event.target.checked })}
      />
      {label}
    </label>
  );
}
