"""The `ctx` of a task: pyoco's context with `ctx.step` and `ctx.human`, for one try of the task."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pyoco.core.context import Context

from pyoco_server.human.asking import question, typed_answer
from pyoco_server.worker.engine.task_journal import JournalKeys, TaskJournal, UnreadableEntry, output_of

if TYPE_CHECKING:
    from pyoco_server.worker.engine.task_calls import TaskCall

T = TypeVar("T")

_MAX_NAME_CHARS = 200


class TaskContext(Context):  # type: ignore[misc]
    """A view of the engine's context; attributes that are assigned to it are shared by all views."""

    # Not in the instance's dictionary, which all views share.
    __slots__ = ("_people", "_steps")
    _steps: "Steps"
    _people: "HumanQuestions"

    @classmethod
    def view(cls, context: Context, call: "TaskCall") -> "TaskContext":
        view = cls.__new__(cls)
        view.__dict__ = context.__dict__  # type: ignore[misc]  # inherited, beside the slot
        view._steps = Steps(call)
        view._people = HumanQuestions(call)
        return view

    def step(self, name: str, fn: Callable[[], T]) -> T:
        """The result of `fn()`; once it is journalled, this run never calls `fn` again.

        Steps of the same name are distinguished by their order.
        """
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME_CHARS or "|" in name:
            expected = f"expected a name of 1 to {_MAX_NAME_CHARS} characters without '|'"
            raise ValueError(f"ctx.step({name!r}): {expected}")
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
    ) -> Any:
        """A person's answer. Until then the run waits without occupying a worker.

        The task is called again from its start when the answer has arrived: put what must not happen twice
        into a `ctx.step` before it. Two questions of one task need two names.
        """
        return self._people.ask(
            message,
            schema,
            timeout_ms=timeout_ms,
            name=name,
            proposal=proposal,
            assignees=assignees,
            default=default,
        )


class Steps:
    """The steps of one try of a task; each try counts them from zero."""

    def __init__(self, call: "TaskCall") -> None:
        self._task = call.task.name
        self._journal: TaskJournal = call.journal
        self._outermost = call.key
        self._keys = JournalKeys()
        # The step that this thread executes: a step may call another.
        self._enclosing = threading.local()

    def execute(self, name: str, fn: Callable[[], T]) -> T:
        outer: str = getattr(self._enclosing, "key", self._outermost)
        key = self._keys.next(f"{outer}|{name}")
        found, output = self._replay(name, key)
        if found:
            return output  # type: ignore[no-any-return]
        started_at = time.time()
        self._enclosing.key = key
        try:
            result = fn()
        finally:
            self._enclosing.key = outer
        self._journal.finished(key, self._task, started_at, result, within=self._outermost)
        return result

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


class HumanQuestions:
    """`ctx.human` for one try of a task."""

    def __init__(self, call: "TaskCall") -> None:
        self._call = call
        self._names: set[str] = set()

    def ask(self, message: str, schema: Any, **details: Any) -> Any:
        asked = question(message, node=self._call.key, task=self._call.task.name, schema=schema, **details)
        if asked.name in self._names:
            expected = "give each question of a task a name of its own: ctx.human(..., name='...')"
            raise ValueError(f"ctx.human(name={asked.name!r}): asked twice by one task; {expected}")
        self._names.add(asked.name)
        return typed_answer(schema, self._call.waits.resolved(asked))
