"""The waits of one execution: those that are over, and those that it opens."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from pyoco_server.records.runs.run_models import RunStatus, WaitKind
from pyoco_server.records.waits.wait_models import Question, WaitRecord, WaitState
from pyoco_server.waits.wait_transitions import change_of

# A question that changes more often than this after an answer changes with each execution of its task.
MAX_CHANGES: Final = 2

_CHANGED: Final = {
    "message_changed": "its message has",
    "schema_changed": "its schema has",
    "question_changed": "its message and schema have",
    "approval_changed": "its rule of approval has",
    "wait_changed": "what it waits for has",
}


class RunWaits:
    """A task whose wait is open ends with TaskSuspended, and is called again when it is over."""

    def __init__(
        self,
        known: Sequence[WaitRecord],
        on_question: Callable[[Question], None],
        note: Callable[[str, str], None],
        submitted_by: str | None = None,
    ) -> None:
        self._on_question = on_question
        # The API key that submitted the run.
        self.submitted_by = submitted_by
        # Adds a line about a task to the run's log.
        self._note = note
        # The newest wait of each question: `retry` opens an expired one again.
        self._known: dict[tuple[str, str], WaitRecord] = {}
        for wait in sorted(known, key=lambda each: each.arming):
            self._known[wait.node, wait.name] = wait
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], Question] = {}
        self._discarded: set[str] = set()

    def find(self, asked: Question) -> WaitRecord | None:
        """The answered wait; without an answer to this very question, it is recorded as open.

        ValueError if the question seems to change with each execution: it would be asked for ever.
        """
        place = (asked.node, asked.name)
        wait = self._known.get(place)
        change = None if wait is None else change_of(wait, asked)
        if wait is not None and wait.resolved:
            if change is None:
                return wait
            if wait.changes >= MAX_CHANGES:
                raise _changes_always(asked, change)
        with self._lock:
            is_new = place not in self._open
            self._open[place] = asked
        if is_new and (wait is None or change is not None or wait.state is WaitState.CANCELLED):
            if wait is not None and change is not None:
                was = "answered" if wait.resolved else "asked"
                text = f"{_CHANGED[change]} changed since it was {was}"
                what = "question" if asked.kind is WaitKind.HUMAN else "wait"
                self._note(asked.task, f"{what} {asked.name} of task {asked.task} is asked again: {text}")
            self._on_question(asked)
        return None

    def has(self, asked: Question) -> bool:
        """Whether there is a wait at this place already, open or over."""
        return (asked.node, asked.name) in self._known

    def remove(self, asked: Question) -> None:
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
    def status(self) -> RunStatus:
        """Of the run when it can only wait: WAITING_HUMAN while a person is asked."""
        is_human = any(asked.kind is WaitKind.HUMAN for asked in self.open)
        return RunStatus.WAITING_HUMAN if is_human else RunStatus.WAITING

    @property
    def tasks(self) -> set[str]:
        return {asked.task for asked in self.open} if self._open else set()


def _changes_always(asked: Question, change: str) -> ValueError:
    is_human = asked.kind is WaitKind.HUMAN
    call = f"ctx.human(name={asked.name!r})" if is_human else f"ctx.wait_for_{asked.kind}({asked.topic!r})"
    return ValueError(
        f"{call}: {_CHANGED[change]} changed after each of {MAX_CHANGES + 1} "
        "answers; a task is executed again after an answer: take what changes with each execution (a time, "
        "a random number, the order of a set) from a ctx.step"
    )
