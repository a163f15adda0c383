"""Which entries of a journal are valid, and in which order their tasks finished.

The order in the stream shows neither. A publish that was retried is stored after later ones, and a replaced
attempt may store entries after its successor has read the journal. So the executors number the entries of a
run, and each entry names the last one that its attempt began with (its base), like the indexes and terms of a
replicated log. An attempt continues exactly the entries up to its base: an entry of an earlier attempt with a
higher number is void. After a missing number nothing is valid, since it may depend on what is missing.

Entries without a number are from an earlier version. They are valid in the order of the stream, and of
several with one key the latest attempt's is.
"""

import math
from collections.abc import Iterable, Sequence

from pyoco_server.records.runs.journal_models import JournalEntry


def last_number(entries: Iterable[JournalEntry]) -> int:
    """The base of an attempt that begins with these entries."""
    return max((entry.number for entry in entries), default=0)


def valid_entries(stored: Sequence[JournalEntry]) -> list[JournalEntry]:
    """The valid entry of each key in the order of finishing, of all entries in the order of the stream."""
    newest: dict[str, JournalEntry] = {}
    highest = 0
    for entry in _without_gap(_continued(stored)):
        # One without a number comes after what was stored before it.
        highest = max(highest, entry.number)
        entry.number = entry.number or highest
        known = newest.get(entry.key)
        if known is None or (known.attempt, known.number) <= (entry.attempt, entry.number):
            newest[entry.key] = entry
    return sorted(newest.values(), key=lambda entry: entry.place)


def _continued(stored: Sequence[JournalEntry]) -> list[JournalEntry]:
    """Without the entries that a later attempt had not read at its start."""
    limits: dict[tuple[int, int], float] = {}
    limit = math.inf
    # An attempt that continues in another process reads the journal again: it has several bases.
    for attempt, base in sorted(
        {(entry.attempt, entry.base) for entry in stored if entry.number}, reverse=True
    ):
        limits[attempt, base] = limit
        limit = min(limit, base)
    return [
        entry for entry in stored if not entry.number or entry.number <= limits[entry.attempt, entry.base]
    ]


def _without_gap(entries: list[JournalEntry]) -> list[JournalEntry]:
    numbers = {entry.number for entry in entries}
    last = 0
    while last + 1 in numbers:
        last += 1
    return [entry for entry in entries if entry.number <= last]
