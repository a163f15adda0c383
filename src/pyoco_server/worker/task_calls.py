"""Executing the tasks of a flow so that a finished one is never executed again.

Each task's function is wrapped once. The wrapper asks the run it is called for: a result that an earlier
attempt journalled is returned, with the same changes of the flow's state; otherwise the function is called
and what it left behind is journalled.
"""

import inspect
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyoco.core.context import Context
from pyoco.core.models import Flow, RunContext, Task

from pyoco_server.worker.context_changes import ContextChanges
from pyoco_server.worker.task_context import TaskContext
from pyoco_server.worker.task_journal import TaskJournal, Unreadable, output_of


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
    def ended(self, call: "TaskCall", *, final: bool) -> None:
        """One try is over; `final` unless the task is tried again."""


@dataclass(frozen=True, slots=True, eq=False)
class TaskCall:
    """One execution of one task."""

    task: Task
    key: str
    journal: TaskJournal
    started_at: float = field(default_factory=time.time)
    _steps: dict[str, int] = field(default_factory=dict)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def next_step(self, name: str) -> str:
        """The key of the next step of this name; a task that is tried again counts from the beginning."""
        with self._counting:
            occurrence = self._steps.get(name, 0)
            self._steps[name] = occurrence + 1
            return f"{self.key}|{name}|{occurrence}"


class TaskCalls:
    """The executions of one run's tasks."""

    def __init__(
        self, flow: Flow, journal: TaskJournal, pauses: RetryPauses, watchers: list[TaskWatcher]
    ) -> None:
        self._journal = journal
        self._pauses = pauses
        self._watchers = watchers
        self._changes = ContextChanges()
        self._begun = threading.Lock()
        self._state_known = False
        # The result of a run's only task is in its last snapshot: a journal would say it twice.
        self._journalling = len(flow.tasks) > 1 or flow.has_control_flow()
        # Only this mode of the engine goes on without a task that failed.
        self._may_isolate = not flow.has_control_flow()
        self._failures: dict[str, int] = {}
        self._stopped = threading.Event()

    def stop(self) -> None:
        """No more tries."""
        self._stopped.set()

    def execute(
        self, task: Task, function: Callable[..., Any], context: Context, inputs: dict[str, Any]
    ) -> Any:
        """The task's result: of an earlier attempt if there is one, of calling its function otherwise."""
        self._take_state(context)
        key = self._journal.next_key(f"{task.name}|{context.loop.path if context.loop else ''}")
        try:
            found, output = self._replay(task, key, context)
            if found:
                return output
            self._pause_before_retry(key)
            return self._call(task, key, function, context, inputs)
        except Exception:
            self._journal.take_back(key)
            raise

    def _take_state(self, context: Context) -> None:
        if not self._journalling:
            return
        with self._begun:
            if not self._state_known:
                self._changes.begin(context)
                self._state_known = True
        self._changes.before_task(context)

    def _replay(self, task: Task, key: str, context: Context) -> tuple[bool, Any]:
        entry = self._journal.find(key)
        if entry is None:
            return False, None
        if entry.error is not None:
            self._journal.replayed[task.name] = entry
            raise TaskFailedBefore(entry.error)
        try:
            output, changes = output_of(entry)
        except Unreadable as error:
            self._journal.not_stored[task.name] = f"its journalled result cannot be read: {error}"
            return False, None
        self._changes.apply(context, changes)
        self._changes.expect_outputs(task.outputs)
        self._journal.replayed[task.name] = entry
        return True, output

    def _pause_before_retry(self, key: str) -> None:
        failures = self._failures.get(key, 0)
        if failures and self._stopped.wait(self._pauses.before_retry(failures)):
            raise TaskStopped("the run was cancelled before the task's next try")

    def _call(
        self, task: Task, key: str, function: Callable[..., Any], context: Context, inputs: dict[str, Any]
    ) -> Any:
        call = TaskCall(task, key, self._journal)
        self._journal.replayed.pop(task.name, None)
        if "ctx" in inputs:
            inputs["ctx"] = TaskContext.view(context, call)
        for watcher in self._watchers:
            watcher.began(call)
        final = True
        try:
            output = function(**inputs)
        except Exception as error:
            final = self._failed(call, error)
            raise
        finally:
            for watcher in self._watchers:
                watcher.ended(call, final=final)
        if self._journalling:
            changes = self._changes.since_last_look(context)
            self._journal.finished(key, task.name, call.started_at, output, changes)
            self._journal.forget_steps(key)
            self._changes.expect_outputs(task.outputs)
        return output

    def _failed(self, call: TaskCall, error: Exception) -> bool:
        """Count the failure; whether it is the last one."""
        failures = self._failures[call.key] = self._failures.get(call.key, 0) + 1
        final: bool = failures > call.task.retries
        if final and self.goes_on_without(call.task):
            self._journal.failed(call.key, call.task.name, call.started_at, str(error))
        return final

    def goes_on_without(self, task: Task) -> bool:
        """Whether the flow continues when this task fails."""
        return self._may_isolate and task.fail_policy == "isolate"


class CallingContext(RunContext):  # type: ignore[misc]
    """A run context that knows how this run executes its tasks."""

    calls: TaskCalls


class _WrappedFunction:
    """A task's function that asks the run it is called for; outside of our runs, just the function."""

    def __init__(self, task: Task, function: Callable[..., Any]) -> None:
        self.task = task
        self.function = function
        signature = inspect.signature(function)
        self._wants_context = "ctx" in signature.parameters
        # The engine wires parameters by name and hands over `ctx` where it is asked for.
        self.__signature__ = signature if self._wants_context else _with_context(signature)
        # Whoever asks where the function comes from wants to know the user's.
        self.__name__ = getattr(function, "__name__", task.name)
        self.__module__ = getattr(function, "__module__", "")

    def __call__(self, **inputs: Any) -> Any:
        context = inputs["ctx"]
        if not self._wants_context:
            del inputs["ctx"]
        run = context.run_context
        if isinstance(run, CallingContext):
            return run.calls.execute(self.task, self.function, context, inputs)
        return self.function(**inputs)


def make_resumable(flow: Flow) -> None:
    """Wrap the function of every task that is not wrapped yet; a flow is used for many runs."""
    for task in flow.tasks:
        function = task.func
        if isinstance(function, _WrappedFunction):
            if function.task is task:
                continue
            # A flow.yaml names the function of a task that another flow has used.
            function = function.function
        # A callable without a signature fails in the engine, which says so.
        with suppress(ValueError, TypeError):
            task.func = _WrappedFunction(task, function)


def _with_context(signature: inspect.Signature) -> inspect.Signature:
    parameters = list(signature.parameters.values())
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY)
    takes_any_name = parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
    parameters.insert(len(parameters) - bool(takes_any_name), context)
    return signature.replace(parameters=parameters)
