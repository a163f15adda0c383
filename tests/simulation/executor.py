"""A small deterministic executor, with the interface of `worker/executors/executor.py`.

A flow is a chain of steps, each of them a task. It journals finished tasks, replays them in a later attempt,
waits, fails, crashes and can be cancelled, as an executor process does.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import UNSET

from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.journal_order import last_number
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.runs.run_models import Reason, RunStatus, TaskStatus, WaitKind
from pyoco_server.records.waits.wait_models import OnTimeout, Question, WaitRecord, encode
from pyoco_server.waits.wait_arguments import sleep_question
from pyoco_server.worker.engine.journal.journal_values import dump_value, load_value
from pyoco_server.worker.executors.executor import ExecutorCrashed, RunEvents
from pyoco_server.worker.ipc.protocol import Outcome, Progress, Run
from tests.simulation.invariants.evidence import Execution


@dataclass(frozen=True, slots=True)
class Step:
    """A task that takes so long; `fails` and `crashes` say in which attempts."""

    name: str
    seconds: float = 0.05
    fails: frozenset[int] = frozenset()
    crashes: frozenset[int] = frozenset()
    prints: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to a person."""

    name: str
    message: str = "Continue?"
    timeout_sec: float | None = None
    default: Any = UNSET
    on_timeout: OnTimeout = OnTimeout.FAIL
    required: int = 1
    proposal: Any = UNSET
    notify: str | None = None
    remind_sec: float | None = None


@dataclass(frozen=True, slots=True)
class Sleep:
    name: str
    seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Await:
    """A signal to the run, or an event for all runs."""

    name: str
    topic: str
    kind: WaitKind = WaitKind.SIGNAL
    timeout_sec: float | None = None
    default: Any = UNSET
    match: Mapping[str, Any] = field(default_factory=dict)


AnyStep = Step | Ask | Sleep | Await
Flows = Mapping[str, Sequence[AnyStep]]


_decode_waits = msgspec.json.Decoder(list[WaitRecord]).decode


class _Stopped(Exception):
    def __init__(self, end: Outcome | ExecutorCrashed) -> None:
        super().__init__()
        self.end = end


class SimulatedExecutor:
    """`on_executed` is called with each task that begins; what it returned is added when it has finished.

    Each execution returns another value, so that a repeated one can be told from a replayed one.
    """

    code_version = "simulated"

    def __init__(
        self,
        flows: Flows,
        worker: str,
        *,
        on_executed: Callable[[Execution], int] = lambda _: 0,
    ) -> None:
        self._flows = flows
        self._worker = worker
        self._on_executed = on_executed
        # The results of the tasks so far, and those of them that were replayed.
        self._values: dict[str, Any] = {}
        self._replayed: dict[str, Any] = {}
        self._run: Run | None = None
        self._states: dict[str, str] = {}
        self._records: dict[str, bytes] = {}
        self._cancelled = False
        self._stop: asyncio.Future[Outcome | ExecutorCrashed] | None = None
        self._number = 0

    # For the session of a run

    async def start(self) -> None:
        """It can always be started."""

    async def execute(self, run: Run, events: RunEvents) -> Outcome:
        await self.start()
        steps = self._flows.get(run.flow_name)
        if steps is None:
            error = f"there is no flow {run.flow_name}"
            return Outcome(status=RunStatus.FAILED, reason=Reason.FLOW_NOT_FOUND, error=error)
        self._run, self._cancelled = run, False
        self._states = {step.name: str(TaskStatus.PENDING) for step in steps}
        self._records, self._values, self._replayed = {}, {}, {}
        self._number = last_number(run.journal)
        self._stop = asyncio.get_running_loop().create_future()
        try:
            return await self._execute(run, steps, events)
        except _Stopped as stopped:
            if isinstance(stopped.end, ExecutorCrashed):
                raise stopped.end from None
            return stopped.end
        finally:
            self._run = self._stop = None

    def progress(self) -> Progress | None:
        if self._run is None:
            return None
        return Progress(run_id=self._run.run_id, tasks=dict(self._states), task_records=dict(self._records))

    def cancel(self, run_id: str) -> None:
        if self._run is not None and self._run.run_id == run_id:
            self._cancelled = True

    async def force_end(self, status: str, error: str) -> None:
        over = TaskStatus.CANCELLED if status == RunStatus.CANCELLED else TaskStatus.FAILED
        self._end(self._outcome(status, forced=True, error=error, over=over))

    async def kill(self) -> None:
        self._end(ExecutorCrashed("the executor was killed"))

    # For the worker

    def retire(self) -> None:
        """The code never changes."""

    def use_code(self, folders: Sequence[str]) -> None:
        """There are no wheels."""

    @property
    def code_in_use(self) -> Sequence[str]:
        return ()

    async def close(self) -> None:
        await self.kill()

    # The flow

    async def _execute(self, run: Run, steps: Sequence[AnyStep], events: RunEvents) -> Outcome:
        known = {entry.key: entry for entry in sorted(run.journal, key=lambda each: each.place)}
        if run.rerun_task is not None and run.attempt == 1:
            names = [step.name for step in steps]
            void = set(names[names.index(run.rerun_task) :])
            known = {key: entry for key, entry in known.items() if entry.attempt or entry.task not in void}
        base = self._number
        for step in steps:
            if self._cancelled:
                return self._outcome(RunStatus.CANCELLED, over=TaskStatus.CANCELLED)
            key = f"{step.name}||0"
            entry = known.get(key)
            if entry is not None and entry.has_value:
                self._replay(run, entry, base, events)
                continue
            self._states[step.name] = TaskStatus.RUNNING
            began = time.time()
            if isinstance(step, Step):
                ended = await self._execute_task(run, step, events)
            else:
                ended = self._execute_wait(run, step, key, events)
            if isinstance(ended, Outcome):
                return ended
            self._finish(run, ended, key, began, base, events)
        return self._outcome(RunStatus.COMPLETED)

    def _replay(self, run: Run, entry: JournalEntry, base: int, events: RunEvents) -> None:
        self._states[entry.task] = TaskStatus.SUCCEEDED
        value = self._values[entry.task] = self._replayed[entry.task] = load_value(entry.output)
        self._record(entry.task, entry.started_at, entry.ended_at, value, replayed=True)
        if not entry.attempt:
            # Of the run that this one repeats: it is adopted, and keeps its number.
            events.on_finished(msgspec.structs.replace(entry, attempt=run.attempt, base=base))

    async def _execute_task(self, run: Run, step: Step, events: RunEvents) -> Outcome | Execution:
        execution = self._begin(run, step.name)
        if step.prints:
            line = LogLine(
                ts=time.time(), stream="stdout", text=step.prints, task=step.name, attempt=run.attempt
            )
            events.on_printed([line])
        await self._work(step.seconds)
        if run.attempt in step.crashes:
            raise _Stopped(ExecutorCrashed(f"task {step.name} has crashed its process"))
        if run.attempt in step.fails:
            self._states[step.name] = TaskStatus.FAILED
            return self._outcome(
                RunStatus.FAILED,
                reason=Reason.EXECUTION_ERROR,
                error=f"task {step.name}: it fails in attempt {run.attempt}",
            )
        return execution

    def _execute_wait(
        self, run: Run, step: Ask | Sleep | Await, key: str, events: RunEvents
    ) -> Outcome | Execution:
        """An execution with the answer, if there is one; otherwise the run is parked."""
        waits = _decode_waits(run.waits) if run.waits else []
        mine = [wait for wait in waits if (wait.node, wait.name) == (key, step.name)]
        wait = max(mine, key=lambda each: each.arming, default=None)
        if wait is not None and wait.resolved:
            return self._begin(run, step.name, received=wait.answer)
        asked = self._question(step, key, wait)
        if wait is None:
            events.on_asked(asked)
        self._states[step.name] = TaskStatus.WAITING
        is_human = asked.kind is WaitKind.HUMAN
        parked = RunStatus.WAITING_HUMAN if is_human else RunStatus.WAITING
        return self._outcome(parked, questions=encode([asked]))

    def _question(self, step: Ask | Sleep | Await, key: str, known: WaitRecord | None) -> Question:
        if isinstance(step, Sleep):
            until = known.deadline_at if known is not None else time.time() + step.seconds
            return sleep_question(node=key, task=step.name, name=step.name, until=until)
        if isinstance(step, Await):
            return Question(
                node=key,
                task=step.name,
                name=step.name,
                message=step.topic,
                kind=step.kind,
                topic=step.topic,
                match=dict(step.match),
                timeout_sec=step.timeout_sec,
                default=step.default,
            )
        return Question(
            node=key,
            task=step.name,
            name=step.name,
            message=step.message,
            timeout_sec=step.timeout_sec,
            default=step.default,
            on_timeout=step.on_timeout,
            required=step.required,
            proposal=step.proposal,
            notify=step.notify,
            remind_sec=step.remind_sec,
        )

    def _finish(
        self, run: Run, execution: Execution, key: str, began: float, base: int, events: RunEvents
    ) -> None:
        self._number += 1
        ended = time.time()
        task, value = execution.task, execution.value
        execution.ended_at = asyncio.get_running_loop().time()
        self._values[task] = value
        self._states[task] = TaskStatus.SUCCEEDED
        self._record(task, began, ended, value)
        events.on_finished(
            JournalEntry(
                key=key,
                task=task,
                attempt=run.attempt,
                started_at=began,
                ended_at=ended,
                output=dump_value(value),
                number=self._number,
                base=base,
            )
        )

    def _record(self, task: str, began: float, ended: float, value: Any, *, replayed: bool = False) -> None:
        record = {"started_at": began, "ended_at": ended, "output": value}
        self._records[task] = msgspec.json.encode(record | ({"replayed": True} if replayed else {}))

    def _begin(self, run: Run, task: str, received: Any = UNSET) -> Execution:
        """`received` is what the task has waited for."""
        execution = Execution(
            run_id=run.run_id,
            attempt=run.attempt,
            worker=self._worker,
            task=task,
            began_at=asyncio.get_running_loop().time(),
            inputs=dict(self._values),
            replayed=dict(self._replayed),
        )
        value = f"{task}#{self._on_executed(execution)}"
        execution.value = value if received is UNSET else f"{value}={received}"
        return execution

    async def _work(self, seconds: float) -> None:
        """Work for so long, unless the run is ended meanwhile."""
        assert self._stop is not None
        done, _ = await asyncio.wait({self._stop}, timeout=seconds)
        if done:
            raise _Stopped(self._stop.result())

    def _end(self, end: Outcome | ExecutorCrashed) -> None:
        if self._stop is not None and not self._stop.done():
            self._stop.set_result(end)

    def _outcome(self, status: str, *, over: TaskStatus | None = None, **how: Any) -> Outcome:
        ended = {TaskStatus.RUNNING, TaskStatus.WAITING, TaskStatus.PENDING}
        states = {
            name: str(over) if over and state in ended else str(state) for name, state in self._states.items()
        }
        return Outcome(status=str(status), tasks=states, task_records=dict(self._records), **how)
