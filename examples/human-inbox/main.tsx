/** An inbox with two buttons for each question, for answers such as `{"decision": "approved"}`. */
import { HumanWaitError, useHumanWaits, type WaitingRun } from "pyoco-server-react";
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";

type Decision = "approved" | "rejected";

function HumanInbox() {
  const { runs, ready, state, problem, reload, respond } = useHumanWaits({ api: "/pyoco" });
  if (state === "refused" || state === "away")
    return (
      <p role="alert">
        {String(problem)} <button onClick={() => void reload().catch(() => undefined)}>Try again</button>
      </p>
    );
  if (!ready) return <p>Loading…</p>;
  if (runs.length === 0) return <p>Nothing waits for you.</p>;
  return (
    <ul>
      {runs.map((run) => (
        <Question key={run.id} run={run} onDecide={(decision) => respond(run.id, { decision })} />
      ))}
    </ul>
  );
}

function Question({ run, onDecide }: { run: WaitingRun; onDecide: (decision: Decision) => Promise<unknown> }) {
  const [refusal, setRefusal] = useState("");
  const decide = async (decision: Decision) => {
    setRefusal("");
    try {
      await onDecide(decision);
    } catch (error) {
      const fields = error instanceof HumanWaitError ? error.fields : [];
      setRefusal([String(error), ...fields.map(({ field, message }) => `${field}: ${message}`)].join("; "));
    }
  };
  return (
    <li data-status={run.status}>
      <p>{run.wait_message}</p>
      <button onClick={() => decide("approved")}>Approve</button>
      <button onClick={() => decide("rejected")}>Reject</button>
      <small>
        {run.flow_name}, until {new Date(run.wait_deadline_at * 1000).toLocaleString()}
      </small>
      {refusal && <p role="alert">{refusal}</p>}
    </li>
  );
}

createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <h1>Waiting for you</h1>
    <HumanInbox />
  </StrictMode>,
);
