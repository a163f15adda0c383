"""The `ctx` of a task, for one try of it: pyoco's context with `ctx.step`, `ctx.human`, `ctx.sleep`,
`ctx.wait_for_signal`, `ctx.wait_for_event` and a `ctx.save_artifact` that writes nowhere else."""

import inspect
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyoco.core.context import Context

from pyoco_server.records.runs.artifact_models import ARTIFACTS, InvalidArtifactName, artifact_name
from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.waits.wait_models import Question, WaitRecord
from pyoco_server.waits.human.answer_types import answer_of
from pyoco_server.waits.human.asking import DEFAULT_NAME, question
from pyoco_server.waits.wait_arguments import (
    TaskSuspended,
    received,
    seconds_to_sleep,
    sleep_question,
    topic_question,
)
from pyoco_server.worker.artifacts.artifact_folder import new_artifact
from pyoco_server.worker.engine.journal.task_journal import (
    JournalKeys,
    TaskJournal,
    UnreadableResult,
    output_of,
)
from pyoco_server.worker.engine.run_facts import FactsAttribute, RunFacts

if TYPE_CHECKING:
    from pyoco_server.worker.engine.tasks.coroutines import CoroutineRunner
    from pyoco_server.worker.engine.tasks.task_calls import TaskCall

_MAX_NAME_CHARS: Final = 200
# The key of the step that executes here: a step may call another.
_enclosing_step: ContextVar[str | None] = ContextVar("enclosing_step", default=None)


class TaskContext(Context):  # type: ignore[misc]
    """A view of the engine's context; attributes that are assigned to it are shared by all views."""

    # Not in the instance's dictionary, which all views share.
    __slots__ = ("_call", "_coroutine", "_steps", "_waits")
    _call: "TaskCall"
    _steps: "Steps"
    _waits: "TaskWaits"
    # Of an `async def` task, while it executes.
    _coroutine: "CoroutineRunner | None"
    # Which run this is, and what has started it.
    run: "RunFacts" = FactsAttribute()  # type: ignore[assignment]

    @classmethod
    def view(cls, context: Context, call: "TaskCall") -> "TaskContext":
        view = cls.__new__(cls)
        view.__dict__ = context.__dict__  # type: ignore[misc]  # inherited, beside the slot
        view._call = call
        view._steps = Steps(call)
        view._waits = TaskWaits(call)
        view._coroutine = None
        return view

    def run_within(self, coroutine: "CoroutineRunner") -> None:
        """What the coroutine calls from now on, it has to await."""
        self._coroutine = coroutine

    def step(self, name: str, fn: Callable[[], Any]) -> Any:
        """The result of `fn()`; once it is journalled, this run never calls `fn` again.

        Steps of the same name are distinguished by their order. In an `async def` task it has to be awaited,
        and `fn` may be an async function.
        """
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME_CHARS or "|" in name:
            expected = f"expected a name of 1 to {_MAX_NAME_CHARS} characters without '|'"
            raise ValueError(f"ctx.step({name!r}): {expected}")
        running = self._coroutine
        if running is not None and running.is_running_here():
            return running.to_await("ctx.step(...)", self._steps.execute_async(name, fn, running))
        return self._steps.execute(name, fn)

    def human(  # noqa: PLR0917 - the contract has them in this order
        self,
        message: str,
        schema: Any = None,
        timeout_ms: float | None = None,
        name: str | None = None,
        proposal: Any = None,
        assignees: Sequence[str] | None = None,
        default: Any = ...,
        on_timeout: str = "fail",
        details: bool = False,
        required: int = 1,
        self_approval: bool = True,
        *,
        notify: str | None = None,
        remind_after_ms: float | None = None,
        escalate_after_ms: float | None = None,
        escalate_to: str | None = None,
    ) -> Any:
        """A person's answer. Until then the run waits without occupying a worker.

        The task is called again from its start when the answer has arrived: put what must not happen twice
        into a `ctx.step` before it. Questions without a name are distinguished by their order. In an
        `async def` task it has to be awaited.

        If nobody answers in time, the `default` is the answer; without one the run fails or, with
        `on_timeout="raise"`, HumanTimeout is raised.
        With `details`, a HumanAnswer is returned, which says who answered and how.
        """
        asked = self._waits.question(
            message,
            schema,
            timeout_ms=timeout_ms,
            name=name,
            proposal=proposal,
            assignees=assignees,
            default=default,
            on_timeout=on_timeout,
            required=required,
            self_approval=self_approval,
            notify=notify,
            remind_after_ms=remind_after_ms,
            escalate_after_ms=escalate_after_ms,
            escalate_to=escalate_to,
        )
        return self._wait("ctx.human(...)", asked, lambda wait: answer_of(wait, schema, details=details))

    def sleep(
        self,
        seconds: float | timedelta | None = None,
        *,
        until: datetime | str | float | None = None,
    ) -> Any:
        """Sleep for so many seconds, or until a time: a datetime with a time zone, ISO 8601, or unix seconds.

        For five seconds or more the run is parked: it occupies no worker, and its task is called again from
        its start when the time has come. Shorter sleeps happen in place. In an `async def` task it has to be
        awaited.
        """
        left_sec = seconds_to_sleep(seconds, until, now=time.time())
        asked = self._waits.sleep(left_sec)
        if self._waits.is_in_place(asked, left_sec):
            return self._pause(left_sec)
        return self._wait("ctx.sleep(...)", asked, received)

    def wait_for_signal(self, name: str, timeout_sec: float | None = None, default: Any = ...) -> Any:
        """The data of the next signal of this name to this run; until then the run waits, without a worker.

        A signal that was sent before counts, and each is received once. If none comes in time, the `default`
        is returned; without one, WaitTimeout (a TimeoutError) is raised. In an `async def` task it has to be
        awaited.
        """
        asked = self._waits.topic(WaitKind.SIGNAL, name, timeout_sec=timeout_sec, default=default)
        return self._wait("ctx.wait_for_signal(...)", asked, received)

    def wait_for_event(
        self,
        name: str,
        match: Mapping[str, Any] | None = None,
        timeout_sec: float | None = None,
        default: Any = ...,
    ) -> Any:
        """The data of an event of this name that matches; until then the run waits, without a worker.

        `match` has the values that the data must have, by JSON pointer: `{"/order/id": 7}`. An event that
        came after the start of the run counts. Timeout and default are as for `wait_for_signal`.
        """
        asked = self._waits.topic(WaitKind.EVENT, name, timeout_sec=timeout_sec, default=default, match=match)
        return self._wait("ctx.wait_for_event(...)", asked, received)

    def save_artifact(self, name: str, data: Any) -> str:
        """Write a file into the run's artifacts folder; returns its path.

        `name` is a relative path, such as `plots/loss.png`. Bytes are written as they are, everything else as
        text. It is stored with the run when the task, or the step that it is in, ends.
        """
        try:
            named = artifact_name(name)
        except InvalidArtifactName as error:
            raise ValueError(f"ctx.save_artifact({name!r}): {error}") from None
        content = data if isinstance(data, bytes) else str(data).encode()
        files = self._call.files
        # Not the working directory, which a task may have changed.
        folder = files.run_folder or os.getcwd()
        try:
            with new_artifact(folder, named) as file:
                file.write(content)
        except (NotADirectoryError, IsADirectoryError) as error:
            why = "a part of its path is a file or a link, or the path itself is a folder"
            raise ValueError(f"ctx.save_artifact({name!r}): {why}") from error
        path = os.path.join(os.path.abspath(folder), ARTIFACTS, named)
        kind = "object" if isinstance(data, dict | list) else type(data).__name__
        with self._lock:
            self.artifacts[named] = {"path": path, "type": kind}
        files.saved(named, self._call.task.name)
        return path

    def _wait(self, what: str, asked: Question, result: "ResultOf") -> Any:
        running = self._coroutine
        if running is not None and running.is_running_here():
            return running.to_await(what, self._waits.wait_async(asked, result, running))
        return self._waits.wait(asked, result)

    def _pause(self, seconds: float) -> Any:
        running = self._coroutine
        if running is not None and running.is_running_here():
            from asyncio import sleep  # noqa: PLC0415 - most executors never need asyncio

            return running.to_await("ctx.sleep(...)", sleep(seconds))
        self._waits.pause(seconds)
        return None


class Steps:
    """The steps of one try of a task; each try counts them from zero."""

    def __init__(self, call: "TaskCall") -> None:
        self._task = call.task.name
        self._journal: TaskJournal = call.journal
        self._outermost = call.key
        self._keys = JournalKeys()

    def execute(self, name: str, fn: Callable[[], Any]) -> Any:
        key = self._next_key(name)
        found, output = self._replay(name, key)
        if found:
            return output
        started_at = time.time()
        with _within(key):
            result = fn()
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError(f"ctx.step({name!r}): an async function needs an `async def` task that awaits it")
        self._journal.finished(key, self._task, started_at, result, within=self._outermost)
        return result

    async def execute_async(self, name: str, fn: Callable[[], Any], coroutine: "CoroutineRunner") -> Any:
        key = self._next_key(name)
        found, output = self._replay(name, key)
        if found:
            return output
        started_at = time.time()
        with _within(key), coroutine.executing(key):
            result = fn()
            if inspect.isawaitable(result):
                result = await result
        self._journal.finished(key, self._task, started_at, result, within=self._outermost)
        return result

    def _next_key(self, name: str) -> str:
        return self._keys.next(f"{_enclosing_step.get() or self._outermost}|{name}")

    def _replay(self, name: str, key: str) -> tuple[bool, Any]:
        entry = self._journal.find(key, within=self._outermost)
        if entry is None:
            return False, None
        try:
            return True, output_of(entry)[0]
        except UnreadableResult as error:
            why = f"step {name!r} ran again, its result cannot be read: {error}"
            self._journal.not_journalled[self._task] = why
            return False, None


@contextmanager
def _within(step: str) -> Iterator[None]:
    token = _enclosing_step.set(step)
    try:
        yield
    finally:
        _enclosing_step.reset(token)


# What the task receives when its wait is over.
ResultOf = Callable[[WaitRecord], Any]


class TaskWaits:
    """The waits of one try of a task; each try counts those without a name from one."""

    def __init__(self, call: "TaskCall") -> None:
        self._call = call
        self._names: set[str] = set()
        self._counts: Counter[str] = Counter()

    def question(self, message: str, schema: Any, *, name: str | None, **details: Any) -> Question:
        call = self._call
        asked = question(
            message,
            node=call.key,
            task=call.task.name,
            schema=schema,
            name=self._next_name(DEFAULT_NAME) if name is None else name,
            isolated=call.isolated,
            submitted_by=call.waits.submitted_by,
            **details,
        )
        if name is not None and name in self._names:
            expected = "give each question of a task a name of its own: ctx.human(..., name='...')"
            raise ValueError(f"ctx.human(name={asked.name!r}): asked twice by one task; {expected}")
        self._names.add(asked.name)
        return asked

    def sleep(self, seconds: float) -> Question:
        call, name = self._call, self._next_name("sleep")
        return sleep_question(node=call.key, task=call.task.name, name=name, until=time.time() + seconds)

    def topic(self, kind: WaitKind, topic: str, **details: Any) -> Question:
        call, name = self._call, self._next_name(f"{kind}:{topic}")
        return topic_question(kind, topic, node=call.key, task=call.task.name, name=name, **details)

    def is_in_place(self, asked: Question, seconds: float) -> bool:
        """Whether a sleep is too short to park the run, and is not a wait of an earlier attempt."""
        is_short = not seconds or seconds < self._call.sleep_in_place_sec
        return is_short and not self._call.waits.has(asked)

    def pause(self, seconds: float) -> None:
        self._call.pause(seconds)

    def wait(self, asked: Question, result: ResultOf) -> Any:
        wait = self._call.waits.find(asked)
        if wait is None:
            raise TaskSuspended(asked.message)
        return result(wait)

    async def wait_async(self, asked: Question, result: ResultOf, coroutine: "CoroutineRunner") -> Any:
        waits = self._call.waits
        wait = waits.find(asked)
        if wait is None:
            step = _enclosing_step.get() or self._call.key
            await coroutine.suspend(step, on_cancelled=lambda: waits.remove(asked))
        return result(wait)

    def _next_name(self, base: str) -> str:
        while True:
            self._counts[base] += 1
            number = self._counts[base]
            name = base if number == 1 else f"{base}-{number}"
            # A question may have this name.
            if name not in self._names:
                self._names.add(name)
                return name
