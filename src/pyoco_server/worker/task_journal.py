"""The journal as an executor sees it: what earlier attempts finished, and what this one adds.

Values are pickled: a resumed flow must get back what its tasks returned, not what JSON would make of it.
Only workers write journals; who may write there may run code on workers, as who may submit a flow.yaml.
"""

import pickle
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from pyoco_server.models import JournalEntry
from pyoco_server.worker.context_changes import Changes
from pyoco_server.worker.values import message_of

_NO_CHANGES: Changes = ({}, [])


class Unreadable(Exception):
    """A journalled value cannot be had back, for example because its class is gone from the code."""


class TaskJournal:
    def __init__(
        self,
        entries: Sequence[JournalEntry],
        *,
        base: int,
        attempt: int,
        write: Callable[[JournalEntry], None],
        max_value_bytes: int,
    ) -> None:
        self._entries: dict[str, JournalEntry] = {}
        self._order: dict[str, int] = {}
        for place, entry in enumerate(sorted(entries, key=lambda each: each.number)):
            self._entries[entry.key] = entry
            self._order[entry.key] = place
        # The number of the last entry that this attempt begins with.
        self._base = self._last_number = base
        self._numbering = threading.Lock()
        self._attempt = attempt
        self._write = write
        self._max_value_bytes = max_value_bytes
        self._counting = threading.Lock()
        self._counts: dict[str, int] = {}
        # Tasks whose results could not be stored, and why: they run again when the run is resumed.
        self.not_stored: dict[str, str] = {}
        # Tasks that were not executed by this attempt, with what an earlier one recorded of them.
        self.replayed: dict[str, JournalEntry] = {}

    def next_key(self, place: str) -> str:
        """The key of the next execution at this place of the flow: it counts how often that was."""
        with self._counting:
            occurrence = self._counts.get(place, 0)
            self._counts[place] = occurrence + 1
            return f"{place}|{occurrence}"

    def find(self, key: str) -> JournalEntry | None:
        """What is known of this execution; an entry of the run that this one repeats becomes its own."""
        entry = self._entries.get(key)
        if entry is not None and not entry.attempt:
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
        keep: bool = False,
    ) -> None:
        """Record a result, to be found again by this attempt too if it is to be kept.

        One that cannot be stored is remembered as such.
        """
        values = self._pickled(task, output, changes)
        if values is None:
            return
        entry = self._entry(key, task, started_at, output=values[0], changes=values[1])
        if keep:
            self._entries[key] = entry
        self._append(entry)

    def _pickled(self, task: str, output: Any, changes: Changes) -> tuple[bytes, bytes] | None:
        """Both as they are stored; None when they cannot be, and why is remembered."""
        try:
            stored = pickle.dumps(output, protocol=5)
            stored_changes = b"" if changes == _NO_CHANGES else pickle.dumps(changes, protocol=5)
        except Exception as error:  # noqa: BLE001 - pickling runs the user's code
            self.not_stored[task] = (
                f"its result cannot be stored: {type(error).__name__}: {message_of(error)}"
            )
            return None
        size = len(stored) + len(stored_changes)
        if size > self._max_value_bytes:
            limit = f"PYOCO_JOURNAL_VALUE_MAX_BYTES={self._max_value_bytes}"
            self.not_stored[task] = f"its result takes {size} bytes, {limit}"
            return None
        return stored, stored_changes

    def forget_steps(self, key: str) -> None:
        """The task has finished: its steps will not be asked for again."""
        for step in [known for known in self._entries if known.startswith(f"{key}|")]:
            del self._entries[step]

    def failed(
        self, key: str, task: str, started_at: float, error: str, changes: Changes = _NO_CHANGES
    ) -> None:
        """Record that the task failed for good and its flow goes on without it, but with what it changed."""
        values = self._pickled(task, None, changes)
        if values is not None:
            self._append(self._entry(key, task, started_at, error=error, changes=values[1]))

    def _append(self, entry: JournalEntry) -> None:
        # Under one lock: a worker that has heard of a number has heard of all before it.
        with self._numbering:
            self._last_number += 1
            entry.number, entry.base = self._last_number, self._base
            self._write(entry)

    def _entry(self, key: str, task: str, started_at: float, **what: Any) -> JournalEntry:
        return JournalEntry(
            key=key, task=task, attempt=self._attempt, started_at=started_at, ended_at=time.time(), **what
        )


def output_of(entry: JournalEntry) -> tuple[Any, Changes]:
    """The result in an entry, which is None for a task that failed, and what else the task changed."""
    try:
        changes: Changes = pickle.loads(entry.changes) if entry.changes else _NO_CHANGES  # noqa: S301
        output = None if entry.error is not None else pickle.loads(entry.output)  # noqa: S301 - see above
        return output, changes
    except Exception as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
