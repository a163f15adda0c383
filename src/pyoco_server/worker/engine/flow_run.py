"""One execution of a flow: reports progress, journal entries and questions, and returns an outcome."""

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyoco.core.models import Flow, TaskRecord, TaskState
from pyoco.core.models import RunStatus as EngineStatus

from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.journal_order import last_number
from pyoco_server.records.runs.run_models import Reason, RunStatus, TaskStatus
from pyoco_server.records.waits.wait_models import Question, decode_waits, encode
from pyoco_server.runs.flow_yaml.flow_order import in_order, predecessors
from pyoco_server.waits.wait_arguments import IN_PLACE_SEC, TaskSuspended
from pyoco_server.worker.engine.flow_engine import run_flow
from pyoco_server.worker.engine.graph.flow_shape import FlowShape
from pyoco_server.worker.engine.graph.rerun_reuse import reusable
from pyoco_server.worker.engine.journal.json_values import VALUE_LIMIT_BYTES, error_message
from pyoco_server.worker.engine.journal.large_outputs import LargeOutputs
from pyoco_server.worker.engine.journal.task_journal import TaskJournal
from pyoco_server.worker.engine.run_facts import facts_of
from pyoco_server.worker.engine.run_waits import RunWaits
from pyoco_server.worker.engine.tasks.raised_error import raised_fields
from pyoco_server.worker.engine.tasks.task_calls import (
    RetryBackoff,
    ServerRunContext,
    TaskCall,
    TaskCalls,
    TaskTimers,
    TaskWatcher,
    wrap_tasks,
)
from pyoco_server.worker.engine.tasks.task_records import brief_record, encoded_record
from pyoco_server.worker.engine.tasks.written_files import StoreFiles, WrittenFiles, nothing_to_store
from pyoco_server.worker.ipc.protocol import Outcome, OutputPart, Progress, Run

_FORCED = "the run was ended by force"
_CANCELLED = "the run was cancelled"
_NOT_YET = "it is stored when the run ends"
# A smaller output stays in its record.
_SMALL_BYTES = 2048

_STATUS = {state: TaskStatus(state.value) for state in TaskState}


@dataclass(frozen=True, slots=True)
class RunListener:
    finished: Callable[[JournalEntry], None]
    # A task has asked a person a question that is not answered yet.
    asked: Callable[[Question], None]
    # The run has ended although one of its tasks still executes. The first argument builds the outcome, which
    # may block on output locks; the second one is a brief form of it.
    stuck: Callable[[Callable[[], Outcome], Outcome], None]
    # The end of what a task has printed, by stream.
    output_tail: Callable[[str], dict[str, str]]
    # Adds a line about a task to the run's log.
    note: Callable[[str, str], None]
    watchers: Sequence[TaskWatcher]
    # Notified of tasks with a time limit.
    limit_watchers: Sequence[TaskWatcher]
    backoff: RetryBackoff
    max_value_bytes: int
    # Takes the parts of large outputs; returns when there is room for the next one.
    store: Callable[[OutputPart], None]
    # The largest output that is stored, and what the records of all tasks may take together.
    max_result_bytes: int
    max_records_bytes: int
    # A task that sleeps for less than this does so in place.
    sleep_in_place_sec: float = IN_PLACE_SEC
    # Returns when the files of the run that are new are stored.
    store_files: StoreFiles = nothing_to_store


class FlowRun:
    """Runs a flow on the calling thread; all other methods may be called from another."""

    def __init__(self, run: Run, flow: Flow, params: dict[str, Any], listener: RunListener) -> None:
        limited = wrap_tasks(flow)
        order = in_order(flow)
        self.run_id = run.run_id
        self._flow = flow
        self._links = predecessors(flow)
        self._params = params
        self._listener = listener
        self._files = WrittenFiles(run.directory, listener.store_files)
        self._journal = TaskJournal(
            reusable(flow, run.journal, run.rerun_task),
            base=last_number(run.journal),
            attempt=run.attempt,
            shape=FlowShape(flow, order),
            write=listener.finished,
            note=listener.note,
            max_value_bytes=listener.max_value_bytes,
            store_files=self._files.store,
        )
        waits = decode_waits(run.waits) if run.waits else []
        self._waits = RunWaits(waits, listener.asked, listener.note, run.api_key_id)
        # Only where needed: the timers refer to this run, whose memory is freed without a collection.
        limit_watchers = [TaskTimers(self._on_timeout), *listener.limit_watchers] if limited else []
        self._calls = TaskCalls(
            flow,
            self._journal,
            self._waits,
            listener.backoff,
            listener.watchers,
            files=self._files,
            limit_watchers=limit_watchers,
            sleep_in_place_sec=listener.sleep_in_place_sec,
        )
        # In the order of the flow: the engine would add them in the order of a set.
        self._context = ServerRunContext(run_id=run.run_id, tasks=dict.fromkeys(order, TaskState.PENDING))
        self._context.calls = self._calls
        self._context.facts = facts_of(run)
        self._outputs = LargeOutputs(listener.store, max_bytes=listener.max_result_bytes)
        self._cancel_requested = False
        self._end_claim = threading.Lock()
        self._result_task = _result_task_of(flow)

    def execute(self) -> Outcome | None:
        """The outcome; None when another thread has claimed the end of the run and reports it."""
        outcome = self._run()
        self._files.store_saved()
        # Before the claim: while this lasts, the run can still be ended from outside, with its records.
        self._outputs.send_all()
        return outcome if self.claim_end() else None

    def cancel(self) -> None:
        """Stop the engine before its next task; `ctx.is_cancelled` is true from now on."""
        self._cancel_requested = True
        self._calls.stop()
        # Not Engine.cancel, which ignores a request that comes before the engine has started.
        if self._context.status is EngineStatus.RUNNING:
            self._context.status = EngineStatus.CANCELLING

    def progress(self) -> Progress:
        # A copy, see `_task_states`.
        records = {
            name: brief_record(
                record,
                after=self._links.get(name, []),
                calls=self._calls.history.count(name),
                latest_calls=self._calls.history.recent(name),
                replayed=self._journal.replayed.get(name),
                executed_again=self._journal.executed_again.get(name),
            )
            for name, record in dict(self._context.task_records).items()
        }
        return Progress(run_id=self.run_id, tasks=self._task_states(), task_records=records)

    def claim_end(self) -> bool:
        """Claim the right to report how the run ends; false if somebody else has it."""
        return self._end_claim.acquire(blocking=False)

    def forced_outcome(self, status: str, error: str) -> Outcome:
        """The outcome of a run that is ended from outside, after its end was claimed."""
        over = TaskState.CANCELLED if status == RunStatus.CANCELLED else TaskState.FAILED
        self._end_running_tasks(error, over)
        return self._outcome(RunStatus(status), not_stored=_FORCED, error=error, forced=True)

    def _run(self) -> Outcome:
        try:
            run_flow(self._flow, self._params, self._context, self._waits.discard)
        except TaskSuspended:
            if not self._cancel_requested:
                return self._outcome(self._waits.status)
            self._end_running_tasks("", TaskState.CANCELLED)
            return self._outcome(RunStatus.CANCELLED)
        except BaseException as error:  # noqa: BLE001 - a task may even raise SystemExit
            return self._failed(error)
        finally:
            self._calls.forget_raised()
        if self._cancel_requested or self._context.status is not EngineStatus.COMPLETED:
            return self._outcome(RunStatus.CANCELLED)
        return self._outcome(RunStatus.COMPLETED)

    def _on_timeout(self, call: TaskCall) -> None:
        """A task is past its limit. It cannot be stopped, so that its process has to end."""
        if not self.claim_end():
            return
        text = f"it took longer than its limit of {call.timeout_sec:g} s"
        if self._cancel_requested:
            brief = Outcome(status=RunStatus.CANCELLED)
        elif call.isolated:
            brief = Outcome(status=RunStatus.RUNNING, must_continue=True)
        else:
            error = f"task {call.task.name}: {text}"
            brief = Outcome(status=RunStatus.FAILED, reason=Reason.TIMEOUT, error=error)
        self._listener.stuck(lambda: self._timed_out(call, text, brief), brief)

    def _timed_out(self, call: TaskCall, text: str, brief: Outcome) -> Outcome:
        """The complete form of the brief outcome."""
        try:
            if brief.must_continue:
                self._journal.failed(call.key, call.task.name, call.started_at, text)
                return brief
            cancelled = brief.status == RunStatus.CANCELLED
            self._end_running_tasks(text, TaskState.CANCELLED if cancelled else TaskState.FAILED)
            status = RunStatus(brief.status)
            return self._outcome(status, not_stored=_FORCED, reason=brief.reason, error=brief.error)
        except Exception:  # noqa: BLE001 - nothing else can end this run
            traceback.print_exc()
            return brief

    def _failed(self, error: BaseException) -> Outcome:
        """The outcome after an exception; after a cancel, it is how the flow stops."""
        text = f"{type(error).__name__}: {error_message(error)}"
        running = self._end_running_tasks(text, TaskState.FAILED)
        failed = self._calls.task_that_raised(error) or running
        if self._cancel_requested:
            return self._outcome(RunStatus.CANCELLED)
        return self._outcome(
            RunStatus.FAILED,
            reason=Reason.EXECUTION_ERROR,
            error=f"task {failed}: {text}" if failed else text,
            **raised_fields(error),
        )

    def _end_running_tasks(self, error: str, over: TaskState) -> str | None:
        """Mark the tasks that the engine left RUNNING; returns the first one that fails by that."""
        failed: str | None = None
        waiting = self._waits.tasks
        for name, state in list(self._context.tasks.items()):
            record = self._context.ensure_task_record(name)
            if state is TaskState.RUNNING and name in waiting:
                self._context.tasks[name] = record.state = TaskState.CANCELLED
            elif state is TaskState.RUNNING:
                self._context.tasks[name] = record.state = over
                record.ended_at = time.time()
                record.error = record.error or error
                if over is TaskState.FAILED:
                    failed = failed or name
            elif state is TaskState.PENDING and over is TaskState.CANCELLED:
                self._context.tasks[name] = record.state = over
        return failed

    def _outcome(self, status: RunStatus, *, not_stored: str | None = None, **how: Any) -> Outcome:
        """The outcome with the records of all tasks; `not_stored` says why large outputs are not stored."""
        if status is RunStatus.CANCELLED:
            not_stored = not_stored or _CANCELLED
        if status.parked:
            not_stored = _NOT_YET
            how["questions"] = encode(self._waits.open)
        # A copy, see `_task_states`.
        finished = dict(self._context.task_records)
        records: dict[str, bytes] = {}
        records_cut = False
        for name, record in finished.items():
            records[name], cut = self._encoded(name, record, not_stored)
            records_cut = records_cut or cut
        if not_stored is None and self._outputs.enabled:
            records_cut |= self._make_room(finished, records)
        return Outcome(
            status=status,
            tasks=self._task_states(),
            task_records=records,
            records_cut=records_cut,
            result_task=self._result_task,
            **how,
        )

    def _encoded(
        self, name: str, record: TaskRecord, not_stored: str | None, limit: int = VALUE_LIMIT_BYTES
    ) -> tuple[bytes, bool]:
        def keep(output: memoryview, is_bytes: bool) -> str | None:
            return not_stored or self._outputs.keep(name, output, is_bytes=is_bytes)

        return encoded_record(
            record,
            state=_state(name, record.state, self._waits.tasks),
            printed=self._listener.output_tail(name),
            after=self._links.get(name),
            call_fields=self._calls.history.record_fields(name),
            replayed=self._journal.replayed.get(name),
            not_journalled=self._journal.not_journalled.get(name),
            executed_again=self._journal.executed_again.get(name),
            keep=keep,
            output_limit=limit,
        )

    def _make_room(self, finished: dict[str, TaskRecord], records: dict[str, bytes]) -> bool:
        """Store outputs elsewhere, the longest records first, until the records fit into a snapshot."""
        excess = sum(map(len, records.values())) - self._listener.max_records_bytes
        names = sorted(records, key=lambda name: len(records[name])) if excess > 0 else []
        is_cut = False
        while excess > 0 and names and len(records[names[-1]]) > _SMALL_BYTES:
            name = names.pop()
            excess += -len(records[name])
            records[name], cut = self._encoded(name, finished[name], None, _SMALL_BYTES)
            excess += len(records[name])
            is_cut = is_cut or cut
        return is_cut

    def _task_states(self) -> dict[str, str]:
        waiting = self._waits.tasks
        # A copy: the engine's threads change the original.
        return {name: _state(name, state, waiting) for name, state in dict(self._context.tasks).items()}


def _state(name: str, state: TaskState, waiting: set[str]) -> TaskStatus:
    """To the engine, a task that waits is running."""
    return TaskStatus.WAITING if state is TaskState.RUNNING and name in waiting else _STATUS[state]


def _result_task_of(flow: Flow) -> str | None:
    """The task that has the option `result`."""
    return next((task.name for task in flow.tasks if getattr(task, "result", False)), None)
