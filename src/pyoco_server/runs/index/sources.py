"""Where runs are read that may be wanted: which rows, along which index.

Where one filter makes the choice small (a rare word, an old worker, a quiet hour), all of that is taken and
sorted. Else the runs are read in the order wanted, group by group if groups are wanted. Which of the two it
is, is found out by counting no further than `_FEW`.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from pyoco_server.runs.index import conditions
from pyoco_server.runs.index.conditions import Condition, in_range, where
from pyoco_server.runs.index.group_selection import Choice, Group, in_groups, runs_in
from pyoco_server.runs.index.run_filter import RunFilter
from pyoco_server.runs.index.sorting import Sort, SortField

# So many rows are sorted within a few milliseconds.
_FEW: Final = 4000
# So many texts are looked through in little more; a group in which nothing is found is read to its end.
_SOME: Final = 8000
# A text is frequent if so many of the first runs have it.
_OFTEN: Final = 4
_LOOKED_AT: Final = 500
# So many groups are read one by one within a few milliseconds.
_SEVERAL_GROUPS: Final = 200


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of `runs` by one way to them."""

    rows: str
    conditions: tuple[Condition, ...] = ()
    # The table whose order the rows come in.
    ordered: str = "r"

    def where(self, *conditions: Condition) -> "Source":
        return replace(self, conditions=(*self.conditions, *conditions))


class Sources:
    """Of one question: what is wanted, of which groups, in which order."""

    def __init__(self, db: sqlite3.Connection, wanted: RunFilter, choice: Choice, sort: Sort) -> None:
        self._db = db
        self._wanted = wanted
        self._choice = choice
        self._sort = sort
        self._time = sort.field.time

    def of(self, choice: Choice) -> list[Source]:
        """Sources that together have each run of the choice once, and perhaps runs that are not wanted."""
        if few := self._few:
            return [few.where(*self._is_in(choice))]
        if choice.own is None:
            return [Source(self._attribute_walk) if self._attribute_walk else self._walk]
        if self._attribute_walk and choice.runs > _FEW:
            return [Source(self._attribute_walk, tuple(self._is_in(choice)))]
        if choice is self._choice and self._wants_whole_tenant:
            return [self._walk]
        return [*self._group_sources(choice.own), *self._label_sources(choice)]

    def countable(self, choice: Choice) -> list[Source]:
        """The same when the order does not matter."""
        if choice.own is not None and self._wanted.needle is not None and not self._few:
            return self.in_one_go(choice)
        return self.of(choice)

    def in_one_go(self, choice: Choice) -> list[Source]:
        """The same with one source for all groups: cheap as long as little of each is read."""
        if choice.own is None:
            return [self._walk]
        own = Source(f"runs r INDEXED BY grouped_by_{self._time}", (in_groups(choice.own),))
        return [*([own] if choice.own else []), *self._label_sources(choice)]

    @property
    def text_is_frequent(self) -> bool:
        """Whether a text, if it alone is wanted, is in so many of the first runs that a page is soon full.

        Seeing that is cheaper than asking the index of words, which has to look for every part of the text.
        """
        wanted = self._wanted
        beside = self._choice.own is not None or conditions.of_attributes(wanted)
        if wanted.needle is None or beside or wanted.updated or wanted.submitted:
            return False
        text = conditions.of_text(wanted.needle)
        first = f"SELECT r.doc FROM {self._walk.rows} {self._sort.clause('r')} LIMIT {_LOOKED_AT}"
        [(found,)] = self._db.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM ({first}) r WHERE {text.sql} LIMIT {_OFTEN})", text.values
        )
        return bool(found == _OFTEN)

    def _group_sources(self, groups: list[Group]) -> Iterator[Source]:
        rows = f"runs r INDEXED BY grouped_by_{self._time}"
        runs = runs_in(groups)
        if not groups:
            return
        if runs <= _FEW:
            yield Source(rows, (in_groups(groups),))
        elif len(groups) <= _SEVERAL_GROUPS and (self._wanted.needle is None or runs <= _SOME):
            for group in groups:
                yield Source(rows, (Condition("r.grp = ?", (group.id,)),))
        else:
            yield self._walk.where(in_groups(groups))

    def _label_sources(self, choice: Choice) -> Iterator[Source]:
        if not choice.labelled:
            return
        in_choice = () if choice.labelled_anywhere else (in_groups(choice.labelled),)
        label = Condition("l.label = ?", (self._wanted.tag,))
        rows = "labels l CROSS JOIN runs r ON r.revision = l.revision"
        if self._time == SortField.UPDATED_AT:
            yield Source(rows, (label, *in_choice), ordered="l")
        elif self._label_is_few:
            yield Source(rows, (label, *in_choice))
        else:
            yield self._walk.where(self._has_label, *in_choice)

    @cached_property
    def _few(self) -> Source | None:
        """All that one of the filters leaves, if that is not much."""
        wanted = self._wanted
        if (of_words := self._few_of_words()) is not None:
            return of_words
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

    def _few_of_words(self) -> Source | None:
        words = conditions.of_words(self._wanted)
        if words is None:
            return None
        # As one value: thousands of rows would each have to be handed over.
        [(count, docs)] = self._db.execute(
            "SELECT count(*), json_group_array(rowid) FROM "
            f"(SELECT rowid FROM words WHERE {words.sql} LIMIT {_FEW + 1})",
            words.values,
        )
        if count > _FEW:
            return None
        found = Condition("r.doc IN (SELECT value FROM json_each(?))", (docs,))
        return Source("runs r INDEXED BY by_doc", (found,))

    def _is_few_of_worker(self) -> bool:
        """Whether a worker has had little of the wanted groups, though both are much."""
        worker = conditions.of_attributes(self._wanted).get("by_worker")
        if worker is None or self._choice.own is None or self._choice.labelled:
            return False
        rows = "runs r INDEXED BY by_worker_and_group"
        return self._is_few(rows, worker, in_groups(self._choice.own))

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
        own = in_groups(choice.own)
        if not choice.labelled:
            return [own]
        labelled = in_groups(choice.labelled)
        sql = f"({own.sql} OR {labelled.sql} AND {self._has_label.sql})"
        return [Condition(sql, own.values + labelled.values + self._has_label.values)]

    @cached_property
    def _label_is_few(self) -> bool:
        return self._is_few("labels l", Condition("l.label = ?", (self._wanted.tag,)))

    @property
    def _has_label(self) -> Condition:
        sql = "EXISTS (SELECT 1 FROM labels l WHERE l.label = ? AND l.revision = r.revision)"
        return Condition(sql, (self._wanted.tag,))

    def _is_few(self, rows: str, *wanted: Condition) -> bool:
        sql, values = where(wanted)
        counted = self._db.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {rows} WHERE {sql} LIMIT {_FEW + 1})", values
        )
        return bool(counted.fetchone()[0] <= _FEW)
