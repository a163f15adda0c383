"""Executes the tasks of a flow so that a finished task is never executed again.

Each task's function is wrapped once. The wrapper asks the run that it is called for: a journalled result is
returned, with the same changes of the flow's state; otherwise the function is called and its result is
journalled. Retries and time limits are handled here and not by pyoco, which retries at once and counts a
task's time from before its start.
"""

import inspect
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from pyoco.core.context import Context
from pyoco.core.models import Flow, RunContext, Task

from pyoco_server.waits.human.answer_types import HumanTimeout
from pyoco_server.waits.wait_arguments import IN_PLACE_SEC, TaskSuspended, WaitTimeout
from pyoco_server.worker.engine.journal.json_values import error_message
from pyoco_server.worker.engine.journal.task_journal import TaskJournal, UnreadableResult, output_of
from pyoco_server.worker.engine.run_facts import RunFacts
from pyoco_server.worker.engine.run_waits import RunWaits
from pyoco_server.worker.engine.tasks.context_changes import Changes, ContextChanges, TouchedNames
from pyoco_server.worker.engine.tasks.task_context import TaskContext
from pyoco_server.worker.engine.tasks.written_files import WrittenFiles

if TYPE_CHECKING:
    from pyoco_server.worker.engine.tasks.coroutines import CoroutineRunner

# Shared by all runs: few tasks wait for a retry, and an event for each run would cost all of them.
_retry_wait = threading.Condition()
# Calls kept for each task; a loop may make any number.
_LATEST = 50
# While the run lasts, since every snapshot contains them.
_LATEST_IN_PROGRESS = 10
_ERROR_CHARS = 300
_NOT_ISOLATED = (
    "fail_policy 'isolate' has no effect in a flow with loops or branches: any failure stops it. "
    "Catch the exception in the task instead."
)


class TaskFailedBefore(Exception):
    """The task failed for good in an earlier attempt of this run, with this error."""


class TaskStopped(Exception):
    """The run was cancelled while the task waited for a retry, slept, or awaited something."""


@dataclass(frozen=True, slots=True)
class RetryBackoff:
    """Exponential backoff with jitter between the tries of a task."""

    base_sec: float
    max_sec: float

    def delay_sec(self, retry: int) -> float:
        longest = min(self.max_sec, self.base_sec * 2.0 ** min(retry - 1, 30))
        return random.uniform(longest / 2, longest)  # noqa: S311 - spreading load needs no secrecy


class TaskCall(Struct, frozen=True, eq=False):
    """One execution of one task, with all of its tries."""

    task: Task
    key: str
    journal: TaskJournal
    waits: RunWaits
    timeout_sec: float | None
    # Whether the flow continues when this task fails.
    isolated: bool
    started_at: float
    # Sleeps in place; TaskStopped when the run is cancelled meanwhile.
    pause: Callable[[float], None]
    sleep_in_place_sec: float
    files: WrittenFiles


class TaskWatcher(Protocol):
    """Notified of each executing task: output capture and time limits."""

    def began(self, call: TaskCall) -> None: ...
    def ended(self, call: TaskCall) -> None: ...


class TaskTimers:
    """A timer for each executing task that has a limit, which covers all of its tries."""

    def __init__(self, on_timeout: Callable[[TaskCall], None]) -> None:
        self._on_timeout = on_timeout
        self._timers: dict[str, threading.Timer] = {}

    def began(self, call: TaskCall) -> None:
        if call.timeout_sec:
            timer = threading.Timer(call.timeout_sec, self._on_timeout, [call])
            timer.daemon = True
            self._timers[call.key] = timer
            timer.start()

    def ended(self, call: TaskCall) -> None:
        timer = self._timers.pop(call.key, None)
        if timer is not None:
            timer.cancel()
            # An executor whose run leaves a thread is replaced.
            if timer is not threading.current_thread():
                timer.join()


class CallRecord(Struct, omit_defaults=True):
    started_at: float
    ended_at: float
    error: str | None = None


class CallHistory:
    """The calls of one run's tasks: by loops, and by retries."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._latest: dict[str, deque[CallRecord]] = {}

    def began(self, task: str) -> float:
        """Count a call; returns its start time."""
        self._counts[task] = self._counts.get(task, 0) + 1
        return time.time()

    def ended(self, task: str, started_at: float, error: BaseException | None = None) -> None:
        latest = self._latest.get(task)
        if latest is None:
            latest = self._latest[task] = deque(maxlen=_LATEST)
        text = None if error is None else error_message(error)[:_ERROR_CHARS]
        latest.append(CallRecord(started_at, time.time(), text))

    def count(self, task: str) -> int:
        return self._counts.get(task, 0)

    def recent(self, task: str) -> list[CallRecord]:
        """The latest calls, for the record of a running task; empty for a task that was called once."""
        return list(self._latest.get(task, ()))[-_LATEST_IN_PROGRESS:] if self.count(task) > 1 else []

    def record_fields(self, task: str) -> dict[str, Any]:
        """The fields of the final record; empty for a task that was called once."""
        count = self.count(task)
        return {"calls": count, "latest_calls": list(self._latest.get(task, ()))} if count > 1 else {}


class TaskCalls:
    def __init__(
        self,
        flow: Flow,
        journal: TaskJournal,
        waits: RunWaits,
        backoff: RetryBackoff,
        watchers: Sequence[TaskWatcher],
        *,
        files: WrittenFiles,
        limit_watchers: Sequence[TaskWatcher] = (),
        sleep_in_place_sec: float = IN_PLACE_SEC,
    ) -> None:
        self._files = files
        self._sleep_in_place_sec = sleep_in_place_sec
        self._journal = journal
        self._waits = waits
        self._backoff = backoff
        self._watchers = watchers
        # They end right after the last try: storing and reporting a result does not count.
        self._limit_watchers = limit_watchers
        # Flows with loops or branches stop at any failure.
        self._may_isolate = not flow.has_control_flow()
        # A run of one task has its result in the last snapshot, and needs no journal.
        journalling = len(flow.tasks) > 1 or not self._may_isolate
        self._changes = ContextChanges() if journalling else None
        self._stopped = False
        # Of the `async def` tasks that execute.
        self._coroutines: set[CoroutineRunner] = set()
        self.history = CallHistory()
        # Including the errors that the flow continues after.
        self._raised: list[tuple[BaseException, str]] = []

    def attach(self, context: Context) -> None:
        """Track the state of the run's context; before its first task, and once."""
        if self._changes is not None and not self._changes.attached:
            self._changes.attach(context)

    def stop(self) -> None:
        self._stopped = True
        with _retry_wait:
            _retry_wait.notify_all()
        for coroutine in list(self._coroutines):
            coroutine.cancel()

    def raised(self, error: BaseException, task: str) -> None:
        self._raised.append((error, task))

    def task_that_raised(self, error: BaseException) -> str | None:
        return next((task for raised, task in self._raised if raised is error), None)

    def forget_raised(self) -> None:
        """An exception refers to its frames, and they to this run."""
        self._raised.clear()

    def execute(self, wrapped: "WrappedFunction", context: Context, inputs: dict[str, Any]) -> Any:
        """The task's result: from the journal if it has one, otherwise by calling its function."""
        task = wrapped.task
        loop = context.loop
        key = self._journal.keys.next(f"{task.name}|{loop.path if loop else ''}")
        found, output = self._replay(task, key)
        if found:
            return output
        isolated = self._may_isolate and task.fail_policy == "isolate"
        call = TaskCall(
            task,
            key,
            self._journal,
            self._waits,
            wrapped.timeout_sec,
            isolated,
            time.time(),
            self._pause,
            self._sleep_in_place_sec,
            self._files,
        )
        self._journal.replayed.pop(task.name, None)
        for watcher in self._watchers:
            watcher.began(call)
        try:
            return self._call(wrapped, call, context, inputs)
        finally:
            for watcher in self._watchers:
                watcher.ended(call)

    def _replay(self, task: Task, key: str) -> tuple[bool, Any]:
        entry = self._journal.find(key)
        if entry is None:
            return False, None
        try:
            output, changes = output_of(entry)
        except UnreadableResult as error:
            why = f"its journalled result cannot be read: {error}"
            self._journal.not_journalled[task.name] = why
            self._journal.note_reexecution(task.name, why)
            return False, None
        if self._changes is not None:
            self._changes.restore(changes, self._journal.position(key))
        self._journal.replayed[task.name] = entry
        if entry.error is not None:
            raise TaskFailedBefore(entry.error)
        if self._changes is not None:
            self._changes.will_be_written(task.outputs)
        return True, output

    def _call(
        self, wrapped: "WrappedFunction", call: TaskCall, context: Context, inputs: dict[str, Any]
    ) -> Any:
        tracked = self._changes
        touched = None if tracked is None else tracked.began(inputs)
        try:
            output = self._call_with_limits(wrapped, call, context, inputs)
        except BaseException as error:
            changes = self._changes_of(call, touched)
            if call.task.fail_policy == "isolate" and not self._may_isolate:
                self._journal.note(call.task.name, _NOT_ISOLATED)
            elif call.isolated and isinstance(error, Exception) and not self._stopped:
                self._journal.failed(call.key, call.task.name, call.started_at, error_message(error), changes)
            raise
        if tracked is not None:
            changes = self._changes_of(call, touched)
            self._journal.finished(call.key, call.task.name, call.started_at, output, changes)
            self._journal.forget_steps(call.key)
            tracked.will_be_written(call.task.outputs)
        return output

    def _changes_of(self, call: TaskCall, touched: TouchedNames | None) -> Changes:
        if self._changes is None or touched is None:
            return {}, []
        changes, unstorable = self._changes.ended(touched)
        if unstorable:
            names = ", ".join(unstorable)
            self._journal.not_journalled[call.task.name] = f"what it did to {names} cannot be stored"
        return changes

    def _call_with_limits(
        self, wrapped: "WrappedFunction", call: TaskCall, context: Context, inputs: dict[str, Any]
    ) -> Any:
        for watcher in self._limit_watchers:
            watcher.began(call)
        try:
            return self._call_with_retries(wrapped, call, context, inputs)
        finally:
            for watcher in self._limit_watchers:
                watcher.ended(call)

    def _call_with_retries(
        self, wrapped: "WrappedFunction", call: TaskCall, context: Context, inputs: dict[str, Any]
    ) -> Any:
        failures = 0
        while True:
            started_at = self.history.began(call.task.name)
            try:
                output = self._call_function(wrapped, call, context, inputs)
            except Exception as error:
                self.history.ended(call.task.name, started_at, error)
                if self._waits.is_waiting(call.key):
                    raise TaskSuspended from None
                failures += 1
                # Another try would not have an answer either.
                is_final = isinstance(error, (HumanTimeout, WaitTimeout)) or failures > wrapped.retries
                if is_final or self._stopped:
                    raise
            else:
                self.history.ended(call.task.name, started_at)
                if self._waits.is_waiting(call.key):
                    # A bare `except` of the task has swallowed the signal; its return value is no result.
                    raise TaskSuspended
                return output
            if self._stopped_within(self._backoff.delay_sec(failures)):
                raise TaskStopped("the run was cancelled before the task's next try")

    def _call_function(
        self, wrapped: "WrappedFunction", call: TaskCall, context: Context, inputs: dict[str, Any]
    ) -> Any:
        if wrapped.wants_context:
            view = TaskContext.view(context, call)
            output = wrapped.function(**inputs, ctx=view)
        else:
            view, output = None, wrapped.function(**inputs)
        if inspect.isasyncgen(output):
            # Nothing of its function has been executed.
            expected = "expected an `async def` task without `yield`, which returns a list, for example"
            raise TypeError(f"task {call.task.name} is an async generator; {expected}")
        return self._run_coroutine(output, call, view) if inspect.iscoroutine(output) else output

    def _run_coroutine(
        self, coroutine: Coroutine[Any, Any, Any], call: TaskCall, view: TaskContext | None
    ) -> Any:
        # Most executors never need asyncio.
        from asyncio import CancelledError  # noqa: PLC0415

        from pyoco_server.worker.engine.tasks.coroutines import CoroutineRunner  # noqa: PLC0415

        runner = CoroutineRunner()
        if view is not None:
            view.run_within(runner)
        self._coroutines.add(runner)
        if self._stopped:
            runner.cancel()
        try:
            return runner.run(coroutine)
        except (CancelledError, BaseExceptionGroup) as error:
            if self._waits.is_waiting(call.key):
                raise TaskSuspended from None
            if not isinstance(error, CancelledError):
                raise
            if self._stopped:
                raise TaskStopped("the run was cancelled while the task executed") from None
            raise RuntimeError("the task was cancelled by its own code") from error
        finally:
            self._coroutines.discard(runner)

    def _pause(self, seconds: float) -> None:
        if self._stopped_within(seconds):
            raise TaskStopped("the run was cancelled while the task slept")

    def _stopped_within(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        with _retry_wait:
            while not self._stopped and (left_sec := until - time.monotonic()) > 0:
                _retry_wait.wait(left_sec)
        return self._stopped


class ServerRunContext(RunContext):  # type: ignore[misc]
    calls: TaskCalls
    facts: RunFacts


class WrappedFunction:
    """A task's function that goes through the calls of its run; outside of our runs, just the function."""

    def __init__(self, task: Task, function: Callable[..., Any]) -> None:
        self.task = task
        self.function = function
        self.retries = 0
        self.timeout_sec: float | None = None
        signature = inspect.signature(function)
        # The engine wires parameters by name and passes `ctx` to functions that have it.
        self.wants_context = "ctx" in signature.parameters
        self.parameters = tuple(name for name in signature.parameters if name != "ctx")
        self.__signature__ = signature if self.wants_context else _with_context(signature)
        # The callable policy asks where the user's function comes from.
        self.__name__ = getattr(function, "__name__", task.name)
        self.__module__ = getattr(function, "__module__", "")

    def take_policies(self) -> None:
        """Move the task's retries and limit here, so that the engine applies none."""
        if self.task.retries:
            self.retries, self.task.retries = self.task.retries, 0
        if self.task.timeout_sec is not None:
            limit_sec, self.task.timeout_sec = self.task.timeout_sec, None
            # `math.inf`, for example, is no limit: no timer takes it.
            self.timeout_sec = limit_sec if limit_sec <= threading.TIMEOUT_MAX else None

    def __call__(self, **inputs: Any) -> Any:
        """Called by the engine where it executes the task itself."""
        context = inputs.pop("ctx")
        run = context.run_context
        if not isinstance(run, ServerRunContext):
            return self.function(**inputs, ctx=context) if self.wants_context else self.function(**inputs)
        run.calls.attach(context)
        try:
            return run.calls.execute(self, context, inputs)
        except BaseException as error:
            run.calls.raised(error, self.task.name)
            raise


def retries_and_limit(task: Task) -> tuple[int, float | None]:
    """The options of a task, wherever they are: a flow that has run has moved them to its functions."""
    if isinstance(task.func, WrappedFunction) and task.func.task is task:
        return task.retries or task.func.retries, task.timeout_sec or task.func.timeout_sec
    return task.retries, task.timeout_sec


def wrap_tasks(flow: Flow) -> bool:
    """Wrap every task's function that is not wrapped yet; returns whether any task has a time limit."""
    limited = False
    for task in flow.tasks:
        function = task.func
        if isinstance(function, WrappedFunction):
            if function.task is task:
                function.take_policies()
                limited = limited or function.timeout_sec is not None
                continue
            # A flow.yaml names the function of a task that another flow has used.
            function = function.function
        # A callable without a signature fails when it is executed, with an error that says so.
        with suppress(ValueError, TypeError):
            wrapped = task.func = WrappedFunction(task, function)
            wrapped.take_policies()
            limited = limited or wrapped.timeout_sec is not None
    return limited


def _with_context(signature: inspect.Signature) -> inspect.Signature:
    parameters = list(signature.parameters.values())
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY)
    takes_any_name = parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
    parameters.insert(len(parameters) - bool(takes_any_name), context)
    return signature.replace(parameters=parameters)
