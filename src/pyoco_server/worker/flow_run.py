"""One execution of one flow by the pyoco engine, told as a progress and an outcome."""

import time
import traceback
from graphlib import CycleError, TopologicalSorter
from typing import Any

import msgspec
from pyoco.core.engine import Engine
from pyoco.core.models import Flow, RunContext, TaskRecord, TaskState
from pyoco.core.models import RunStatus as EngineStatus
from pyoco.trace.backend import TraceBackend

from pyoco_server.models import Reason, RunStatus, TaskStatus
from pyoco_server.worker.protocol import Outcome, Progress
from pyoco_server.worker.values import clean, to_json

# What is kept of each task's output, from its end.
_OUTPUT_TAIL_CHARS = 8192
_TRACEBACK_CHARS = 16384


class _Quiet(TraceBackend):  # type: ignore[misc]
    """The engine insists on telling somebody; we read its run context instead."""

    def on_flow_start(self, flow_name: str, run_id: str | None = None) -> None: ...
    def on_flow_end(self, flow_name: str) -> None: ...
    def on_node_start(self, node_name: str) -> None: ...
    def on_node_end(self, node_name: str, duration_ms: float) -> None: ...
    def on_node_error(self, node_name: str, error: Exception) -> None: ...


class _Context(RunContext):  # type: ignore[misc]
    """A run context that keeps the end of what each task printed, not all of it."""

    def append_log(self, task_name: str, stream: str, payload: str) -> None:
        if payload:
            outputs = self.metadata.setdefault("outputs", {}).setdefault(task_name, {})
            outputs[stream] = (outputs.get(stream, "") + payload)[-_OUTPUT_TAIL_CHARS:]

    def outputs_of(self, task_name: str) -> dict[str, str]:
        outputs: dict[str, str] = self.metadata.get("outputs", {}).get(task_name, {})
        return outputs


class FlowRun:
    """Runs a flow on the calling thread; `cancel` and `progress` may be called from another."""

    def __init__(self, run_id: str, flow: Flow, params: dict[str, Any]) -> None:
        self.run_id = run_id
        self._flow = flow
        self._params = params
        self._engine = Engine(trace_backend=_Quiet())
        # The engine fills these in the order of a set; a reader wants the order of the flow.
        self._context = _Context(run_id=run_id, tasks=dict.fromkeys(_in_order(flow), TaskState.PENDING))
        self._cancel_requested = False

    def execute(self) -> Outcome:
        try:
            self._engine.run(self._flow, self._params, run_context=self._context)
        except BaseException as error:  # noqa: BLE001 - a task may even raise SystemExit
            return self._failed(error)
        if self._cancel_requested or self._context.status is not EngineStatus.COMPLETED:
            return self._ended(RunStatus.CANCELLED)
        return self._ended(RunStatus.COMPLETED)

    def cancel(self) -> None:
        """Have the engine stop at its next boundary, and `ctx.is_cancelled` be true from now on."""
        self._cancel_requested = True
        # Not Engine.cancel: that one forgets a wish which comes before the engine has begun.
        if self._context.status is EngineStatus.RUNNING:
            self._context.status = EngineStatus.CANCELLING

    def progress(self) -> Progress:
        return Progress(tasks=self._task_states())

    def _failed(self, error: BaseException) -> Outcome:
        """The outcome after an exception; one that followed a cancel is the flow's way to stop."""
        text = clean(f"{type(error).__name__}: {_message(error)}")
        failed = self._end_running_tasks(text)
        if self._cancel_requested:
            return self._ended(RunStatus.CANCELLED)
        return self._ended(
            RunStatus.FAILED,
            reason=Reason.EXECUTION_ERROR,
            error=f"task {failed}: {text}" if failed else text,
            exc_type=type(error).__name__,
            exc_traceback=clean("".join(traceback.format_exception(error))[-_TRACEBACK_CHARS:]),
        )

    def _end_running_tasks(self, error: str) -> str | None:
        """Mark what the engine left RUNNING, and name the task that failed first."""
        failed: list[tuple[float, str]] = []
        for name, state in self._context.tasks.items():
            record = self._context.ensure_task_record(name)
            if state is TaskState.RUNNING:
                self._context.tasks[name] = record.state = TaskState.FAILED
                record.ended_at = time.time()
                record.error = record.error or error
            if record.state is TaskState.FAILED:
                failed.append((record.ended_at or 0.0, name))
        return min(failed)[1] if failed else None

    def _ended(self, status: RunStatus, **how: Any) -> Outcome:
        records: dict[str, bytes] = {}
        records_cut = False
        for name, record in self._context.task_records.items():
            records[name], cut = self._encoded_record(name, record)
            records_cut = records_cut or cut
        return Outcome(
            status=status, tasks=self._task_states(), task_records=records, records_cut=records_cut, **how
        )

    def _task_states(self) -> dict[str, str]:
        # A copy: the engine's threads go on changing the original.
        return {name: TaskStatus(state.value) for name, state in dict(self._context.tasks).items()}

    def _encoded_record(self, name: str, record: TaskRecord) -> tuple[bytes, bool]:
        values = {"inputs": to_json(record.inputs), "output": to_json(record.output)}
        cut = [field for field, (_, was_cut) in values.items() if was_cut]
        encoded: dict[str, Any] = {
            "state": record.state.value,
            "started_at": record.started_at,
            "ended_at": record.ended_at,
            "duration_ms": record.duration_ms,
            "error": record.error and clean(record.error),
            "traceback": record.traceback and clean(record.traceback),
            **{field: value for field, (value, _) in values.items()},
            "artifacts": to_json(record.artifacts)[0],
            **{stream: clean(text) for stream, text in self._context.outputs_of(name).items()},
        }
        if cut:
            encoded["truncated"] = cut
        return msgspec.json.encode(encoded), bool(cut)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - a user's __str__ may raise anything
        return f"<its message raised {type(broken).__name__}>"


def _in_order(flow: Flow) -> list[str]:
    """The names of the tasks as the flow goes through them; by name where it does not say."""
    before = {task.name: {earlier.name for earlier in task.dependencies} for task in flow.tasks}
    sorter = TopologicalSorter({name: before[name] & before.keys() for name in sorted(before)})
    try:
        return list(sorter.static_order())
    except CycleError:
        # Loops link a task to itself or backwards.
        return sorted(before)
