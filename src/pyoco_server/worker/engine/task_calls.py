"""Executing the tasks of a flow so that a finished one is never executed again.

Each task's function is wrapped once. The wrapper asks the run it is called for: a result that an earlier
attempt journalled is returned, with the same changes of the flow's state; otherwise the function is called
and what it left behind is journalled. Retries and time limits are kept here too, not by the engine: it would
retry at once, and count a task's time from before its start.
"""

import inspect
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import Struct
from pyoco.core.context import Context
from pyoco.core.models import Flow, RunContext, Task

from pyoco_server.human.asking import HumanInputRequired
from pyoco_server.worker.engine.context_changes import Changes, ContextChanges, TouchedNames
from pyoco_server.worker.engine.json_values import message_of
from pyoco_server.worker.engine.run_waits import RunWaits
from pyoco_server.worker.engine.task_context import TaskContext
from pyoco_server.worker.engine.task_journal import TaskJournal, Unreadable, output_of
from pyoco_server.worker.engine.task_tries import TaskTries

# Of all runs: few have a task that waits for its next try, and an event of its own costs each of them.
_pausing = threading.Condition()


class TaskFailedBefore(Exception):
    """An earlier attempt of this run has seen the task fail for good; the text is the error of then."""


class TaskStopped(Exception):
    """The run was cancelled while the task waited for its next try."""


@dataclass(frozen=True, slots=True)
class RetryPauses:
    """How long a failed task waits before its next try: doubling, and drawn at random below that."""

    base_sec: float
    max_sec: float

    def before_retry(self, number: int) -> float:
        longest = min(self.max_sec, self.base_sec * 2.0 ** min(number - 1, 30))
        return random.uniform(longest / 2, longest)  # noqa: S311 - spreading load needs no secrecy


class TaskWatcher(Protocol):
    """Who is told of the tasks that execute now: the capture of their output, and their time limits."""

    def began(self, call: "TaskCall") -> None: ...
    def ended(self, call: "TaskCall") -> None: ...


class TaskCall(Struct, frozen=True, eq=False):
    """One execution of one task, with all of its tries."""

    task: Task
    key: str
    journal: TaskJournal
    waits: RunWaits
    timeout_sec: float | None
    # Whether the flow goes on when this task fails.
    isolated: bool
    started_at: float


class TaskCalls:
    """The executions of one run's tasks."""

    def __init__(
        self,
        flow: Flow,
        journal: TaskJournal,
        waits: RunWaits,
        pauses: RetryPauses,
        watchers: Sequence[TaskWatcher],
        *,
        limits: Sequence[TaskWatcher] = (),
    ) -> None:
        self._journal = journal
        self.waits = waits
        self._pauses = pauses
        self._watchers = watchers
        # Their `ended` comes right after the last try: the time that it takes to store and report a result
        # does not count.
        self._limits = limits
        # Only this mode of the engine goes on without a task that failed.
        self._may_isolate = not flow.has_control_flow()
        # The result of a run's only task is in its last snapshot: a journal would say it twice.
        journalling = len(flow.tasks) > 1 or not self._may_isolate
        self._changes = ContextChanges() if journalling else None
        self._stopped = False
        self.tries = TaskTries()
        # What tasks have raised, also those that the flow goes on without.
        self._raised: list[tuple[BaseException, str]] = []

    def attach(self, context: Context) -> None:
        """The engine has made the context of the run."""
        if self._changes is not None:
            self._changes.attach(context)

    def stop(self) -> None:
        """No more tries."""
        self._stopped = True
        with _pausing:
            _pausing.notify_all()

    def raised(self, error: BaseException, task: str) -> None:
        self._raised.append((error, task))

    def task_that_raised(self, error: BaseException) -> str | None:
        """The task whose very exception it is."""
        return next((task for raised, task in self._raised if raised is error), None)

    def forget_raised(self) -> None:
        """An exception holds on to its frames, and they to this run."""
        self._raised.clear()

    def execute(self, wrapped: "WrappedFunction", context: Context, inputs: dict[str, Any]) -> Any:
        """The task's result: of an earlier attempt if there is one, of calling its function otherwise."""
        task = wrapped.task
        loop = context.loop
        key = self._journal.next_key(f"{task.name}|{loop.path if loop else ''}")
        found, output = self._replay(task, key)
        if found:
            return output
        isolated = self._may_isolate and task.fail_policy == "isolate"
        call = TaskCall(task, key, self._journal, self.waits, wrapped.timeout_sec, isolated, time.time())
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
        except Unreadable as error:
            why = f"its journalled result cannot be read: {error}"
            self._journal.not_stored[task.name] = why
            self._journal.is_executed_again(task.name, why)
            return False, None
        if self._changes is not None:
            self._changes.restore(changes, self._journal.order_of(key))
        self._journal.replayed[task.name] = entry
        if entry.error is not None:
            raise TaskFailedBefore(entry.error)
        if self._changes is not None:
            self._changes.will_be_written(task.outputs)
        return True, output

    def _call(
        self, wrapped: "WrappedFunction", call: TaskCall, context: Context, inputs: dict[str, Any]
    ) -> Any:
        followed = self._changes
        hands = None if followed is None else followed.began(inputs)
        try:
            output = self._try_until_done(wrapped, call, context, inputs)
        except BaseException as error:
            changes = self._changes_of(call, hands)
            if call.isolated and isinstance(error, Exception) and not self._stopped:
                self._journal.failed(call.key, call.task.name, call.started_at, message_of(error), changes)
            raise
        if followed is not None:
            changes = self._changes_of(call, hands)
            self._journal.finished(call.key, call.task.name, call.started_at, output, changes)
            self._journal.forget_steps(call.key)
            followed.will_be_written(call.task.outputs)
        return output

    def _changes_of(self, call: TaskCall, hands: TouchedNames | None) -> Changes:
        """What the task changed, if that is followed; what cannot be stored of it is noted."""
        if self._changes is None or hands is None:
            return {}, []
        changes, untold = self._changes.ended(hands)
        if untold:
            names = ", ".join(untold)
            self._journal.not_stored[call.task.name] = f"what it did to {names} cannot be stored"
        return changes

    def _try_until_done(
        self, wrapped: "WrappedFunction", call: TaskCall, context: Context, inputs: dict[str, Any]
    ) -> Any:
        for limit in self._limits:
            limit.began(call)
        try:
            return self._try_again(wrapped, call, context, inputs)
        finally:
            for limit in self._limits:
                limit.ended(call)

    def _try_again(
        self, wrapped: "WrappedFunction", call: TaskCall, context: Context, inputs: dict[str, Any]
    ) -> Any:
        failures = 0
        while True:
            began_at = self.tries.began(call.task.name)
            try:
                if wrapped.wants_context:
                    output = wrapped.function(**inputs, ctx=TaskContext.view(context, call))
                else:
                    output = wrapped.function(**inputs)
            except Exception as error:
                self.tries.ended(call.task.name, began_at, error)
                if self.waits.is_waiting(call.key):
                    raise HumanInputRequired from None
                failures += 1
                if failures > wrapped.retries or self._stopped:
                    raise
            else:
                self.tries.ended(call.task.name, began_at)
                if self.waits.is_waiting(call.key):
                    # A bare `except` of the task has eaten the signal; what it returned is no result.
                    raise HumanInputRequired
                return output
            if self._stops_within(self._pauses.before_retry(failures)):
                raise TaskStopped("the run was cancelled before the task's next try")

    def _stops_within(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        with _pausing:
            while not self._stopped and (left_sec := until - time.monotonic()) > 0:
                _pausing.wait(left_sec)
        return self._stopped


class CallingContext(RunContext):  # type: ignore[misc]
    """A run context that knows how this run executes its tasks."""

    calls: TaskCalls


class WrappedFunction:
    """A task's function that asks the run it is called for; outside of our runs, just the function."""

    def __init__(self, task: Task, function: Callable[..., Any]) -> None:
        self.task = task
        self.function = function
        self.retries = 0
        self.timeout_sec: float | None = None
        signature = inspect.signature(function)
        # The engine wires parameters by name and hands over `ctx` where it is asked for.
        self.wants_context = "ctx" in signature.parameters
        self.parameters = tuple(name for name in signature.parameters if name != "ctx")
        self.__signature__ = signature if self.wants_context else _with_context(signature)
        # Whoever asks where the function comes from wants to know the user's.
        self.__name__ = getattr(function, "__name__", task.name)
        self.__module__ = getattr(function, "__module__", "")

    def take_policies(self) -> None:
        """Keep the task's retries and limit, and have the engine know of none."""
        if self.task.retries:
            self.retries, self.task.retries = self.task.retries, 0
        if self.task.timeout_sec is not None:
            self.timeout_sec, self.task.timeout_sec = self.task.timeout_sec, None

    def __call__(self, **inputs: Any) -> Any:
        context = inputs.pop("ctx")
        run = context.run_context
        if isinstance(run, CallingContext):
            return run.calls.execute(self, context, inputs)
        return self.function(**inputs, ctx=context) if self.wants_context else self.function(**inputs)


def make_resumable(flow: Flow) -> bool:
    """Wrap the function of every task that is not wrapped yet; a flow is used for many runs.

    Whether any of them has a time limit.
    """
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
        # A callable without a signature fails in the engine, which says so.
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
