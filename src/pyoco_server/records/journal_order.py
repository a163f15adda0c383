"""Which entries of a journal are valid, and in which order their tasks finished.

The order in the stream shows neither. A lost publish is stored behind later ones, and an attempt that was
replaced may store entries after its successor has read the journal. So the executors count the entries of a
run, and each entry names the last one that its attempt began with (its base), like the terms and indexes of a
replicated log. An attempt continues exactly the entries up to its base: whatever an earlier attempt stored
with a higher number is void. Behind a missing number nothing is valid, since it may have been computed from
what is missing.

Entries without a number come from an earlier version. They count in the order of the stream, and of several
with one key the latest attempt's does.
"""

import math
from collections.abc import Iterable, Sequence

from pyoco_server.records.models import JournalEntry


def last_number(entries: Iterable[JournalEntry]) -> int:
    """The number that an attempt which begins with these entries goes on counting from."""
    return max((entry.number for entry in entries), default=0)


def valid_entries(stored: Sequence[JournalEntry]) -> list[JournalEntry]:
    """The entry of each key that counts, in the order of finishing, from all in the order of the stream."""
    newest: dict[str, JournalEntry] = {}
    highest = 0
    for entry in _without_gap(_continued(stored)):
        # One without a number has its place behind what was stored before it.
        highest = max(highest, entry.number)
        entry.number = entry.number or highest
        known = newest.get(entry.key)
        if known is None or (known.attempt, known.number) <= (entry.attempt, entry.number):
            newest[entry.key] = entry
    return sorted(newest.values(), key=_place)


def _continued(stored: Sequence[JournalEntry]) -> list[JournalEntry]:
    """Without the entries that a later attempt had not read when it began."""
    limits: dict[tuple[int, int], float] = {}
    limit = math.inf
    # An attempt that goes on in another process reads the journal again: it has several bases.
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


def _place(entry: JournalEntry) -> int:
    return entry.place
