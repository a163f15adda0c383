"""The journal of one execution: entries of earlier attempts to replay, and new ones to store."""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from pyoco_server.records.runs.journal_models import JournalEntry, value_digest
from pyoco_server.worker.engine.graph.flow_shape import FlowShape
from pyoco_server.worker.engine.journal.journal_values import (
    dump_changes,
    dump_value,
    load_changes,
    load_value,
)
from pyoco_server.worker.engine.journal.json_values import error_message
from pyoco_server.worker.engine.tasks.context_changes import Changes

_NO_CHANGES: Changes = ({}, [])
_FLOW_CHANGED = "the flow has changed since it finished, at this task or before it"


class UnreadableResult(Exception):
    """A journalled value cannot be loaded, for example because its class has been removed."""


class JournalKeys:
    """Keys of entries: a place of the flow, with how often it was executed before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def next(self, place: str) -> str:
        with self._lock:
            occurrence = self._counts.get(place, 0)
            self._counts[place] = occurrence + 1
            return f"{place}|{occurrence}"


class TaskJournal:
    """The entries of one execution of a run.

    An entry is valid unless its value is not stored or the flow has changed upstream of its task. A task
    without a valid entry is executed. If its result differs from the previous one, the entries downstream
    are void, since they were computed from that.
    """

    def __init__(
        self,
        entries: Sequence[JournalEntry],
        *,
        base: int,
        attempt: int,
        shape: FlowShape,
        write: Callable[[JournalEntry], None],
        note: Callable[[str, str], None],
        max_value_bytes: int,
        store_files: Callable[[str], None],
    ) -> None:
        self._entries: dict[str, JournalEntry] = {}
        self._order: dict[str, int] = {}
        self._places = itertools.count()
        for entry in sorted(entries, key=lambda each: each.place):
            self._remember(entry)
        # The number of the last entry before this attempt.
        self._base = self._last_number = base
        self._numbering = threading.Lock()
        self._attempt = attempt
        self._shape = shape
        self._write = write
        # Adds a line about a task to the run's log.
        self.note = note
        self._max_value_bytes = max_value_bytes
        # Stores what the task has written, before an entry says that it need not be executed again.
        self._store_files = store_files
        self.keys = JournalKeys()
        # Replayed entries of tasks, without steps.
        self._used: set[str] = set()
        # Tasks whose results could not be stored, and why: a resumed run executes them again.
        self.not_journalled: dict[str, str] = {}
        # Finished tasks that are executed again, and why.
        self.executed_again: dict[str, str] = {}
        # Tasks that were replayed by this attempt, with their entries.
        self.replayed: dict[str, JournalEntry] = {}

    def find(self, key: str, within: str | None = None) -> JournalEntry | None:
        """The valid entry of this execution. An entry of the rerun's original is adopted.

        `within` is the key of the task that a step belongs to.
        """
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.shape and entry.shape != self._shape.of(entry.task):
            self._note_reexecution(entry.task, _FLOW_CHANGED, within)
            self._void_downstream(entry, within, _FLOW_CHANGED)
            # Even the same result does not keep its position: new tasks may come before it.
            self._entries.pop(key, None)
            return None
        if not entry.has_value:
            self._note_reexecution(entry.task, entry.why or "its result is not stored", within)
            return None
        if within is None:
            self._used.add(key)
        if not entry.attempt:
            # It keeps its number, and so its position.
            self._write(replace(entry, attempt=self._attempt, base=self._base))
        return entry

    def position(self, key: str) -> int:
        """The position of an entry among those of earlier attempts."""
        return self._order[key]

    def finished(
        self,
        key: str,
        task: str,
        started_at: float,
        output: Any,
        changes: Changes = _NO_CHANGES,
        *,
        within: str | None = None,
    ) -> None:
        """Record a result, or why it cannot be stored. A step's result is also found by this attempt."""
        self._store_files(task)
        values = self._stored(task, output, changes)
        entry = self._entry(key, task, started_at)
        entry.same_as = self._compare_with_previous(key, within, values)
        if values is not None:
            entry.output, entry.changes = values
        entry = self._bounded(entry)
        if within is not None:
            self._remember(entry)
        self._append(entry)

    def forget_steps(self, key: str) -> None:
        """The task has finished: its steps are not needed again."""
        for step in [known for known in list(self._entries) if known.startswith(f"{key}|")]:
            del self._entries[step]

    def failed(
        self, key: str, task: str, started_at: float, error: str, changes: Changes = _NO_CHANGES
    ) -> None:
        """Record that the task failed for good, and what it changed; its flow continues."""
        self._store_files(task)
        self._compare_with_previous(key, None, None)
        entry = self._entry(key, task, started_at)
        values = self._stored(task, None, changes)
        if values is not None:
            entry.error, entry.changes = error, values[1]
        self._append(self._bounded(entry))

    def note_reexecution(self, task: str, why: str) -> None:
        """Show in the task's record and in the run's log that a finished task is executed again."""
        self.executed_again[task] = why
        self.note(task, f"task {task} is executed again: {why}")

    def _note_reexecution(self, task: str, why: str, within: str | None) -> None:
        if within is None:
            self.note_reexecution(task, why)
        else:
            self.note(task, f"a step of task {task} is executed again: {why}")

    def _remember(self, entry: JournalEntry) -> None:
        self._entries[entry.key] = entry
        # The same result keeps its position, before everything that was computed from it.
        if not entry.same_as or entry.key not in self._order:
            self._order[entry.key] = next(self._places)

    def _stored(self, task: str, output: Any, changes: Changes) -> tuple[bytes, bytes] | None:
        """Both as they are stored; None if they cannot be, with the reason in `not_journalled`."""
        try:
            return dump_value(output), b"" if changes == _NO_CHANGES else dump_changes(changes)
        except Exception as error:  # noqa: BLE001 - pickling runs the user's code
            self.not_journalled[task] = (
                f"its result cannot be stored: {type(error).__name__}: {error_message(error)}"
            )
            return None

    def _bounded(self, entry: JournalEntry) -> JournalEntry:
        """The entry, with a reason in place of a value that is missing or too large."""
        if not entry.has_value:
            return entry.without_value(self.not_journalled[entry.task])
        size = len(entry.output) + len(entry.changes)
        if size <= self._max_value_bytes:
            return entry
        limit = f"PYOCO_JOURNAL_VALUE_MAX_BYTES={self._max_value_bytes}"
        why = self.not_journalled[entry.task] = f"its result takes {size} bytes, {limit}"
        return entry.without_value(why, value_digest(entry.output, entry.changes))

    def _compare_with_previous(self, key: str, within: str | None, values: tuple[bytes, bytes] | None) -> int:
        """The place of the previous result if this one is the same; otherwise void what is downstream."""
        previous = self._entries.get(key)
        if previous is None or not previous.digest:
            # Never executed before, or its result is unknown.
            return 0
        if values is not None and value_digest(*values) == previous.digest:
            return previous.place
        why = f"{previous.task}, which comes before it, was executed again with another result"
        self._void_downstream(previous, within, why)
        return 0

    def _void_downstream(self, entry: JournalEntry, within: str | None, why: str) -> None:
        """Write void entries, so that later attempts do not use them either."""
        for each in self._downstream(entry, within):
            void = replace(each.without_value(why), attempt=self._attempt)
            self._entries[each.key] = void
            self._append(void)

    def _downstream(self, entry: JournalEntry, within: str | None) -> list[JournalEntry]:
        known = [each for each in list(self._entries.values()) if each.has_value]
        position = self._order[entry.key]
        if within is not None:
            steps = [each for each in known if each.key.startswith(f"{within}|")]
            return [each for each in steps if self._order[each.key] > position]
        unused = [each for each in known if each.key not in self._used]
        downstream = self._shape.downstream(entry.task)
        if downstream is None:
            return [each for each in unused if self._order[each.key] > position]
        return [each for each in unused if each.task in downstream]

    def _append(self, entry: JournalEntry) -> None:
        # Numbered and written under one lock, so that the worker receives them in order.
        with self._numbering:
            self._last_number += 1
            entry.number, entry.base = self._last_number, self._base
            self._write(entry)

    def _entry(self, key: str, task: str, started_at: float) -> JournalEntry:
        return JournalEntry(
            key=key,
            task=task,
            attempt=self._attempt,
            started_at=started_at,
            ended_at=time.time(),
            shape=self._shape.of(task),
        )


def output_of(entry: JournalEntry) -> tuple[Any, Changes]:
    """The result of an entry, None for a failed task, and what the task changed."""
    try:
        changes = load_changes(entry.changes) if entry.changes else _NO_CHANGES
        return None if entry.error is not None else load_value(entry.output), changes
    except Exception as error:
        raise UnreadableResult(f"{type(error).__name__}: {error}") from error
