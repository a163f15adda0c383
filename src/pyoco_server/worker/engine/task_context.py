"""The `ctx` of a task: pyoco's context with `ctx.step` and `ctx.human`, for one try of the task."""

import inspect
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from pyoco.core.context import Context

from pyoco_server.human.answer_types import answer_of
from pyoco_server.human.asking import DEFAULT_NAME, HumanInputRequired, question
from pyoco_server.records.wait_models import Question, WaitRecord
from pyoco_server.worker.engine.task_journal import JournalKeys, TaskJournal, UnreadableEntry, output_of

if TYPE_CHECKING:
    from pyoco_server.worker.engine.coroutines import CoroutineRunner
    from pyoco_server.worker.engine.task_calls import TaskCall

_MAX_NAME_CHARS: Final = 200
# The key of the step that executes here: a step may call another.
_enclosing_step: ContextVar[str | None] = ContextVar("enclosing_step", default=None)


class TaskContext(Context):  # type: ignore[misc]
    """A view of the engine's context; attributes that are assigned to it are shared by all views."""

    # Not in the instance's dictionary, which all views share.
    __slots__ = ("_coroutine", "_people", "_steps")
    _steps: "Steps"
    _people: "HumanQuestions"
    # Of an `async def` task, while it executes.
    _coroutine: "CoroutineRunner | None"

    @classmethod
    def view(cls, context: Context, call: "TaskCall") -> "TaskContext":
        view = cls.__new__(cls)
        view.__dict__ = context.__dict__  # type: ignore[misc]  # inherited, beside the slot
        view._steps = Steps(call)
        view._people = HumanQuestions(call)
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
        asked = self._people.question(
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
        # How the task receives the answer.
        form = (schema, details)
        running = self._coroutine
        if running is not None and running.is_running_here():
            return running.to_await("ctx.human(...)", self._people.ask_async(asked, form, running))
        return self._people.ask(asked, form)


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
        except UnreadableEntry as error:
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


# The schema of a question as the task gave it, and whether the task wants the details of the answer.
AnswerForm = tuple[Any, bool]


class HumanQuestions:
    """`ctx.human` for one try of a task; each try counts its unnamed questions from one."""

    def __init__(self, call: "TaskCall") -> None:
        self._call = call
        self._names: set[str] = set()
        self._unnamed = itertools.count(1)

    def question(self, message: str, schema: Any, *, name: str | None, **details: Any) -> Question:
        call = self._call
        asked = question(
            message,
            node=call.key,
            task=call.task.name,
            schema=schema,
            name=self._next_name() if name is None else name,
            isolated=call.isolated,
            **details,
        )
        if asked.name in self._names:
            expected = "give each question of a task a name of its own: ctx.human(..., name='...')"
            raise ValueError(f"ctx.human(name={asked.name!r}): asked twice by one task; {expected}")
        self._names.add(asked.name)
        return asked

    def ask(self, asked: Question, form: AnswerForm) -> Any:
        wait = self._call.waits.find(asked)
        if wait is None:
            raise HumanInputRequired(asked.message)
        return _answer(wait, form)

    async def ask_async(self, asked: Question, form: AnswerForm, coroutine: "CoroutineRunner") -> Any:
        waits = self._call.waits
        wait = waits.find(asked)
        if wait is None:
            step = _enclosing_step.get() or self._call.key
            await coroutine.suspend(step, on_cancelled=lambda: waits.remove(asked))
        return _answer(wait, form)

    def _next_name(self) -> str:
        number = next(self._unnamed)
        return DEFAULT_NAME if number == 1 else f"{DEFAULT_NAME}-{number}"


def _answer(wait: WaitRecord, form: AnswerForm) -> Any:
    schema, details = form
    return answer_of(wait, schema, details=details)
