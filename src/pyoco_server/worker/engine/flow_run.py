"""One execution of one flow by the pyoco engine, told as a progress, finished tasks, lines and an outcome."""

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyoco.core.models import Flow, TaskState
from pyoco.core.models import RunStatus as EngineStatus

from pyoco_server.human.asking import HumanInputRequired
from pyoco_server.records.journal_order import last_number
from pyoco_server.records.models import JournalEntry, Reason, RunStatus, TaskStatus
from pyoco_server.records.wait_models import Question, decode_waits, encode
from pyoco_server.worker.engine.flow_links import links_of
from pyoco_server.worker.engine.flow_order import in_order, reusable
from pyoco_server.worker.engine.flow_shape import FlowShape
from pyoco_server.worker.engine.json_values import clean, message_of
from pyoco_server.worker.engine.run_waits import RunWaits
from pyoco_server.worker.engine.server_engine import ServerEngine
from pyoco_server.worker.engine.task_calls import (
    CallingContext,
    RetryPauses,
    TaskCall,
    TaskCalls,
    TaskWatcher,
    make_resumable,
)
from pyoco_server.worker.engine.task_journal import TaskJournal
from pyoco_server.worker.engine.task_limits import TaskLimits
from pyoco_server.worker.engine.task_records import brief_record, encoded_record
from pyoco_server.worker.ipc.protocol import Outcome, Progress, Run

_TRACEBACK_CHARS = 16384
# It keeps nothing of a run.
_ENGINE = ServerEngine()
_TOLD_AS = {state: TaskStatus(state.value) for state in TaskState}


@dataclass(frozen=True, slots=True)
class RunListener:
    """Whom a run tells what happens in it, and what it must keep to."""

    finished: Callable[[JournalEntry], None]
    # A task asks a person something that nobody has answered.
    asked: Callable[[Question], None]
    # The run is over although a task of it still executes: whoever runs it must not wait for that. The first
    # argument makes the outcome, which may have to wait for what is printed; the second one is a brief form.
    stuck: Callable[[Callable[[], Outcome], Outcome], None]
    # The end of what a task has printed, by stream.
    tail_of: Callable[[str], dict[str, str]]
    # A line of ours in the run's log, about a task.
    note: Callable[[str, str], None]
    watchers: Sequence[TaskWatcher]
    # Who else measures the time of tasks with a limit.
    limits: Sequence[TaskWatcher]
    pauses: RetryPauses
    max_value_bytes: int


class FlowRun:
    """Runs a flow on the calling thread; all other methods may be called from another."""

    def __init__(self, run: Run, flow: Flow, params: dict[str, Any], listener: RunListener) -> None:
        limited = make_resumable(flow)
        order = in_order(flow)
        self.run_id = run.run_id
        self._flow = flow
        self._links = links_of(flow)
        self._params = params
        self._listener = listener
        self._journal = TaskJournal(
            reusable(flow, run.journal, run.rerun_task),
            base=last_number(run.journal),
            attempt=run.attempt,
            shape=FlowShape(flow, order),
            write=listener.finished,
            note=listener.note,
            max_value_bytes=listener.max_value_bytes,
        )
        self._waits = RunWaits(decode_waits(run.waits) if run.waits else [], listener.asked)
        # It knows this run: without it nothing does that it knows, and its memory is free at its end.
        limits = [TaskLimits(self._on_timeout), *listener.limits] if limited else []
        self._calls = TaskCalls(
            flow, self._journal, self._waits, listener.pauses, listener.watchers, limits=limits
        )
        # The engine fills these in the order of a set; a reader wants the order of the flow.
        self._context = CallingContext(run_id=run.run_id, tasks=dict.fromkeys(order, TaskState.PENDING))
        self._context.calls = self._calls
        self._cancel_requested = False
        self._over = threading.Lock()

    def execute(self) -> Outcome | None:
        """The outcome; None when another thread ends the run, and reports that."""
        outcome = self._run()
        return outcome if self.preempt() else None

    def cancel(self) -> None:
        """Have the engine stop at its next boundary, and `ctx.is_cancelled` be true from now on."""
        self._cancel_requested = True
        self._calls.stop()
        # Not Engine.cancel: that one forgets a wish which comes before the engine has begun.
        if self._context.status is EngineStatus.RUNNING:
            self._context.status = EngineStatus.CANCELLING

    def progress(self) -> Progress:
        # A copy, see `_task_states`.
        records = {
            name: brief_record(
                record,
                after=self._links.get(name, []),
                calls=self._calls.tries.count(name),
                latest_calls=self._calls.tries.ended_so_far(name),
                replayed=self._journal.replayed.get(name),
                executed_again=self._journal.executed_again.get(name),
            )
            for name, record in dict(self._context.task_records).items()
        }
        return Progress(run_id=self.run_id, tasks=self._task_states(), task_records=records)

    def preempt(self) -> bool:
        """Have the run come to no end of its own any more; false if it is over."""
        return self._over.acquire(blocking=False)

    def give_up(self, status: str, error: str) -> Outcome | None:
        """The outcome of a run that is ended from outside, whatever it is doing; None if it is over."""
        return self.given_up(status, error) if self.preempt() else None

    def given_up(self, status: str, error: str) -> Outcome:
        """The outcome of a preempted run."""
        over = TaskState.CANCELLED if status == RunStatus.CANCELLED else TaskState.FAILED
        self._end_running_tasks(error, over)
        return self._ended(RunStatus(status), error=error, by_force=True)

    def _run(self) -> Outcome:
        try:
            _ENGINE.run(self._flow, self._params, self._context, self._calls.attach, self._waits.give_up)
        except HumanInputRequired:
            if not self._cancel_requested:
                return self._ended(RunStatus.WAITING_HUMAN)
            self._end_running_tasks("", TaskState.CANCELLED)
            return self._ended(RunStatus.CANCELLED)
        except BaseException as error:  # noqa: BLE001 - a task may even raise SystemExit
            return self._failed(error)
        finally:
            self._calls.forget_raised()
        if self._cancel_requested or self._context.status is not EngineStatus.COMPLETED:
            return self._ended(RunStatus.CANCELLED)
        return self._ended(RunStatus.COMPLETED)

    def _on_timeout(self, call: TaskCall) -> None:
        """A task is past its limit. It cannot be stopped from here, so that its process has to go."""
        if not self.preempt():
            return
        text = f"it took longer than its limit of {call.timeout_sec:g} s"
        error = f"task {call.task.name}: {text}"
        if self._cancel_requested:
            brief = Outcome(status=RunStatus.CANCELLED)
        elif call.isolated:
            brief = Outcome(status=RunStatus.RUNNING, go_on=True)
        else:
            brief = Outcome(status=RunStatus.FAILED, reason=Reason.TIMEOUT, error=error)
        self._listener.stuck(lambda: self._timed_out_or(call, text, error, brief), brief)

    def _timed_out_or(self, call: TaskCall, text: str, error: str, brief: Outcome) -> Outcome:
        try:
            return self._timed_out(call, text, error)
        except Exception:  # noqa: BLE001 - nothing else can end this run any more
            traceback.print_exc()
            return brief

    def _timed_out(self, call: TaskCall, text: str, error: str) -> Outcome:
        if self._cancel_requested:
            self._end_running_tasks(text, TaskState.CANCELLED)
            return self._ended(RunStatus.CANCELLED, spoilt=True)
        if call.isolated:
            self._journal.failed(call.key, call.task.name, call.started_at, text)
            return Outcome(status=RunStatus.RUNNING, go_on=True, spoilt=True)
        self._end_running_tasks(text, TaskState.FAILED)
        return self._ended(RunStatus.FAILED, reason=Reason.TIMEOUT, error=error, spoilt=True)

    def _failed(self, error: BaseException) -> Outcome:
        """The outcome after an exception; one that followed a cancel is the flow's way to stop."""
        text = f"{type(error).__name__}: {message_of(error)}"
        running = self._end_running_tasks(text, TaskState.FAILED)
        failed = self._calls.task_that_raised(error) or running
        if self._cancel_requested:
            return self._ended(RunStatus.CANCELLED)
        return self._ended(
            RunStatus.FAILED,
            reason=Reason.EXECUTION_ERROR,
            error=f"task {failed}: {text}" if failed else text,
            exc_type=type(error).__name__,
            exc_traceback=clean("".join(traceback.format_exception(error))[-_TRACEBACK_CHARS:]),
        )

    def _end_running_tasks(self, error: str, over: TaskState) -> str | None:
        """Mark what the engine left RUNNING, and name the first of it, if that makes it fail."""
        failed: str | None = None
        waiting = self._waits.tasks
        for name, state in list(self._context.tasks.items()):
            record = self._context.ensure_task_record(name)
            if state is TaskState.RUNNING and name in waiting:
                # It has done nothing wrong.
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

    def _ended(self, status: RunStatus, **how: Any) -> Outcome:
        records: dict[str, bytes] = {}
        records_cut = False
        waiting = self._waits.tasks
        # A copy, see `_task_states`.
        for name, record in dict(self._context.task_records).items():
            records[name], cut = encoded_record(
                record,
                state=_state(name, record.state, waiting),
                printed=self._listener.tail_of(name),
                after=self._links.get(name),
                tries=self._calls.tries.told(name),
                replayed=self._journal.replayed.get(name),
                not_stored=self._journal.not_stored.get(name),
                executed_again=self._journal.executed_again.get(name),
            )
            records_cut = records_cut or cut
        if status is RunStatus.WAITING_HUMAN:
            how |= {"questions": encode(self._waits.wanted), "unwanted": encode(self._waits.unwanted)}
        return Outcome(
            status=status, tasks=self._task_states(), task_records=records, records_cut=records_cut, **how
        )

    def _task_states(self) -> dict[str, str]:
        waiting = self._waits.tasks
        # A copy: the engine's threads go on changing the original.
        return {name: _state(name, state, waiting) for name, state in dict(self._context.tasks).items()}


def _state(name: str, state: TaskState, waiting: set[str]) -> TaskStatus:
    """The engine does not know of waits: to it, such a task is running."""
    return TaskStatus.WAITING if state is TaskState.RUNNING and name in waiting else _TOLD_AS[state]
