"""The questions of one execution to people: those that are answered, and those that it asks."""

import threading
from collections.abc import Callable, Sequence

from pyoco_server.records.wait_models import Question, WaitRecord, WaitState


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

    def find(self, asked: Question) -> WaitRecord | None:
        """The answered wait; without an answer, the question is recorded as open."""
        place = (asked.node, asked.name)
        wait = self._known.get(place)
        if wait is not None and wait.resolved:
            return wait
        with self._lock:
            is_new = place not in self._open
            self._open[place] = asked
        if is_new and (wait is None or wait.state is WaitState.CANCELLED):
            self._on_question(asked)
        return None

    def withdraw(self, asked: Question) -> None:
        """The task does not wait for this answer any more, for example because another await was faster."""
        with self._lock:
            self._open.pop((asked.node, asked.name), None)

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
