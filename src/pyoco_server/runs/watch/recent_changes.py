"""The newest changes of all runs, shared by all followers of lists.

Each run is here once, with its newest change, in the order of revisions. A follower holds only its position:
one that reconnects or reads slowly gets the newest changes after it, and has to read the list again if they
do not reach back that far. Memory does not depend on the number or speed of followers.
"""

import re
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import Final, Literal, Self

from msgspec import Struct

from pyoco_server.runs.index.run_summary import RunSummary
from pyoco_server.runs.index.search.run_filter import RunFilter
from pyoco_server.runs.lifecycle.tenancy import visible_to

MAX_RUNS: Final = 5_000
# While no list is followed: enough for one that is followed from the revision at which it was read.
UNFOLLOWED_RUNS: Final = 500

_POSITION: Final = re.compile(r"([0-9a-f]{8})-([0-9]{1,18})")


class Unknown(Enum):
    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN
Before = RunSummary | None | Literal[Unknown.UNKNOWN]


@dataclass(frozen=True, slots=True)
class BucketPosition:
    """A revision of a bucket, valid for every gateway."""

    # A recreated bucket starts its revisions again.
    bucket: str
    revision: int

    def __str__(self) -> str:
        return f"{self.bucket}-{self.revision}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        found = _POSITION.fullmatch(text)
        return None if found is None else cls(found[1], int(found[2]))


# Of no bucket: a follower from there has to list again.
UNKNOWN_POSITION: Final = BucketPosition("", 0)


def bucket_name(created: str) -> str:
    """A short name for the bucket that was created at this time."""
    return f"{zlib.crc32(created.encode()):08x}"


class RecentChange(Struct, frozen=True, gc=False):
    run_id: str
    revision: int
    # None when the run was deleted.
    summary: RunSummary | None
    # The run before this change; None when there was none.
    before: Before
    # `before` was current from this revision on.
    before_since: int
    # None also when no snapshot of the run could be decoded.
    tenant_id: str | None
    # The run disappeared after this revision without a delete marker.
    disappeared: bool = False

    def enters(self, run_filter: RunFilter) -> bool:
        """Whether a list with this filter has the run."""
        return self.summary is not None and run_filter.matches(self.summary)

    def leaves(self, run_filter: RunFilter, after: int) -> bool:
        """Whether the list at revision `after` may have had the run, and does not have it now."""
        # Not even the id of another tenant's run may be revealed.
        if self.enters(run_filter) or not visible_to(run_filter.tenant, self.tenant_id):
            return False
        if self.before is UNKNOWN or after < self.before_since:
            return True
        return self.before is not None and run_filter.matches(self.before)


class RecentChanges:
    def __init__(self) -> None:
        self._changes: OrderedDict[str, RecentChange] = OrderedDict()
        # How many are kept.
        self.max_runs = UNFOLLOWED_RUNS
        # Empty until `begin`.
        self.bucket = ""
        # Every change in (oldest, newest] is here.
        self._oldest = 0
        self.newest = 0
        # The newest revision when a run last disappeared.
        self._disappeared_at = -1

    def begin(self, bucket: str, revision: int) -> None:
        """Clear: later changes are after this revision of this bucket."""
        self.bucket = bucket
        self._changes.clear()
        self._oldest = self.newest = revision
        self._disappeared_at = -1

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
        while len(self._changes) > self.max_runs:
            _, dropped = self._changes.popitem(last=False)
            self._oldest = dropped.revision

    def has_changes_after(self, revision: int) -> bool:
        return revision < self.newest or revision == self._disappeared_at

    def add_disappeared(self, summary: RunSummary) -> None:
        """Add a change without a revision of its own: followers at the newest revision have not seen it."""
        item = summary.item
        self._disappeared_at = self.newest
        self._changes.pop(item.run_id, None)
        self._changes[item.run_id] = RecentChange(
            item.run_id, self.newest, None, summary, 0, item.tenant_id, disappeared=True
        )
        self._drop_oldest()

    def covers(self, revision: int) -> bool:
        """Whether all changes after this revision are here."""
        return revision >= self._oldest

    def after(self, revision: int) -> list[RecentChange]:
        """The changes after the revision, oldest first."""

        def is_newer(change: RecentChange) -> bool:
            return change.revision > revision or (change.revision == revision and change.disappeared)

        return list(takewhile(is_newer, reversed(self._changes.values())))[::-1]
