"""Searching runs: a filter and an order, turned into reads that touch little more than the result."""

import heapq
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from functools import cached_property
from itertools import chain, islice
from typing import Any, Final

from pyoco_server.runs.index.pagination import Sort, SortField, SortKey
from pyoco_server.runs.index.search.filter_sql import (
    Condition,
    attribute_conditions,
    bounds,
    group_conditions,
    in_range,
    search_condition,
    unindexed_conditions,
    where,
)
from pyoco_server.runs.index.search.query_plan import (
    Group,
    GroupSelection,
    RowSource,
    Sources,
    groups_of,
    runs_in,
    select_groups,
)
from pyoco_server.runs.index.search.run_filter import RunFilter

# With more sources than this, merging takes noticeable time.
_MANY_SOURCES: Final = 8
# How much further than an even distribution suggests a page is expected.
_LOOK_AHEAD: Final = 3
# This many runs are skipped within a millisecond.
_FAR: Final = 50_000
# This many texts are searched within a few.
_FAR_FOR_TEXT: Final = 8000


class Search:
    """One query of the index; all of it runs in one transaction."""

    def __init__(self, db: sqlite3.Connection, run_filter: RunFilter, sort: Sort | None = None) -> None:
        self._db = db
        self._filter = run_filter
        self._sort = sort or Sort()
        self._time = self._sort.field.time

    def page(self, limit: int, after: SortKey | None = None) -> list[SortKey]:
        column = self._sort.field.group_column
        if column is None:
            return self._keys(self._selection, limit, after)
        return self._name_by_name(column, limit, after)

    def count(self, at_most: int) -> int:
        """How many match; beyond `at_most` they are only counted where that costs nothing."""
        selection = self._selection
        if self.counts_freely:
            return runs_in(self._all_groups if selection.groups is None else selection.groups)
        found = 0
        for source in self._sources.countable(selection):
            sql, values = self._select("1", source)
            [(more,)] = self._db.execute(f"SELECT count(*) FROM ({sql} LIMIT ?)", [*values, at_most - found])
            found += more
            if found >= at_most:
                break
        return found

    def counts(self) -> dict[tuple[str, str, str], int]:
        """How many match by flow, tag and status; for a filter by group alone."""
        sql, values = where([Condition("runs > 0"), *group_conditions(self._filter, tag=None)])
        rows = self._db.execute(
            f"SELECT flow, tag, status, sum(runs) FROM groups WHERE {sql} GROUP BY flow, tag, status", values
        )
        return {(flow, tag, status): runs for flow, tag, status, runs in rows}

    @property
    def counts_freely(self) -> bool:
        """Whether the counts of the groups are enough."""
        return not (self._run_conditions or self._selection.labelled)

    @cached_property
    def _selection(self) -> GroupSelection:
        return select_groups(self._db, self._filter)

    @cached_property
    def _sources(self) -> Sources:
        return Sources(self._db, self._filter, self._selection, self._sort)

    @cached_property
    def _all_groups(self) -> list[Group]:
        return groups_of(self._db, self._filter)

    @cached_property
    def _run_conditions(self) -> list[Condition]:
        """All conditions on a run other than its group."""
        run_filter = self._filter
        return [
            *in_range("r.updated_at", run_filter.updated),
            *in_range("r.submitted_at", run_filter.submitted),
            *self._implied_bounds,
            *attribute_conditions(run_filter).values(),
            *unindexed_conditions(run_filter),
            *search_condition(run_filter),
        ]

    @property
    def _implied_bounds(self) -> Iterator[Condition]:
        """What a range of one time means for the time that is sorted by: reading starts and ends there."""
        [(least, most)] = self._db.execute("SELECT least_sec, most_sec FROM held")
        if self._filter.updated and self._time == SortField.SUBMITTED_AT:
            yield from bounds("r.submitted_at", self._filter.updated.widened(-most, -least))
        if self._filter.submitted and self._time == SortField.UPDATED_AT:
            yield from bounds("r.updated_at", self._filter.submitted.widened(least, most))

    @property
    def _bounds(self) -> list[Condition]:
        """The part of the sort order that may match."""
        own = {SortField.UPDATED_AT: self._filter.updated, SortField.SUBMITTED_AT: self._filter.submitted}
        within = [in_range(f"r.{time}", limits) for time, limits in own.items() if time == self._time]
        return [*chain.from_iterable(within), *self._implied_bounds]

    def _keys(
        self, selection: GroupSelection, limit: int, after: SortKey | None, name: str = ""
    ) -> list[SortKey]:
        far = self._expected_within(selection, limit)
        found = None if far is None else self._look_ahead(selection, far, limit, after, name)
        return self._merged(self._sources.of(selection), limit, after, name) if found is None else found

    def _expected_within(self, selection: GroupSelection, limit: int) -> int | None:
        """Among how many of the next runs, matching or not, a page can be expected; None: too many."""
        if selection.groups is None:
            return _FAR_FOR_TEXT if self._sources.text_is_frequent else None
        if len(self._sources.of(selection)) <= _MANY_SOURCES:
            return None
        [(all_runs,)] = self._db.execute("SELECT total(runs) FROM groups")
        far = int(_LOOK_AHEAD * limit * all_runs) // max(1, selection.max_runs)
        return far if far <= _FAR else None

    def _look_ahead(
        self, selection: GroupSelection, far: int, limit: int, after: SortKey | None, name: str
    ) -> list[SortKey] | None:
        """The page, if it is among that many of the next runs; the time of the last one bounds the read.

        Up to there little is read of each group, so that all groups are read as one source.
        """
        begin, values = where([*self._bounds, *self._beyond("r", after)])
        rows = f"runs r INDEXED BY by_{self._time} WHERE {begin} {self._sort.clause('r')}"
        last = self._db.execute(
            f"SELECT r.{self._time} FROM {rows} LIMIT 1 OFFSET ?", [*values, far]
        ).fetchone()
        sources = self._sources.combined(selection)
        if last is None:
            return self._merged(sources, limit, after, name)
        sources = [source.where(self._not_beyond(source.ordered, last[0])) for source in sources]
        found = self._merged(sources, limit, after, name)
        return found if len(found) == limit else None

    def _merged(
        self, sources: list[RowSource], limit: int, after: SortKey | None, name: str
    ) -> list[SortKey]:
        """The first keys of all sources; no source is read further than needed."""
        with ExitStack() as reading:
            keys = [
                reading.enter_context(closing(self._read(source, limit, after, name))) for source in sources
            ]
            return list(islice(heapq.merge(*keys, reverse=self._sort.descending), limit))

    def _read(self, source: RowSource, limit: int, after: SortKey | None, name: str) -> Generator[SortKey]:
        table = source.ordered
        columns = f"{table}.{self._time}, {table}.revision"
        sql, values = self._select(columns, source, *self._beyond(table, after))
        with closing(self._db.execute(f"{sql} {self._sort.clause(table)} LIMIT ?", [*values, limit])) as rows:
            for at, revision in rows:
                yield SortKey(name, at, revision)

    def _beyond(self, table: str, after: SortKey | None) -> Iterator[Condition]:
        if after is not None:
            time, beyond = f"{table}.{self._time}", self._sort.beyond
            # The first is where SQLite starts in the index; the second is exact.
            yield Condition(f"{time} {beyond}= ?", (after.time,))
            yield Condition(f"({time}, {table}.revision) {beyond} (?, ?)", (after.time, after.revision))

    def _not_beyond(self, table: str, time: float) -> Condition:
        until = ">=" if self._sort.descending else "<="
        return Condition(f"{table}.{self._time} {until} ?", (time,))

    def _name_by_name(self, column: str, limit: int, after: SortKey | None) -> list[SortKey]:
        """Runs by flow name or status: all of the first name, then all of the next."""
        selection = self._selection
        if selection.groups is None:
            selection = GroupSelection(self._all_groups)
        names = {getattr(group, column) for group in [*(selection.groups or []), *selection.labelled]}
        page: list[SortKey] = []
        for name in sorted(names, reverse=self._sort.descending):
            if after is not None and (name > after.name if self._sort.descending else name < after.name):
                continue
            begin = after if after is not None and after.name == name else None
            page += self._keys(selection.narrowed(column, name), limit - len(page), begin, name)
            if len(page) == limit:
                break
        return page

    def _select(self, columns: str, source: RowSource, *more: Condition) -> tuple[str, list[Any]]:
        sql, values = where([*source.conditions, *self._run_conditions, *more])
        return f"SELECT {columns} FROM {source.rows} WHERE {sql}", values
