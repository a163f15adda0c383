"""A filter's conditions in SQL, one by one; `RunFilter.matches` says the same in Python."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyoco_server.runs.index.run_filter import RunFilter, TimeRange

# The index of words knows every three characters that follow each other.
WORD: Final = 3
# More of them would hardly make the choice smaller.
_WORDS: Final = 12


@dataclass(frozen=True, slots=True)
class Condition:
    sql: str
    values: tuple[Any, ...] = ()


def where(conditions: Iterable[Condition]) -> tuple[str, list[Any]]:
    conditions = list(conditions)
    sql = " AND ".join(condition.sql for condition in conditions) or "true"
    return sql, [value for condition in conditions for value in condition.values]


def among(column: str, values: Sequence[str | int]) -> Condition:
    # As one value, so that the statement stays the same however many there are.
    return Condition(f"{column} IN (SELECT value FROM json_each(?))", (json.dumps(values),))


def bounds(column: str, wanted: TimeRange) -> Iterator[Condition]:
    if wanted.before is not None:
        yield Condition(f"{column} < ?", (wanted.before,))
    if wanted.after is not None:
        yield Condition(f"{column} > ?", (wanted.after,))


def in_range(column: str, wanted: TimeRange) -> Iterator[Condition]:
    yield from bounds(column, wanted)
    if wanted.before is not None and wanted.after is None:
        # MISSING is smaller than every time, and yet in no range.
        yield Condition(f"{column} >= 0")


def of_groups(wanted: RunFilter, *, tag: str | None) -> Iterator[Condition]:
    """Of rows of `groups`."""
    if wanted.tenant is not None:
        yield Condition("tenant = ?", (wanted.tenant,))
    if wanted.statuses:
        yield among("status", sorted(wanted.statuses))
    if wanted.flow is not None:
        yield Condition("flow = ?", (wanted.flow,))
    if tag is not None:
        yield Condition("tag = ?", (tag,))


def of_attributes(wanted: RunFilter) -> dict[str, Condition]:
    """Of rows `r` of `runs`, by the index that finds them."""
    given = {"worker": wanted.worker, "origin": wanted.origin, "sha256": wanted.workflow_yaml_sha256}
    return {
        f"by_{name}": Condition(f"r.{name} = ?", (value,))
        for name, value in given.items()
        if value is not None
    }


def of_text(needle: str) -> Condition:
    """Of rows `r` of `runs`."""
    return Condition("instr((SELECT text FROM docs WHERE docs.doc = r.doc), ?) > 0", (needle,))


def of_words(wanted: RunFilter) -> Condition | None:
    """Of rows of `words`, for all that may be wanted; None when the index of words does not help."""
    if wanted.needle is None or len(wanted.needle) < WORD:
        return None
    needle = wanted.needle
    # Every second one, and the last: each costs time, and those between them would exclude little more.
    begins = [*range(0, len(needle) - WORD, 2), len(needle) - WORD]
    words = dict.fromkeys(needle[at : at + WORD] for at in begins)
    quoted = ('"' + word.replace('"', '""') + '"' for word in list(words)[:_WORDS])
    return Condition("words MATCH ?", (" AND ".join(quoted),))
