"""Finding runs: a filter and an order, turned into reads that touch little more than what is found."""

import heapq
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from functools import cached_property
from itertools import chain, islice
from typing import Any, Final

from pyoco_server.runs.index import conditions
from pyoco_server.runs.index.conditions import Condition, bounds, in_range, where
from pyoco_server.runs.index.group_selection import Choice, Group, choice_of, groups_of, runs_in
from pyoco_server.runs.index.run_filter import RunFilter
from pyoco_server.runs.index.sorting import Place, Sort, SortField
from pyoco_server.runs.index.sources import Source, Sources

# Reading from so many places at once begins to take time by itself.
_MANY_SOURCES: Final = 8
# How much further than a page should be, if runs were spread evenly.
_AHEAD: Final = 3
# So many runs are passed over within a millisecond.
_FAR: Final = 50_000
# So many texts are looked through within a few.
_FAR_FOR_TEXT: Final = 8000


class Search:
    """One question to the index. All of it has to happen in one transaction, so that it sees one state."""

    def __init__(self, db: sqlite3.Connection, wanted: RunFilter, sort: Sort | None = None) -> None:
        self._db = db
        self._wanted = wanted
        self._sort = sort or Sort()
        self._time = self._sort.field.time

    def page(self, limit: int, after: Place | None = None) -> list[Place]:
        """The next runs in the order wanted."""
        by_name = self._sort.field.group_column
        if by_name is None:
            return self._places(self._choice, limit, after)
        return self._name_by_name(by_name, limit, after)

    def count(self, at_most: int) -> int:
        """How many there are; beyond `at_most` they are only counted where that costs nothing."""
        choice = self._choice
        if self.counts_freely:
            return runs_in(self._all_groups if choice.own is None else choice.own)
        found = 0
        for source in self._sources.countable(choice):
            sql, values = self._select("1", source)
            [(more,)] = self._db.execute(f"SELECT count(*) FROM ({sql} LIMIT ?)", [*values, at_most - found])
            found += more
            if found >= at_most:
                break
        return found

    def counts(self) -> dict[tuple[str, str, str], int]:
        """How many there are by flow, tag and status; for what groups alone can tell."""
        sql, values = where([Condition("runs > 0"), *conditions.of_groups(self._wanted, tag=None)])
        rows = self._db.execute(
            f"SELECT flow, tag, status, sum(runs) FROM groups WHERE {sql} GROUP BY flow, tag, status", values
        )
        return {(flow, tag, status): runs for flow, tag, status, runs in rows}

    @property
    def counts_freely(self) -> bool:
        """Whether the groups know how many there are."""
        return not (self._beside_groups or self._choice.labelled)

    # What is wanted

    @cached_property
    def _choice(self) -> Choice:
        return choice_of(self._db, self._wanted)

    @cached_property
    def _sources(self) -> Sources:
        return Sources(self._db, self._wanted, self._choice, self._sort)

    @cached_property
    def _all_groups(self) -> list[Group]:
        return groups_of(self._db, self._wanted)

    @cached_property
    def _beside_groups(self) -> list[Condition]:
        """All that is wanted of a run beside its group."""
        wanted = self._wanted
        return [
            *in_range("r.updated_at", wanted.updated),
            *in_range("r.submitted_at", wanted.submitted),
            *self._implied_bounds,
            *conditions.of_attributes(wanted).values(),
            *([] if wanted.needle is None else [conditions.of_text(wanted.needle)]),
        ]

    @property
    def _implied_bounds(self) -> Iterator[Condition]:
        """What a range of one time means for the other: reading begins and ends where it may match."""
        [(least, most)] = self._db.execute("SELECT least_sec, most_sec FROM held")
        if self._wanted.updated and self._time == SortField.SUBMITTED_AT:
            yield from bounds("r.submitted_at", self._wanted.updated.widened(-most, -least))
        if self._wanted.submitted and self._time == SortField.UPDATED_AT:
            yield from bounds("r.updated_at", self._wanted.submitted.widened(least, most))

    @property
    def _bounds(self) -> list[Condition]:
        """Where in the order wanted the runs are that may match."""
        own = {SortField.UPDATED_AT: self._wanted.updated, SortField.SUBMITTED_AT: self._wanted.submitted}
        within = [in_range(f"r.{time}", wanted) for time, wanted in own.items() if time == self._time]
        return [*chain.from_iterable(within), *self._implied_bounds]

    # Reading

    def _places(self, choice: Choice, limit: int, after: Place | None, name: str = "") -> list[Place]:
        far = self._expected_within(choice, limit)
        found = None if far is None else self._look_ahead(choice, far, limit, after, name)
        return self._merged(self._sources.of(choice), limit, after, name) if found is None else found

    def _expected_within(self, choice: Choice, limit: int) -> int | None:
        """Among how many of the next runs, whatever they are, a page can be expected; None: not in reach."""
        if choice.own is None:
            return _FAR_FOR_TEXT if self._sources.text_is_frequent else None
        if len(self._sources.of(choice)) <= _MANY_SOURCES:
            return None
        [(all_runs,)] = self._db.execute("SELECT total(runs) FROM groups")
        far = int(_AHEAD * limit * all_runs) // max(1, choice.runs)
        return far if far <= _FAR else None

    def _look_ahead(
        self, choice: Choice, far: int, limit: int, after: Place | None, name: str
    ) -> list[Place] | None:
        """The page, if it is among so many of the next runs; their last time comes from one index alone.

        Up to there little is read of each group, so that all of them are read in one go.
        """
        begin, values = where([*self._bounds, *self._beyond("r", after)])
        rows = f"runs r INDEXED BY by_{self._time} WHERE {begin} {self._sort.clause('r')}"
        last = self._db.execute(
            f"SELECT r.{self._time} FROM {rows} LIMIT 1 OFFSET ?", [*values, far]
        ).fetchone()
        sources = self._sources.in_one_go(choice)
        if last is None:
            return self._merged(sources, limit, after, name)
        sources = [source.where(self._not_beyond(source.ordered, last[0])) for source in sources]
        found = self._merged(sources, limit, after, name)
        return found if len(found) == limit else None

    def _merged(self, sources: list[Source], limit: int, after: Place | None, name: str) -> list[Place]:
        """The first of all these sources; no more is read of each than is needed to know them."""
        with ExitStack() as reading:
            places = [
                reading.enter_context(closing(self._read(source, limit, after, name))) for source in sources
            ]
            return list(islice(heapq.merge(*places, reverse=self._sort.descending), limit))

    def _read(self, source: Source, limit: int, after: Place | None, name: str) -> Generator[Place]:
        table = source.ordered
        columns = f"{table}.{self._time}, {table}.revision"
        sql, values = self._select(columns, source, *self._beyond(table, after))
        with closing(self._db.execute(f"{sql} {self._sort.clause(table)} LIMIT ?", [*values, limit])) as rows:
            for at, revision in rows:
                yield Place(name, at, revision)

    def _beyond(self, table: str, after: Place | None) -> Iterator[Condition]:
        if after is not None:
            time, beyond = f"{table}.{self._time}", self._sort.beyond
            # The first says where in the index to begin; the second, where exactly.
            yield Condition(f"{time} {beyond}= ?", (after.time,))
            yield Condition(f"({time}, {table}.revision) {beyond} (?, ?)", (after.time, after.revision))

    def _not_beyond(self, table: str, time: float) -> Condition:
        until = ">=" if self._sort.descending else "<="
        return Condition(f"{table}.{self._time} {until} ?", (time,))

    def _name_by_name(self, column: str, limit: int, after: Place | None) -> list[Place]:
        """Runs by flow name or status: all of the first name, then all of the next."""
        choice = Choice(self._all_groups) if self._choice.own is None else self._choice
        names = {getattr(group, column) for group in [*(choice.own or []), *choice.labelled]}
        page: list[Place] = []
        for name in sorted(names, reverse=self._sort.descending):
            if after is not None and (name > after.name if self._sort.descending else name < after.name):
                continue
            begin = after if after is not None and after.name == name else None
            page += self._places(choice.named(column, name), limit - len(page), begin, name)
            if len(page) == limit:
                break
        return page

    def _select(self, columns: str, source: Source, *more: Condition) -> tuple[str, list[Any]]:
        sql, values = where([*source.conditions, *self._beside_groups, *more])
        return f"SELECT {columns} FROM {source.rows} WHERE {sql}", values
