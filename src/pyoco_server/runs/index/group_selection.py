"""Which groups of runs are wanted, by the filters that a group answers: tenant, flow, tag and status."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyoco_server.runs.index import conditions
from pyoco_server.runs.index.conditions import Condition, among, where
from pyoco_server.runs.index.run_filter import RunFilter


class Group(NamedTuple):
    """A tuple, since hundreds are read for one page."""

    id: int
    flow: str
    status: str
    runs: int


@dataclass(frozen=True, slots=True)
class Choice:
    # None: all of them.
    own: list[Group] | None
    # Of these, the runs that have the wanted tag as one of their other tags.
    labelled: list[Group] = field(default_factory=list)
    # Whether these are all groups there are, so that a run need not be asked for its own.
    labelled_anywhere: bool = False

    @property
    def runs(self) -> int:
        """At most so many runs are in it."""
        return runs_in([*(self.own or []), *self.labelled])

    def named(self, column: str, name: str) -> "Choice":
        """What it has of one flow or status; not of a choice of all."""
        assert self.own is not None
        return Choice(
            [group for group in self.own if getattr(group, column) == name],
            [group for group in self.labelled if getattr(group, column) == name],
        )


def choice_of(db: sqlite3.Connection, wanted: RunFilter) -> Choice:
    of_some = bool(wanted.statuses) or wanted.tenant is not None or wanted.flow is not None
    if not of_some and wanted.tag is None:
        return Choice(None)
    own = groups_of(db, wanted, tag=wanted.tag)
    if wanted.tag is None or not _is_label(db, wanted.tag):
        return Choice(own)
    return Choice(own, groups_of(db, wanted), labelled_anywhere=not of_some)


def groups_of(db: sqlite3.Connection, wanted: RunFilter, *, tag: str | None = None) -> list[Group]:
    """The groups that are wanted, whatever their tag is unless it is given."""
    sql, values = where([Condition("runs > 0"), *conditions.of_groups(wanted, tag=tag)])
    rows = db.execute(f"SELECT id, flow, status, runs FROM groups WHERE {sql}", values)
    return list(map(Group._make, rows))


def in_groups(groups: Sequence[Group]) -> Condition:
    """Of rows `r` of `runs`."""
    return among("r.grp", [group.id for group in groups])


def runs_in(groups: Sequence[Group]) -> int:
    return sum(group.runs for group in groups)


def _is_label(db: sqlite3.Connection, tag: str) -> bool:
    return db.execute("SELECT 1 FROM labels WHERE label = ? LIMIT 1", [tag]).fetchone() is not None
