"""The journal as an executor sees it: what earlier attempts finished, and what this one adds.

Values are pickled: a resumed flow must get back what its tasks returned, not what JSON would make of it.
Only workers write journals; who may write there may run code on workers, as who may submit a flow.yaml.
"""

import itertools
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from pyoco_server.records.models import JournalEntry, value_digest
from pyoco_server.worker.engine.context_changes import Changes
from pyoco_server.worker.engine.flow_shape import FlowShape
from pyoco_server.worker.engine.json_values import message_of

_NO_CHANGES: Changes = ({}, [])
_FLOW_CHANGED = "the flow has changed since it finished, at this task or before it"


class Unreadable(Exception):
    """A journalled value cannot be had back, for example because its class is gone from the code."""


class TaskJournal:
    """Of one execution of a run.

    An entry holds unless its value is not stored, or the flow has changed before its task. A task without an
    entry that holds is executed; where its result is known to be another one than before, so is what follows
    it, since it was computed from the former result.
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
    ) -> None:
        self._entries: dict[str, JournalEntry] = {}
        self._order: dict[str, int] = {}
        self._places = itertools.count()
        for entry in sorted(entries, key=lambda each: each.place):
            self._remember(entry)
        # The number of the last entry that this attempt begins with.
        self._base = self._last_number = base
        self._numbering = threading.Lock()
        self._attempt = attempt
        self._shape = shape
        self._write = write
        self._note = note
        self._max_value_bytes = max_value_bytes
        self._counting = threading.Lock()
        self._counts: dict[str, int] = {}
        # What was replayed of tasks, not of steps.
        self._used: set[str] = set()
        # Tasks whose results could not be stored, and why: they run again when the run is resumed.
        self.not_stored: dict[str, str] = {}
        # Tasks that had finished before and are executed again all the same, and why.
        self.executed_again: dict[str, str] = {}
        # Tasks that were not executed by this attempt, with what an earlier one recorded of them.
        self.replayed: dict[str, JournalEntry] = {}

    def next_key(self, place: str) -> str:
        """The key of the next execution at this place of the flow: it counts how often that was."""
        with self._counting:
            occurrence = self._counts.get(place, 0)
            self._counts[place] = occurrence + 1
            return f"{place}|{occurrence}"

    def find(self, key: str, within: str | None = None) -> JournalEntry | None:
        """What holds of this execution; an entry of the run that this one repeats becomes its own.

        `within` is the key of the task around a step.
        """
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.shape and entry.shape != self._shape.of(entry.task):
            self._is_executed_again(entry.task, _FLOW_CHANGED, within)
            self._void_what_follows(entry, within, _FLOW_CHANGED)
            # Even with the same result it does not keep its place: what is new may come before it.
            self._entries.pop(key, None)
            return None
        if not entry.has_value:
            self._is_executed_again(entry.task, entry.why or "its result is not stored", within)
            return None
        if within is None:
            self._used.add(key)
        if not entry.attempt:
            # It keeps its number: it is where it was, behind the same and before the same.
            self._write(replace(entry, attempt=self._attempt, base=self._base))
        return entry

    def order_of(self, key: str) -> int:
        """The place of an entry among those that earlier attempts have written."""
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
        """Record a result; that of a step is found again by this attempt too.

        One that cannot be stored is remembered as such.
        """
        values = self._pickled(task, output, changes)
        entry = self._entry(key, task, started_at)
        entry.same_as = self._compare_with_former(key, within, values)
        if values is not None:
            entry.output, entry.changes = values
        entry = self._bounded(entry)
        if within is not None:
            self._remember(entry)
        self._append(entry)

    def forget_steps(self, key: str) -> None:
        """The task has finished: its steps will not be asked for again."""
        for step in [known for known in list(self._entries) if known.startswith(f"{key}|")]:
            del self._entries[step]

    def failed(
        self, key: str, task: str, started_at: float, error: str, changes: Changes = _NO_CHANGES
    ) -> None:
        """Record that the task failed for good and its flow goes on without it, but with what it changed."""
        self._compare_with_former(key, None, None)
        entry = self._entry(key, task, started_at)
        values = self._pickled(task, None, changes)
        if values is not None:
            entry.error, entry.changes = error, values[1]
        self._append(self._bounded(entry))

    def is_executed_again(self, task: str, why: str) -> None:
        """A task that had finished; whoever reads its record or the run's log should know."""
        self.executed_again[task] = why
        self._note(task, f"task {task} is executed again: {why}")

    def _is_executed_again(self, task: str, why: str, within: str | None) -> None:
        if within is None:
            self.is_executed_again(task, why)
        else:
            self._note(task, f"a step of task {task} is executed again: {why}")

    def _remember(self, entry: JournalEntry) -> None:
        self._entries[entry.key] = entry
        # With the same result it is where it was, before all that was computed from it.
        if not entry.same_as or entry.key not in self._order:
            self._order[entry.key] = next(self._places)

    def _pickled(self, task: str, output: Any, changes: Changes) -> tuple[bytes, bytes] | None:
        """Both as they are stored; None when they cannot be, and why is remembered."""
        try:
            stored = pickle.dumps(output, protocol=5)
            return stored, b"" if changes == _NO_CHANGES else pickle.dumps(changes, protocol=5)
        except Exception as error:  # noqa: BLE001 - pickling runs the user's code
            self.not_stored[task] = (
                f"its result cannot be stored: {type(error).__name__}: {message_of(error)}"
            )
            return None

    def _bounded(self, entry: JournalEntry) -> JournalEntry:
        """The entry; with a reason instead of a value where there is none, or one that is too large."""
        if not entry.has_value:
            return entry.without_value(self.not_stored[entry.task])
        size = len(entry.output) + len(entry.changes)
        if size <= self._max_value_bytes:
            return entry
        limit = f"PYOCO_JOURNAL_VALUE_MAX_BYTES={self._max_value_bytes}"
        why = self.not_stored[entry.task] = f"its result takes {size} bytes, {limit}"
        return entry.without_value(why, value_digest(entry.output, entry.changes))

    def _compare_with_former(self, key: str, within: str | None, values: tuple[bytes, bytes] | None) -> int:
        """The place of the former result, if this is the same; what follows another one is void."""
        former = self._entries.get(key)
        if former is None or not former.digest:
            # Never executed before, or nobody can say what its result was.
            return 0
        if values is not None and value_digest(*values) == former.digest:
            return former.place
        why = f"{former.task}, which comes before it, was executed again with another result"
        self._void_what_follows(former, within, why)
        return 0

    def _void_what_follows(self, entry: JournalEntry, within: str | None, why: str) -> None:
        """Also for the attempts after this one, which may find a usable entry before what follows."""
        for each in self._what_follows(entry, within):
            void = replace(each.without_value(why), attempt=self._attempt)
            self._entries[each.key] = void
            self._append(void)

    def _what_follows(self, entry: JournalEntry, within: str | None) -> list[JournalEntry]:
        known = [each for each in list(self._entries.values()) if each.has_value]
        behind = self._order[entry.key]
        if within is not None:
            steps = [each for each in known if each.key.startswith(f"{within}|")]
            return [each for each in steps if self._order[each.key] > behind]
        unused = [each for each in known if each.key not in self._used]
        followers = self._shape.followers(entry.task)
        if followers is None:
            return [each for each in unused if self._order[each.key] > behind]
        return [each for each in unused if each.task in followers]

    def _append(self, entry: JournalEntry) -> None:
        # Under one lock: a worker that has heard of a number has heard of all before it.
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
    """The result in an entry, which is None for a task that failed, and what else the task changed."""
    try:
        changes: Changes = pickle.loads(entry.changes) if entry.changes else _NO_CHANGES  # noqa: S301
        output = None if entry.error is not None else pickle.loads(entry.output)  # noqa: S301 - see above
        return output, changes
    except Exception as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
