"""The waits for people as an executor sees them: what has been answered, and what this execution asks."""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyoco_server.human.asking import HumanInputRequired, question, typed_answer
from pyoco_server.records.wait_models import Question, WaitRecord

if TYPE_CHECKING:
    from pyoco_server.worker.engine.task_calls import TaskCall


class RunWaits:
    """Of one execution of a run. A task whose question is open ends here; it is called again later."""

    def __init__(self, known: Sequence[WaitRecord], asked: Callable[[Question], None]) -> None:
        self._tell = asked
        # Of each question the wait that counts: `retry` asks again what nobody has answered.
        self._known: dict[tuple[str, str], WaitRecord] = {}
        for wait in sorted(known, key=lambda each: each.arming):
            self._known[wait.node, wait.name] = wait
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], Question] = {}
        # Nobody needs an answer of these tasks any more.
        self._unwanted: set[str] = set()

    def resolved(self, asked: Question) -> WaitRecord:
        """The wait with the answer; without one, remember the question and stop the task."""
        place = (asked.node, asked.name)
        wait = self._known.get(place)
        if wait is not None and wait.resolved:
            return wait
        with self._lock:
            is_new = place not in self._open
            self._open[place] = asked
        if is_new and wait is None:
            self._tell(asked)
        raise HumanInputRequired(asked.message)

    def is_waiting(self, node: str) -> bool:
        """Whether this execution of a task waits, whatever its code made of the signal."""
        if not self._open:
            return False
        with self._lock:
            return any(place[0] == node for place in self._open)

    def give_up(self, tasks: set[str]) -> None:
        """Their results are of no use any more, and nobody has to answer them."""
        self._unwanted |= tasks

    @property
    def wanted(self) -> list[Question]:
        """The questions that the run waits for."""
        with self._lock:
            return [asked for asked in self._open.values() if asked.task not in self._unwanted]

    @property
    def unwanted(self) -> list[Question]:
        with self._lock:
            return [asked for asked in self._open.values() if asked.task in self._unwanted]

    @property
    def tasks(self) -> set[str]:
        """The tasks that wait."""
        return {asked.task for asked in self.wanted} if self._open else set()


class People:
    """Whom one try of a task can ask."""

    def __init__(self, call: "TaskCall") -> None:
        self._call = call
        self._names: set[str] = set()

    def ask(self, message: str, schema: Any, **details: Any) -> Any:
        asked = question(message, node=self._call.key, task=self._call.task.name, schema=schema, **details)
        if asked.name in self._names:
            wanted = "give each question of a task a name of its own: ctx.human(..., name='...')"
            raise ValueError(f"ctx.human(name={asked.name!r}): asked twice by one task; {wanted}")
        self._names.add(asked.name)
        return typed_answer(schema, self._call.waits.resolved(asked))
