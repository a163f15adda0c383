"""The newest changes of all runs, for those who follow a list: where they are in it is all they hold.

Each run is here once, with its newest change, in the order of revisions. So who comes back after a moment,
or reads slowly, is told the newest of what it missed; who was away for longer than this reaches back is told
to list again. Memory does not depend on how many follow, or how slowly.
"""

import re
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, Self

from msgspec import Struct

from pyoco_server.runs.index.run_filter import RunFilter
from pyoco_server.runs.index.run_summary import RunSummary
from pyoco_server.runs.lifecycle.tenancy import visible_to

# Of how many runs the newest change is kept.
MOST_RUNS: Final = 5_000

_POSITION: Final = re.compile(r"([0-9a-f]{8})-([0-9]{1,18})")


class Unknown(Enum):
    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN
Before = RunSummary | None | Literal[Unknown.UNKNOWN]


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the history of the runs bucket, also across gateways."""

    # Which bucket: one that was made anew counts its revisions anew.
    bucket: str
    revision: int

    def __str__(self) -> str:
        return f"{self.bucket}-{self.revision}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        found = _POSITION.fullmatch(text)
        return None if found is None else cls(found[1], int(found[2]))


# Of no bucket: whoever follows from there has to list again.
UNKNOWN_POSITION: Final = Position("", 0)


def bucket_name(created: str) -> str:
    """A short word for the bucket that was made at this time."""
    return f"{zlib.crc32(created.encode()):08x}"


class RecentChange(Struct, frozen=True, gc=False):
    run_id: str
    revision: int
    # None when the run was removed.
    summary: RunSummary | None
    # The run before this change; None when there was none.
    before: Before
    # `before` is what was there from this revision on.
    before_since: int
    # Whose run it is, as long as anything of it could ever be read.
    tenant_id: str | None
    # No write says that it was removed: it was found to be gone after this revision.
    vanished: bool = False

    def enters(self, wanted: RunFilter) -> bool:
        """Whether a list with this filter has the run."""
        return self.summary is not None and wanted.matches(self.summary)

    def leaves(self, wanted: RunFilter, after: int) -> bool:
        """Whether a list as it was at the revision `after` may have had the run, and has it no more."""
        # Not even the id of another tenant's run may be told.
        if self.enters(wanted) or not visible_to(wanted.tenant, self.tenant_id):
            return False
        if self.before is UNKNOWN or after < self.before_since:
            return True
        return self.before is not None and wanted.matches(self.before)


class RecentChanges:
    """The newest change of each run that changed lately."""

    def __init__(self, *, most_runs: int = MOST_RUNS) -> None:
        self._most_runs = most_runs
        self._changes: OrderedDict[str, RecentChange] = OrderedDict()
        # Which bucket these are of; empty before anything is known.
        self.bucket = ""
        # Every change behind `oldest`, up to `newest`, is here.
        self._oldest = 0
        self.newest = 0
        # The newest revision when a run was last found to be gone.
        self._vanished_at = -1

    def begin(self, bucket: str, revision: int) -> None:
        """Forget everything: what comes is behind this revision of this bucket."""
        self.bucket = bucket
        self._changes.clear()
        self._oldest = self.newest = revision
        self._vanished_at = -1

    def add(self, run_id: str, revision: int, summary: RunSummary | None, before: Before) -> RecentChange:
        previous = self._changes.pop(run_id, None)
        if previous is None:
            known, since, tenant_id = before, 0, None
        else:
            known, since, tenant_id = previous.summary, previous.revision, previous.tenant_id
        for run in (known, summary):
            if isinstance(run, RunSummary):
                tenant_id = run.item.tenant_id
        change = RecentChange(run_id, revision, summary, known, since, tenant_id)
        self._changes[run_id] = change
        self.newest = revision
        self._drop_oldest()
        return change

    def _drop_oldest(self) -> None:
        if len(self._changes) > self._most_runs:
            _, dropped = self._changes.popitem(last=False)
            self._oldest = dropped.revision

    def is_news_behind(self, revision: int) -> bool:
        """Whether anything may have to be told to one who has read up to this revision."""
        return revision < self.newest or revision == self._vanished_at

    def add_vanished(self, summary: RunSummary) -> None:
        """The run is gone, and no write says so: whoever had read to the newest one has not heard of it."""
        item = summary.item
        self._vanished_at = self.newest
        self._changes.pop(item.run_id, None)
        self._changes[item.run_id] = RecentChange(
            item.run_id, self.newest, None, summary, 0, item.tenant_id, vanished=True
        )
        self._drop_oldest()

    def reaches_back_to(self, revision: int) -> bool:
        """Whether nothing behind this revision has been forgotten."""
        return revision >= self._oldest

    def behind(self, revision: int) -> list[RecentChange]:
        """What changed behind the revision, oldest first."""
        return list(self._newest_to(revision))[::-1]

    def _newest_to(self, revision: int) -> Iterator[RecentChange]:
        for change in reversed(self._changes.values()):
            if change.revision < revision or (change.revision == revision and not change.vanished):
                return
            yield change
