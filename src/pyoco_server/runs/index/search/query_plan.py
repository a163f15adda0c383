"""Query planning for lists of runs: which rows are read, along which index.

Where one filter leaves few runs (a rare word, a worker, a short time range), all of them are read and sorted.
Otherwise runs are read in sort order, by group if the filter selects groups. Which of the two applies is
found by counting no further than `_FEW`.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

from pyoco_server.runs.index.pagination import Sort, SortField
from pyoco_server.runs.index.search.filter_sql import (
    Condition,
    among,
    attribute_conditions,
    group_conditions,
    id_condition,
    in_range,
    text_condition,
    trigram_condition,
    where,
)
from pyoco_server.runs.index.search.run_filter import RunFilter

# This many rows are sorted within a few milliseconds.
_FEW: Final = 4000
# This many texts are searched in little more; a group without a match is read to its end.
_SOME: Final = 8000
# A text is frequent if this many of the first runs contain it.
_OFTEN: Final = 4
_SAMPLED: Final = 500
# This many groups are read one by one within a few milliseconds.
_SEVERAL_GROUPS: Final = 200


class Group(NamedTuple):
    """Runs of one tenant, flow, tag and status. A tuple, because hundreds are read for one page."""

    id: int
    flow: str
    status: str
    runs: int


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """The groups a filter selects by tenant, flow, tag and status."""

    # None: all of them.
    groups: list[Group] | None
    # Of these, the runs that have the filter's tag as one of their other tags.
    labelled: list[Group] = field(default_factory=list)
    # `labelled` has every group, so that the group of a run need not be checked.
    labelled_anywhere: bool = False

    @property
    def max_runs(self) -> int:
        return runs_in([*(self.groups or []), *self.labelled])

    def narrowed(self, column: str, name: str) -> "GroupSelection":
        """Its groups of one flow or status; not for a selection of all."""
        assert self.groups is not None
        return GroupSelection(
            [group for group in self.groups if getattr(group, column) == name],
            [group for group in self.labelled if getattr(group, column) == name],
        )


def select_groups(db: sqlite3.Connection, run_filter: RunFilter) -> GroupSelection:
    narrowed = bool(run_filter.statuses) or run_filter.tenant is not None or run_filter.flow is not None
    tag = run_filter.tag
    if not narrowed and tag is None:
        return GroupSelection(None)
    groups = groups_of(db, run_filter, tag=tag)
    is_label = "SELECT 1 FROM labels WHERE label = ? LIMIT 1"
    if tag is None or db.execute(is_label, [tag]).fetchone() is None:
        return GroupSelection(groups)
    return GroupSelection(groups, groups_of(db, run_filter), labelled_anywhere=not narrowed)


def groups_of(db: sqlite3.Connection, run_filter: RunFilter, *, tag: str | None = None) -> list[Group]:
    sql, values = where([Condition("runs > 0"), *group_conditions(run_filter, tag=tag)])
    rows = db.execute(f"SELECT id, flow, status, runs FROM groups WHERE {sql}", values)
    return list(map(Group._make, rows))


def runs_in(groups: Sequence[Group]) -> int:
    return sum(group.runs for group in groups)


def _in_groups(groups: Sequence[Group]) -> Condition:
    """On rows `r` of `runs`."""
    return among("r.grp", [group.id for group in groups])


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows of `runs`, and how to reach them."""

    rows: str
    conditions: tuple[Condition, ...] = ()
    # The table that determines the order of the rows.
    ordered: str = "r"

    def where(self, *conditions: Condition) -> "RowSource":
        return replace(self, conditions=(*self.conditions, *conditions))


class Sources:
    """The sources of one query."""

    def __init__(
        self, db: sqlite3.Connection, run_filter: RunFilter, selection: GroupSelection, sort: Sort
    ) -> None:
        self._db = db
        self._filter = run_filter
        self._selection = selection
        self._sort = sort
        self._time = sort.field.time

    def of(self, selection: GroupSelection) -> list[RowSource]:
        """Sources that together have each selected run once, and possibly runs that do not match."""
        if few := self._few:
            return [few.where(*self._is_selected(selection))]
        if selection.groups is None:
            return [RowSource(self._attribute_scan) if self._attribute_scan else self._scan]
        if self._attribute_scan and selection.max_runs > _FEW:
            return [RowSource(self._attribute_scan, tuple(self._is_selected(selection)))]
        if selection is self._selection and self._is_whole_tenant:
            return [self._scan]
        return [*self._group_sources(selection.groups), *self._label_sources(selection)]

    def countable(self, selection: GroupSelection) -> list[RowSource]:
        """The same when the order does not matter."""
        if selection.groups is not None and self._filter.needle is not None and not self._few:
            return self.combined(selection)
        return self.of(selection)

    def combined(self, selection: GroupSelection) -> list[RowSource]:
        """The same with one source for all groups: cheap while little of each is read."""
        if selection.groups is None:
            return [self._scan]
        own = RowSource(f"runs r INDEXED BY grouped_by_{self._time}", (_in_groups(selection.groups),))
        return [*([own] if selection.groups else []), *self._label_sources(selection)]

    @property
    def text_is_frequent(self) -> bool:
        """Whether the text, as the only filter, is so frequent that a page is soon full.

        Checking that is cheaper than the full-text index, which looks up every trigram.
        """
        run_filter = self._filter
        others = self._selection.groups is not None or attribute_conditions(run_filter)
        if run_filter.needle is None or others or run_filter.updated or run_filter.submitted:
            return False
        text = text_condition(run_filter.needle)
        first = f"SELECT r.doc FROM {self._scan.rows} {self._sort.clause('r')} LIMIT {_SAMPLED}"
        [(found,)] = self._db.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM ({first}) r WHERE {text.sql} LIMIT {_OFTEN})", text.values
        )
        return bool(found == _OFTEN)

    def _group_sources(self, groups: list[Group]) -> Iterator[RowSource]:
        rows = f"runs r INDEXED BY grouped_by_{self._time}"
        runs = runs_in(groups)
        if not groups:
            return
        if runs <= _FEW:
            yield RowSource(rows, (_in_groups(groups),))
        elif len(groups) <= _SEVERAL_GROUPS and (self._filter.needle is None or runs <= _SOME):
            for group in groups:
                yield RowSource(rows, (Condition("r.grp = ?", (group.id,)),))
        else:
            yield self._scan.where(_in_groups(groups))

    def _label_sources(self, selection: GroupSelection) -> Iterator[RowSource]:
        if not selection.labelled:
            return
        in_selection = () if selection.labelled_anywhere else (_in_groups(selection.labelled),)
        label = Condition("l.label = ?", (self._filter.tag,))
        rows = "labels l CROSS JOIN runs r ON r.revision = l.revision"
        if self._time == SortField.UPDATED_AT:
            yield RowSource(rows, (label, *in_selection), ordered="l")
        elif self._label_is_few:
            yield RowSource(rows, (label, *in_selection))
        else:
            yield self._scan.where(self._has_label, *in_selection)

    @cached_property
    def _few(self) -> RowSource | None:
        """All that one of the filters leaves, if that is not much."""
        run_filter = self._filter
        if (by_text := self._few_by_text()) is not None:
            return by_text
        for index, condition in attribute_conditions(run_filter).items():
            if self._is_few(f"runs r INDEXED BY {index}", condition):
                return RowSource(f"runs r INDEXED BY {index}")
        if self._is_few_of_worker():
            return RowSource("runs r INDEXED BY by_worker_and_group")
        for time, time_range in (("updated_at", run_filter.updated), ("submitted_at", run_filter.submitted)):
            within = list(in_range(f"r.{time}", time_range))
            if within and time != self._time and self._is_few(f"runs r INDEXED BY by_{time}", *within):
                return RowSource(f"runs r INDEXED BY by_{time}")
        return None

    def _few_by_text(self) -> RowSource | None:
        trigrams = trigram_condition(self._filter)
        if trigrams is None:
            return None
        # As one value: fetching thousands of rows would take longer.
        [(count, docs)] = self._db.execute(
            "SELECT count(*), json_group_array(rowid) FROM "
            f"(SELECT rowid FROM words WHERE {trigrams.sql} LIMIT {_FEW + 1})",
            trigrams.values,
        )
        if count > _FEW:
            return None
        by_id = id_condition(self._filter)
        if by_id is None:
            found = Condition("r.doc IN (SELECT value FROM json_each(?))", (docs,))
            return RowSource("runs r INDEXED BY by_doc", (found,))
        # By revision, because many other runs may have the text of the run with this id.
        revisions = (
            "SELECT revision FROM runs INDEXED BY by_doc WHERE doc IN (SELECT value FROM json_each(?)) "
            f"UNION SELECT revision FROM runs INDEXED BY runs_by_id WHERE {by_id.sql}"
        )
        return RowSource(
            "runs r NOT INDEXED", (Condition(f"r.revision IN ({revisions})", (docs, *by_id.values)),)
        )

    def _is_few_of_worker(self) -> bool:
        """Whether worker and groups together leave few runs, though each has many."""
        worker = attribute_conditions(self._filter).get("by_worker")
        if worker is None or self._selection.groups is None or self._selection.labelled:
            return False
        rows = "runs r INDEXED BY by_worker_and_group"
        return self._is_few(rows, worker, _in_groups(self._selection.groups))

    @property
    def _scan(self) -> RowSource:
        """All runs that may match, in sort order."""
        if self._filter.tenant is None or self._time != SortField.UPDATED_AT:
            return RowSource(f"runs r INDEXED BY by_{self._time}")
        return RowSource("runs r INDEXED BY by_tenant", (Condition("r.tenant = ?", (self._filter.tenant,)),))

    @property
    def _is_whole_tenant(self) -> bool:
        """Whether the selected groups are all of a tenant, and an index has them in sort order."""
        run_filter = self._filter
        return (
            self._time == SortField.UPDATED_AT
            and not run_filter.statuses
            and run_filter.flow is run_filter.tag is None
        )

    @cached_property
    def _attribute_scan(self) -> str | None:
        """The rows with the filter's worker (or another attribute), in the order of updates."""
        if self._time != SortField.UPDATED_AT:
            return None
        return next((f"runs r INDEXED BY {index}" for index in attribute_conditions(self._filter)), None)

    def _is_selected(self, selection: GroupSelection) -> list[Condition]:
        """Whether a row that was found in another way is in the selection."""
        if selection.groups is None:
            return []
        own = _in_groups(selection.groups)
        if not selection.labelled:
            return [own]
        labelled = _in_groups(selection.labelled)
        sql = f"({own.sql} OR {labelled.sql} AND {self._has_label.sql})"
        return [Condition(sql, own.values + labelled.values + self._has_label.values)]

    @cached_property
    def _label_is_few(self) -> bool:
        return self._is_few("labels l", Condition("l.label = ?", (self._filter.tag,)))

    @property
    def _has_label(self) -> Condition:
        sql = "EXISTS (SELECT 1 FROM labels l WHERE l.label = ? AND l.revision = r.revision)"
        return Condition(sql, (self._filter.tag,))

    def _is_few(self, rows: str, *conditions: Condition) -> bool:
        sql, values = where(conditions)
        counted = self._db.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {rows} WHERE {sql} LIMIT {_FEW + 1})", values
        )
        return bool(counted.fetchone()[0] <= _FEW)
