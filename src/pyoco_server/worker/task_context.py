"""The `ctx` that a task gets: pyoco's own, and what the server adds for this one execution of the task."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pyoco.core.context import Context

from pyoco_server.worker.task_journal import TaskJournal, Unreadable, output_of

if TYPE_CHECKING:
    from pyoco_server.worker.task_calls import TaskCall

T = TypeVar("T")

_MAX_NAME_CHARS = 200


class TaskContext(Context):  # type: ignore[misc]
    """The engine's context, seen from one execution of one task; what is assigned to it is shared by all."""

    # Not in the instance's dictionary, which every view of one flow has in common.
    __slots__ = ("_call",)
    _call: "TaskCall"

    @classmethod
    def view(cls, context: Context, call: "TaskCall") -> "TaskContext":
        view = cls.__new__(cls)
        view.__dict__ = context.__dict__  # type: ignore[misc]  # inherited, beside the slot
        view._call = call
        return view

    def step(self, name: str, fn: Callable[[], T]) -> T:
        """The result of `fn()`, executed once in the life of the run even if this task is executed again.

        Steps of one name are told apart by the order in which the task comes to them.
        """
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME_CHARS or "|" in name:
            wanted = f"wanted a name of 1 to {_MAX_NAME_CHARS} characters without '|'"
            raise ValueError(f"ctx.step({name!r}): {wanted}")
        return _step(self._call.journal, self._call, name, fn)


def _step(journal: TaskJournal, call: "TaskCall", name: str, fn: Callable[[], T]) -> T:
    key = call.next_step(name)
    entry = journal.find(key)
    if entry is not None:
        try:
            output: Any = output_of(entry)[0]
        except Unreadable as error:
            why = f"step {name!r} ran again, its result cannot be read: {error}"
            journal.not_stored[call.task.name] = why
        else:
            return output  # type: ignore[no-any-return]
    started_at = time.time()
    result = fn()
    journal.finished(key, call.task.name, started_at, result, keep=True)
    return result
