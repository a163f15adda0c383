"""Doing something to everything that matches a filter: counted first, then frozen as a list of items.

A dry run counts. The real one has to say how many it expects, by a number or by the token of a dry run, and
is refused when more match: a typing mistake in a filter must not cancel ten thousand runs. The token guards
against mistakes, not against malice: it is a digest of what was asked for, and anybody may compute it.

What matches when the operation is made is what it is done to: runs that match later, such as the reruns
themselves, are not drawn in.
"""

import time
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol
from uuid import uuid4

import msgspec

from pyoco_server.broker.bulk_records import BulkAction, BulkRecord, BulkRecords, BulkState, StoredBulk
from pyoco_server.broker.dead_letters import DeadLetters
from pyoco_server.broker.publishing import RevisionConflict
from pyoco_server.errors import BulkNotFound, BulkRefused
from pyoco_server.models import RerunMode, is_run_id
from pyoco_server.runs.dead_letter_reading import LetterFilter, matching_letters
from pyoco_server.runs.run_filter import RunFilter
from pyoco_server.runs.tenancy import Caller

MOST_ITEMS = 100_000
SAMPLE = 10


class RunSearch(Protocol):
    """What is wanted of the index of runs."""

    async def ids(self, wanted: RunFilter, /, *, limit: int) -> list[str]: ...


class Selection(Protocol):
    """What an operation is done to."""

    async def items(self, limit: int) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class MatchingRuns:
    search: RunSearch
    wanted: RunFilter

    async def items(self, limit: int) -> list[str]:
        return await self.search.ids(self.wanted, limit=limit)


@dataclass(frozen=True, slots=True)
class MatchingLetters:
    letters: DeadLetters
    wanted: LetterFilter

    async def items(self, limit: int) -> list[str]:
        return [str(seq) for seq in await matching_letters(self.letters, self.wanted, limit=limit)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkWish:
    """What is to be done to what matches."""

    action: BulkAction
    # The filter as it was asked for.
    query: dict[str, list[str]]
    mode: RerunMode | None = None
    reason: str | None = None
    delete: bool = False

    def token(self, count: int) -> str:
        asked = (self.action, sorted(self.query.items()), self.mode, self.reason, self.delete)
        return f"{count}-{sha256(msgspec.json.encode(asked)).hexdigest()[:32]}"

    def expected_by(self, token: str) -> int:
        """How many a dry run of this very wish has counted; BulkRefused for the token of another one."""
        count = token.partition("-")[0]
        if not (count.isascii() and count.isdigit() and len(count) < 10 and self.token(int(count)) == token):
            raise BulkRefused("the token is not that of a dry run with this filter and these options")
        return int(count)


@dataclass(frozen=True, slots=True)
class Counted:
    matched: int
    sample: list[str] = field(default_factory=list)


async def count(selection: Selection) -> Counted:
    items = await selection.items(MOST_ITEMS + 1)
    _check_size(items)
    return Counted(len(items), items[:SAMPLE])


async def begin(
    records: BulkRecords, selection: Selection, wish: BulkWish, caller: Caller, *, expected: int
) -> tuple[StoredBulk, list[str]]:
    """Store the operation, for the runners of the gateways to carry out; with it, a sample of its items."""
    items = await selection.items(MOST_ITEMS + 1)
    _check_size(items)
    if len(items) > expected:
        raise BulkRefused(f"{len(items)} match, and {expected} were expected")
    now = time.time()
    record = BulkRecord(
        bulk_id=str(uuid4()),
        action=wish.action,
        state=BulkState.RUNNING if items else BulkState.COMPLETED,
        query=wish.query,
        matched=len(items),
        created_at=now,
        updated_at=now,
        finished_at=None if items else now,
        mode=wish.mode,
        reason=wish.reason,
        delete=wish.delete,
        tenant_id=caller.tenant_id,
        api_key_id=caller.api_key_id,
    )
    return await records.create(record, items), items[:SAMPLE]


async def find(records: BulkRecords, bulk_id: str, caller: Caller) -> StoredBulk:
    """BulkNotFound when there is none, or when it is not the caller's to know of."""
    # An id that is no UUID cannot exist, and must not reach a NATS subject.
    stored = await records.get(bulk_id) if is_run_id(bulk_id) else None
    if stored is None or not caller.sees(stored.record.tenant_id):
        raise BulkNotFound(f"there is no bulk operation {bulk_id!r}")
    return stored


async def stop(records: BulkRecords, bulk_id: str, caller: Caller) -> BulkRecord:
    """Have it end after the items in hand; one that has ended is returned as it is."""
    while True:
        stored = await find(records, bulk_id, caller)
        if stored.record.state is not BulkState.RUNNING:
            return stored.record
        now = time.time()
        stopped = msgspec.structs.replace(
            stored.record, state=BulkState.STOPPED, updated_at=now, finished_at=now
        )
        try:
            return (await records.replace(stopped, revision=stored.revision)).record
        except RevisionConflict:
            continue


def _check_size(items: list[str]) -> None:
    if len(items) > MOST_ITEMS:
        raise BulkRefused(f"more than {MOST_ITEMS} match; narrow the filter, for example by time")
