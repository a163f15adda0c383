"""A filter's conditions in SQL; `RunFilter.matches` is the same in Python."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyoco_server.records.runs.causes import CauseKind
from pyoco_server.runs.index.index_schema import key_of
from pyoco_server.runs.index.search.run_filter import RunFilter, TimeRange

TRIGRAM: Final = 3
# More trigrams would hardly narrow the result.
_MAX_TRIGRAMS: Final = 12


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


def bounds(column: str, time_range: TimeRange) -> Iterator[Condition]:
    if time_range.before is not None:
        yield Condition(f"{column} < ?", (time_range.before,))
    if time_range.after is not None:
        yield Condition(f"{column} > ?", (time_range.after,))


def in_range(column: str, time_range: TimeRange) -> Iterator[Condition]:
    yield from bounds(column, time_range)
    if time_range.before is not None and time_range.after is None:
        # MISSING is below every time, and in no range.
        yield Condition(f"{column} >= 0")


def group_conditions(run_filter: RunFilter, *, tag: str | None) -> Iterator[Condition]:
    """On rows of `groups`."""
    if run_filter.tenant is not None:
        yield Condition("tenant = ?", (run_filter.tenant,))
    if run_filter.statuses:
        yield among("status", sorted(run_filter.statuses))
    if run_filter.flow is not None:
        yield Condition("flow = ?", (run_filter.flow,))
    if tag is not None:
        yield Condition("tag = ?", (tag,))


def attribute_conditions(run_filter: RunFilter) -> dict[str, Condition]:
    """On rows `r` of `runs`, by the index that finds them."""
    given = {
        "worker": run_filter.worker,
        "origin": run_filter.origin,
        "sha256": run_filter.workflow_yaml_sha256,
    }
    cause = run_filter.cause
    if cause is not None and cause != CauseKind.API:
        given["cause_id" if ":" in cause else "cause"] = cause
    return {
        f"by_{name}": Condition(f"r.{name} = ?", (value,))
        for name, value in given.items()
        if value is not None
    }


def unindexed_conditions(run_filter: RunFilter) -> Iterator[Condition]:
    """On rows `r` of `runs`: what most of them fulfil."""
    if run_filter.cause == CauseKind.API:
        yield Condition("r.cause IS NULL")


def text_condition(needle: str) -> Condition:
    """On rows `r` of `runs`."""
    return Condition("instr((SELECT text FROM docs WHERE docs.doc = r.doc), ?) > 0", (needle,))


def id_condition(run_filter: RunFilter) -> Condition | None:
    """On rows of `runs`; None when the text is not the start of an id."""
    if run_filter.id_range is None:
        return None
    return Condition("run_id BETWEEN ? AND ?", tuple(map(key_of, run_filter.id_range)))


def search_condition(run_filter: RunFilter) -> Iterator[Condition]:
    """On rows `r` of `runs`: the text is in the run, or starts its id."""
    if run_filter.needle is None:
        return
    text, by_id = text_condition(run_filter.needle), id_condition(run_filter)
    yield text if by_id is None else Condition(f"(r.{by_id.sql} OR {text.sql})", by_id.values + text.values)


def trigram_condition(run_filter: RunFilter) -> Condition | None:
    """On rows of `words`, for all candidates; None when the full-text index does not help."""
    needle = run_filter.needle
    if needle is None or len(needle) < TRIGRAM:
        return None
    # Every second one, and the last: each costs time, and those in between would exclude little more.
    starts = [*range(0, len(needle) - TRIGRAM, 2), len(needle) - TRIGRAM]
    trigrams = dict.fromkeys(needle[at : at + TRIGRAM] for at in starts)
    quoted = ('"' + trigram.replace('"', '""') + '"' for trigram in list(trigrams)[:_MAX_TRIGRAMS])
    return Condition("words MATCH ?", (" AND ".join(quoted),))
