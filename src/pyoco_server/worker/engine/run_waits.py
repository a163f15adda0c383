"""The questions of one execution to people: those that are answered, and those that it asks."""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyoco_server.human.asking import HumanInputRequired, question, typed_answer
from pyoco_server.records.wait_models import Question, WaitRecord

if TYPE_CHECKING:
    from pyoco_server.worker.engine.task_calls import TaskCall


class RunWaits:
    """A task whose question is open ends with HumanInputRequired, and is called again when it is answered."""

    def __init__(self, known: Sequence[WaitRecord], on_question: Callable[[Question], None]) -> None:
        self._on_question = on_question
        # The newest wait of each question: `retry` opens an expired one again.
        self._known: dict[tuple[str, str], WaitRecord] = {}
        for wait in sorted(known, key=lambda each: each.arming):
            self._known[wait.node, wait.name] = wait
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], Question] = {}
        self._discarded: set[str] = set()

    def resolved(self, asked: Question) -> WaitRecord:
        """The answered wait; without an answer, record the question and end the task."""
        place = (asked.node, asked.name)
        wait = self._known.get(place)
        if wait is not None and wait.resolved:
            return wait
        with self._lock:
            is_new = place not in self._open
            self._open[place] = asked
        if is_new and wait is None:
            self._on_question(asked)
        raise HumanInputRequired(asked.message)

    def is_waiting(self, node: str) -> bool:
        """Whether this execution of a task waits, even if its code has swallowed the signal."""
        if not self._open:
            return False
        with self._lock:
            return any(place[0] == node for place in self._open)

    def discard(self, tasks: set[str]) -> None:
        """Nothing depends on these tasks any more: their questions need no answer."""
        self._discarded |= tasks

    @property
    def open(self) -> list[Question]:
        """The questions that the run waits for."""
        with self._lock:
            return [asked for asked in self._open.values() if asked.task not in self._discarded]

    @property
    def tasks(self) -> set[str]:
        return {asked.task for asked in self.open} if self._open else set()


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
