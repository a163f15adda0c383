"""A deterministic executor in the place of executor processes: it executes scripts of flows.

It speaks the protocol of executors: numbered journal entries, questions, progress, outcomes. Each execution
of a task returns another value, so that a task that is executed twice can be told from one that is replayed.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
from msgspec import UNSET

from pyoco_server.records.journal_order import last_number
from pyoco_server.records.models import JournalEntry, LogLine, Reason, RunStatus, TaskStatus, WaitKind
from pyoco_server.records.wait_models import OnTimeout, Question, WaitRecord, decode_waits, encode
from pyoco_server.worker.executors.executor import ExecutorCrashed, ExecutorFailedToStart, RunEvents
from pyoco_server.worker.ipc.protocol import Outcome, Progress, Run
from tests.simulation.evidence import Execution


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a task waits for before it does its work."""

    kind: WaitKind = WaitKind.HUMAN
    topic: str | None = None
    # The deadline, or how long it sleeps.
    sec: float | None = None
    on_timeout: OnTimeout = OnTimeout.FAIL
    default: Any = UNSET


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    # The tasks whose results it uses.
    after: tuple[str, ...] = ()
    sec: float = 0.1
    fails: bool = False
    wait: Wait | None = None

    @property
    def key(self) -> str:
        return f"{self.name}||0"


Flow = tuple[Task, ...]


def chain(*tasks: Task) -> Flow:
    """Tasks that follow each other."""
    names = [task.name for task in tasks]
    return tuple(replace(task, after=tuple(names[:at][-1:])) for at, task in enumerate(tasks))


_WAITING: Final = object()


class ScriptedExecutor:
    def __init__(
        self,
        flows: Mapping[str, Flow],
        executions: list[Execution],
        *,
        worker: str,
        now: Callable[[], float],
    ) -> None:
        """`now` is the time of the world; the executor has the clock of its worker."""
        self._flows = flows
        self._executions = executions
        self._worker = worker
        self._now = now
        self._current: _Script | None = None
        self._to_cancel: str | None = None
        # Whether no executor can be started, as in a broken deployment.
        self.is_broken = False

    async def start(self) -> None:
        if self.is_broken:
            raise ExecutorFailedToStart("the deployment is broken")

    async def execute(self, run: Run, events: RunEvents) -> Outcome:
        await self.start()
        flow = self._flows.get(run.flow_name)
        if flow is None:
            return Outcome(status=RunStatus.FAILED, reason=Reason.FLOW_NOT_FOUND, error=run.flow_name)
        self._current = script = _Script(flow, run, events, self)
        if self._to_cancel == run.run_id:
            script.is_cancelled = True
        try:
            return await script.outcome()
        finally:
            self._current = None

    def progress(self) -> Progress | None:
        return None if self._current is None else self._current.progress()

    def cancel(self, run_id: str) -> None:
        self._to_cancel = run_id
        if self._current is not None and self._current.run.run_id == run_id:
            self._current.is_cancelled = True

    async def force_end(self, status: str, error: str) -> None:
        if self._current is not None:
            tasks = self._current.progress().tasks
            self._current.end(Outcome(status=status, error=error, forced=True, tasks=tasks))

    async def kill(self) -> None:
        if self._current is not None:
            self._current.end(ExecutorCrashed("it was killed"))

    def retire(self) -> None:
        """Flows do not change."""

    def use_code(self, folders: Sequence[str]) -> None:
        """There are no wheels."""

    @property
    def code_in_use(self) -> Sequence[str]:
        return ()

    async def close(self) -> None:
        await self.kill()

    def began(self, run: Run, task: Task, inputs: dict[str, Any], replayed: dict[str, Any]) -> int:
        """Record that a task is executed; returns the number of the record."""
        self._executions.append(
            Execution(
                run_id=run.run_id,
                attempt=run.attempt,
                worker=self._worker,
                task=task.name,
                began_at=self._now(),
                ended_at=None,
                inputs=inputs,
                replayed=replayed,
            )
        )
        return len(self._executions) - 1

    def ended(self, number: int, task: Task, received: Any) -> str:
        """The value of a task that has finished: another one for each execution."""
        value = f"{task.name}#{number}" if received is None else f"{task.name}#{number}({received})"
        self._executions[number] = replace(self._executions[number], ended_at=self._now(), value=value)
        return value


class _Script:
    """One execution of a flow."""

    def __init__(self, flow: Flow, run: Run, events: RunEvents, executor: ScriptedExecutor) -> None:
        self.run = run
        self._flow = flow
        self._events = events
        self._executor = executor
        self._base = self._number = last_number(run.journal)
        found = {entry.task: msgspec.json.decode(entry.output) for entry in run.journal if entry.output}
        self._replayed = {name: value for name, value in found.items() if not _is_repeated(flow, run, name)}
        self._values = dict(self._replayed)
        self._waits = {(wait.node, wait.name): wait for wait in _known_waits(run)}
        self._open: dict[str, Question] = {}
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._failed: str | None = None
        self._end: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.is_cancelled = False

    def end(self, end: Outcome | ExecutorCrashed) -> None:
        if self._end.done():
            return
        if isinstance(end, Outcome):
            self._end.set_result(end)
        else:
            self._end.set_exception(end)

    async def outcome(self) -> Outcome:
        try:
            while not self._end.done():
                if not self.is_cancelled and self._failed is None:
                    self._start_ready()
                if not self._running:
                    return self._finished()
                await asyncio.wait((*self._running.values(), self._end), return_when=asyncio.FIRST_COMPLETED)
                for name in [name for name, task in self._running.items() if task.done()]:
                    self._running.pop(name).result()
            return await self._end
        finally:
            self._end.cancel()
            for task in self._running.values():
                task.cancel()

    def progress(self) -> Progress:
        return Progress(run_id=self.run.run_id, tasks=self._states())

    def _states(self) -> dict[str, str]:
        return {task.name: self._state(task.name) for task in self._flow}

    def _state(self, name: str) -> TaskStatus:
        if name in self._values:
            return TaskStatus.SUCCEEDED
        if name == self._failed:
            return TaskStatus.FAILED
        if name in self._open:
            return TaskStatus.WAITING
        return TaskStatus.RUNNING if name in self._running else TaskStatus.PENDING

    def _start_ready(self) -> None:
        for task in self._flow:
            is_new = not {task.name} & (self._values.keys() | self._running.keys() | self._open.keys())
            if is_new and all(name in self._values for name in task.after):
                self._running[task.name] = asyncio.create_task(self._execute(task), name=task.name)

    async def _execute(self, task: Task) -> None:
        received = self._receive(task)
        if received is _WAITING:
            return
        inputs = {name: self._values[name] for name in task.after}
        started_at = time.time()
        number = self._executor.began(self.run, task, inputs, dict(self._replayed))
        line = LogLine(ts=started_at, stream="stdout", text=f"{task.name} begins", attempt=self.run.attempt)
        self._events.printed([line])
        await asyncio.sleep(task.sec)
        if task.fails:
            self._failed = task.name
            return
        value = self._executor.ended(number, task, received)
        self._values[task.name] = value
        self._number += 1
        self._events.finished(
            JournalEntry(
                key=task.key,
                task=task.name,
                attempt=self.run.attempt,
                started_at=started_at,
                ended_at=time.time(),
                output=msgspec.json.encode(value),
                number=self._number,
                base=self._base,
            )
        )

    def _receive(self, task: Task) -> Any:
        """What the task has waited for; _WAITING while it has to."""
        if task.wait is None:
            return None
        question = _question(task, task.wait)
        wait = self._waits.get((question.node, question.name))
        if wait is not None and wait.resolved:
            return wait.answer
        self._open[task.name] = question
        if wait is None:
            self._events.asked(question)
        return _WAITING

    def _finished(self) -> Outcome:
        tasks = self._states()
        if self.is_cancelled:
            return Outcome(status=RunStatus.CANCELLED, tasks=tasks)
        if self._failed is not None:
            error = f"task {self._failed} has failed"
            return Outcome(status=RunStatus.FAILED, reason=Reason.EXECUTION_ERROR, error=error, tasks=tasks)
        if self._open:
            questions = list(self._open.values())
            is_human = any(asked.kind is WaitKind.HUMAN for asked in questions)
            status = RunStatus.WAITING_HUMAN if is_human else RunStatus.WAITING
            return Outcome(status=status, tasks=tasks, questions=encode(questions))
        return Outcome(status=RunStatus.COMPLETED, tasks=tasks)


def _question(task: Task, wait: Wait) -> Question:
    is_sleep = wait.kind is WaitKind.SLEEP
    return Question(
        node=task.key,
        task=task.name,
        name=wait.topic or task.name,
        message="" if wait.kind is not WaitKind.HUMAN else f"{task.name}?",
        kind=wait.kind,
        topic=wait.topic,
        timeout_sec=None if is_sleep else wait.sec,
        until=time.time() + (wait.sec or 0.0) if is_sleep else None,
        on_timeout=wait.on_timeout,
        default=None if is_sleep else wait.default,
    )


def _known_waits(run: Run) -> list[WaitRecord]:
    return sorted(decode_waits(run.waits), key=lambda wait: wait.arming) if run.waits else []


def _is_repeated(flow: Flow, run: Run, name: str) -> bool:
    """Whether a rerun from a task executes this one again: the task itself, or one that uses its result."""
    if run.rerun_task is None or run.attempt > 1:
        return False
    after = {task.name: task.after for task in flow}
    return name == run.rerun_task or any(_is_repeated(flow, run, each) for each in after.get(name, ()))
