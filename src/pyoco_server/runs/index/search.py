"""Finding runs: a filter and an order, turned into reads that touch little more than what is found.

Where one filter makes the choice small (a rare word, an old worker, a quiet hour), all of that is taken and
sorted. Else the runs are read in the order wanted, group by group if groups are wanted, until a page is full.
Which of the two it is, is found out by counting no further than `_FEW`.
"""

import heapq
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any, Final

from pyoco_server.runs.index import conditions
from pyoco_server.runs.index.conditions import Condition, among, bounds, in_range, where
from pyoco_server.runs.index.sorting import Place, Sort, SortField
from pyoco_server.runs.run_filter import RunFilter

# So many rows are sorted within a few milliseconds.
_FEW: Final = 4000
# So many texts are looked through in little more; a group in which nothing is found is read to its end.
_SOME: Final = 8000
# So many groups are read one by one within a few milliseconds.
_SEVERAL_GROUPS: Final = 200
# Reading from so many places at once begins to take time by itself.
_MANY_SOURCES: Final = 8
# How much further than a page should be, if runs were spread evenly.
_AHEAD: Final = 3


@dataclass(frozen=True, slots=True)
class Group:
    id: int
    flow: str
    status: str
    runs: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Which groups are wanted."""

    # None: all of them.
    own: list[Group] | None
    # Of these, the runs that have the wanted tag as one of their other tags.
    labelled: list[Group] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of `runs` by one way to them."""

    rows: str
    conditions: tuple[Condition, ...] = ()
    # The table whose order the rows come in.
    ordered: str = "r"

    def where(self, *conditions: Condition) -> "Source":
        return replace(self, conditions=(*self.conditions, *conditions))


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
            return sum(group.runs for group in (self._groups() if choice.own is None else choice.own))
        found = 0
        for source in self._countable_sources(choice):
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
        wanted = self._wanted
        if not wanted.statuses and wanted.tenant is wanted.flow is wanted.tag is None:
            return Choice(None)
        has_labels = wanted.tag is not None and self._exists(
            "SELECT 1 FROM labels WHERE label = ? LIMIT 1", wanted.tag
        )
        return Choice(self._groups(tag=wanted.tag), self._groups() if has_labels else [])

    def _groups(self, *, tag: str | None = None) -> list[Group]:
        sql, values = where([Condition("runs > 0"), *conditions.of_groups(self._wanted, tag=tag)])
        rows = self._db.execute(f"SELECT id, flow, status, runs FROM groups WHERE {sql}", values)
        return [Group(*row) for row in rows]

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

    # Where it is read

    def _sources(self, choice: Choice) -> list[Source]:
        """Sources that together have each run of the choice once, and perhaps runs that are not wanted."""
        if few := self._few:
            return [few.where(*self._is_in(choice))]
        if choice.own is None:
            return [Source(self._attribute_walk) if self._attribute_walk else self._walk]
        if self._attribute_walk and _runs_in(choice.own + choice.labelled) > _FEW:
            return [Source(self._attribute_walk, tuple(self._is_in(choice)))]
        if choice is self._choice and self._wants_whole_tenant:
            return [self._walk]
        return [*self._group_sources(choice.own), *self._label_sources(choice.labelled)]

    def _countable_sources(self, choice: Choice) -> list[Source]:
        """The same when the order does not matter."""
        if choice.own is not None and self._wanted.needle is not None and not self._few:
            return [
                Source(f"runs r INDEXED BY grouped_by_{self._time}", (_in_groups(choice.own),)),
                *self._label_sources(choice.labelled),
            ]
        return self._sources(choice)

    def _group_sources(self, groups: list[Group]) -> Iterator[Source]:
        rows = f"runs r INDEXED BY grouped_by_{self._time}"
        runs = _runs_in(groups)
        if runs <= _FEW:
            yield Source(rows, (_in_groups(groups),))
        elif len(groups) <= _SEVERAL_GROUPS and (self._wanted.needle is None or runs <= _SOME):
            for group in groups:
                yield Source(rows, (Condition("r.grp = ?", (group.id,)),))
        else:
            yield self._walk.where(_in_groups(groups))

    def _label_sources(self, groups: list[Group]) -> Iterator[Source]:
        if not groups:
            return
        label = Condition("l.label = ?", (self._wanted.tag,))
        few = self._is_few("labels l", label)
        if few or self._time == SortField.UPDATED_AT:
            rows = "labels l CROSS JOIN runs r ON r.revision = l.revision"
            yield Source(rows, (label, _in_groups(groups)), ordered="r" if few else "l")
        else:
            yield self._walk.where(self._has_label, _in_groups(groups))

    @cached_property
    def _few(self) -> Source | None:
        """All that one of the filters leaves, if that is not much."""
        wanted = self._wanted
        words = conditions.of_words(wanted)
        if words is not None:
            docs = self._db.execute(
                f"SELECT rowid FROM words WHERE {words.sql} LIMIT {_FEW + 1}", words.values
            )
            found = [doc for (doc,) in docs]
            if len(found) <= _FEW:
                return Source("runs r INDEXED BY by_doc", (among("r.doc", found),))
        for index, condition in conditions.of_attributes(wanted).items():
            if self._is_few(f"runs r INDEXED BY {index}", condition):
                return Source(f"runs r INDEXED BY {index}")
        if self._is_few_of_worker():
            return Source("runs r INDEXED BY by_worker_and_group")
        for time, time_range in (("updated_at", wanted.updated), ("submitted_at", wanted.submitted)):
            within = list(in_range(f"r.{time}", time_range))
            if within and time != self._time and self._is_few(f"runs r INDEXED BY by_{time}", *within):
                return Source(f"runs r INDEXED BY by_{time}")
        return None

    def _is_few_of_worker(self) -> bool:
        """Whether a worker has had little of the wanted groups, though both are much."""
        worker = conditions.of_attributes(self._wanted).get("by_worker")
        if worker is None or self._choice.own is None or self._choice.labelled:
            return False
        rows = "runs r INDEXED BY by_worker_and_group"
        return self._is_few(rows, worker, _in_groups(self._choice.own))

    @property
    def _walk(self) -> Source:
        """All runs that may be wanted, in the order wanted."""
        if self._wanted.tenant is None or self._time != SortField.UPDATED_AT:
            return Source(f"runs r INDEXED BY by_{self._time}")
        # However much the others have written since.
        return Source("runs r INDEXED BY by_tenant", (Condition("r.tenant = ?", (self._wanted.tenant,)),))

    @property
    def _wants_whole_tenant(self) -> bool:
        """Whether the wanted groups are all that a tenant has, and there is a way along just these."""
        wanted = self._wanted
        return (
            self._time == SortField.UPDATED_AT and not wanted.statuses and wanted.flow is wanted.tag is None
        )

    @cached_property
    def _attribute_walk(self) -> str | None:
        """The rows of a worker, or of what else is wanted, in the order of updates."""
        if self._time != SortField.UPDATED_AT:
            return None
        return next((f"runs r INDEXED BY {index}" for index in conditions.of_attributes(self._wanted)), None)

    def _is_in(self, choice: Choice) -> list[Condition]:
        """Whether a row that was found in another way is one of the choice."""
        if choice.own is None:
            return []
        own = _in_groups(choice.own)
        if not choice.labelled:
            return [own]
        labelled = _in_groups(choice.labelled)
        sql = f"({own.sql} OR {labelled.sql} AND {self._has_label.sql})"
        return [Condition(sql, own.values + labelled.values + self._has_label.values)]

    @property
    def _has_label(self) -> Condition:
        has_label = (
            "EXISTS (SELECT 1 FROM labels l "
            "WHERE l.label = ? AND l.updated_at = r.updated_at AND l.revision = r.revision)"
        )
        return Condition(has_label, (self._wanted.tag,))

    def _is_few(self, rows: str, *wanted: Condition) -> bool:
        sql, values = where(wanted)
        counted = self._db.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {rows} WHERE {sql} LIMIT {_FEW + 1})", values
        )
        return bool(counted.fetchone()[0] <= _FEW)

    def _exists(self, sql: str, *values: object) -> bool:
        return self._db.execute(sql, values).fetchone() is not None

    # Reading

    def _places(self, choice: Choice, limit: int, after: Place | None, name: str = "") -> list[Place]:
        sources = self._sources(choice)
        if len(sources) > _MANY_SOURCES:
            found = self._look_ahead(choice, limit, after, name)
            if len(found) == limit:
                return found
        return self._merged(sources, limit, after, name)

    def _look_ahead(self, choice: Choice, limit: int, after: Place | None, name: str) -> list[Place]:
        """Look at the next runs, whatever they are, as far as a page can be expected among them.

        That is cheaper than many sources where a good part of all runs is wanted.
        """
        [(all_runs,)] = self._db.execute("SELECT total(runs) FROM groups")
        far = int(_AHEAD * limit * all_runs) // max(1, _runs_in((choice.own or []) + choice.labelled))
        if far > _FEW:
            return []
        begin, begin_values = where([*self._bounds, *self._beyond("r", after)])
        rows = f"runs r INDEXED BY by_{self._time} WHERE {begin} {self._order('r')} LIMIT {far}"
        wanted, values = where([*self._is_in(choice), *self._beside_groups])
        found = self._db.execute(
            f"SELECT r.{self._time}, r.revision FROM (SELECT * FROM {rows}) r WHERE {wanted}",
            [*begin_values, *values],
        )
        places = sorted((Place(name, *row) for row in found), reverse=self._sort.descending)
        return places[:limit]

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
        with closing(self._db.execute(f"{sql} {self._order(table)} LIMIT ?", [*values, limit])) as rows:
            for at, revision in rows:
                yield Place(name, at, revision)

    def _order(self, table: str) -> str:
        direction = self._sort.direction
        return f"ORDER BY {table}.{self._time} {direction}, {table}.revision {direction}"

    def _beyond(self, table: str, after: Place | None) -> Iterator[Condition]:
        if after is not None:
            time, beyond = f"{table}.{self._time}", self._sort.beyond
            # The first says where in the index to begin; the second, where exactly.
            yield Condition(f"{time} {beyond}= ?", (after.time,))
            yield Condition(f"({time}, {table}.revision) {beyond} (?, ?)", (after.time, after.revision))

    def _name_by_name(self, column: str, limit: int, after: Place | None) -> list[Place]:
        """Runs by flow name or status: all of the first name, then all of the next."""
        choice = self._choice
        own = self._groups() if choice.own is None else choice.own
        names = {getattr(group, column) for group in own + choice.labelled}
        page: list[Place] = []
        for name in sorted(names, reverse=self._sort.descending):
            if after is not None and (name > after.name if self._sort.descending else name < after.name):
                continue
            of_name = Choice(
                [group for group in own if getattr(group, column) == name],
                [group for group in choice.labelled if getattr(group, column) == name],
            )
            begin = after if after is not None and after.name == name else None
            page += self._places(of_name, limit - len(page), begin, name)
            if len(page) == limit:
                break
        return page

    def _select(self, columns: str, source: Source, *more: Condition) -> tuple[str, list[Any]]:
        sql, values = where([*source.conditions, *self._beside_groups, *more])
        return f"SELECT {columns} FROM {source.rows} WHERE {sql}", values


def _in_groups(groups: list[Group]) -> Condition:
    return among("r.grp", [group.id for group in groups])


def _runs_in(groups: list[Group]) -> int:
    return sum(group.runs for group in groups)
