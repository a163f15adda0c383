"""Doing something to everything that matches a filter: counted first, then frozen as a list of items.

A dry run counts. The real one has to say how many it expects, by a number or by the token of a dry run, and
is refused when more match: a typing mistake in a filter must not cancel ten thousand runs. The token guards
against mistakes, not against malice: it is a digest of what was asked for, and anybody may compute it.

What matches when the operation is made is what it is done to: runs that match later, such as the reruns
themselves, are not drawn in.
"""

import time
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Protocol
from uuid import uuid4

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict, read_back
from pyoco_server.broker.stores.bulk_records import BulkRecords, StoredBulk
from pyoco_server.broker.stores.dead_letters import DeadLetters
from pyoco_server.broker.stores.idempotency_keys import KeyKind, StoredKey
from pyoco_server.errors import BulkNotFound, BulkRefused, NatsUnavailable
from pyoco_server.records.models import RerunMode, is_run_id
from pyoco_server.records.operation_models import MAX_BULK_ITEMS, BulkAction, BulkItem, BulkRecord, BulkState
from pyoco_server.runs.bulk.dead_letter_reading import LetterFilter, matching_letters
from pyoco_server.runs.index.run_filter import RunFilter
from pyoco_server.runs.lifecycle.idempotency import KeyedRequest, KeyedRequests, keyed_command
from pyoco_server.runs.lifecycle.tenancy import Caller
from pyoco_server.runs.lifecycle.withdrawal import Withdrawal, Withdrawer, remove_unstarted_bulk

SAMPLE = 10


class RunSearch(Protocol):
    """What is wanted of the index of runs."""

    async def ids(self, wanted: RunFilter, /, *, limit: int) -> list[str]: ...


class Selection(Protocol):
    """What an operation is done to."""

    async def items(self, limit: int) -> list[BulkItem]: ...


@dataclass(frozen=True, slots=True)
class MatchingRuns:
    search: RunSearch
    wanted: RunFilter

    async def items(self, limit: int) -> list[BulkItem]:
        return [BulkItem(run_id) for run_id in await self.search.ids(self.wanted, limit=limit)]


@dataclass(frozen=True, slots=True)
class MatchingLetters:
    letters: DeadLetters
    wanted: LetterFilter

    async def items(self, limit: int) -> list[BulkItem]:
        found = await matching_letters(self.letters, self.wanted, limit=limit)
        return [BulkItem(str(seq), digest) for seq, digest in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkSpec:
    """What is to be done to what matches."""

    action: BulkAction
    # The filter as it was asked for.
    query: dict[str, list[str]]
    mode: RerunMode | None = None
    reason: str | None = None
    delete: bool = False

    def token(self, count: int) -> str:
        return f"{count}-{sha256(msgspec.json.encode(self._asked)).hexdigest()[:32]}"

    def keyed(self, key: str, caller: Caller) -> KeyedRequest:
        """Under a key of the caller's. How many may match guards the operation, and is no part of it."""
        return keyed_command(key, caller.tenant_id, "bulk", *self._asked)

    @property
    def _asked(self) -> tuple[object, ...]:
        return (self.action, sorted(self.query.items()), self.mode, self.reason, self.delete)

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
    items = await selection.items(MAX_BULK_ITEMS + 1)
    _check_size(items)
    return Counted(len(items), _sample(items))


@dataclass(frozen=True, slots=True)
class Begun:
    record: BulkRecord
    sample: list[str]
    # Whether an earlier request with the same key has begun it.
    replayed: bool = False


class BulkSubmitter:
    """Stores operations, for the runners of the gateways to carry out."""

    def __init__(self, connection: Connection, records: BulkRecords, withdrawer: Withdrawer) -> None:
        self._connection = connection
        self._records = records
        self._withdrawer = withdrawer
        self._keys = KeyedRequests(connection)

    async def begin(
        self,
        selection: Selection,
        wish: BulkSpec,
        caller: Caller,
        *,
        expected: int,
        request: KeyedRequest | None = None,
    ) -> Begun:
        """The stored operation; or that of an earlier request with the same key, as it is by now.

        NatsUnavailable: the operation was withdrawn, or will be once NATS answers (see withdrawal.py).
        """
        if request is not None and (earlier := await self._keys.accepted(request)) is not None:
            return await self._begun_before(earlier.run_id, caller)
        items = await selection.items(MAX_BULK_ITEMS + 1)
        _check_size(items)
        if len(items) > expected:
            raise BulkRefused(f"{len(items)} match, and {expected} were expected")
        record = _new_record(wish, caller, len(items))
        try:
            return await self._store(record, items, caller, request)
        except NatsUnavailable as failure:
            begun = await self._withdrawer.withdraw(self._withdrawal(record, caller, request), failure)
            return Begun(begun, _sample(items))

    async def _store(
        self, record: BulkRecord, items: list[BulkItem], caller: Caller, request: KeyedRequest | None
    ) -> Begun:
        if request is None:
            await self._create(record, items)
            return Begun(record, _sample(items))
        held = await self._keys.hold(request, record.bulk_id, kind=KeyKind.BULK)
        if held.record.run_id != record.bulk_id:
            return await self._begun_before(held.record.run_id, caller)
        await self._create(record, items)
        await self._accept(held)
        return Begun(record, _sample(items))

    async def _create(self, record: BulkRecord, items: list[BulkItem]) -> None:
        try:
            await self._records.create(record, items)
        except RevisionConflict:
            raise self._too_slow() from None

    async def _accept(self, held: StoredKey) -> None:
        try:
            await self._keys.accept(held)
        except RevisionConflict:
            raise self._too_slow() from None

    def _too_slow(self) -> NatsUnavailable:
        return self._connection.unavailable("storing the operation took so long that it was given up")

    async def _begun_before(self, bulk_id: str, caller: Caller) -> Begun:
        record = (await find(self._records, bulk_id, caller)).record
        items = await self._records.first_items(record, SAMPLE)
        return Begun(record, _sample(items), replayed=True)

    def _withdrawal(
        self, record: BulkRecord, caller: Caller, request: KeyedRequest | None
    ) -> Withdrawal[BulkRecord]:
        bulk_id, name = record.bulk_id, f"bulk operation {record.bulk_id}"
        if request is not None:
            key = request.key
            # Whoever repeats the request finds the operation: it is not stopped.
            return Withdrawal(
                name=name,
                undo=lambda: self._keys.give_up(key, bulk_id, kind=KeyKind.BULK),
                keyed=True,
            )
        return Withdrawal(
            name=name,
            undo=partial(remove_unstarted_bulk, self._records, bulk_id),
            undo_late=partial(self._remove_or_stop, bulk_id, caller),
        )

    async def _remove_or_stop(self, bulk_id: str, caller: Caller) -> BulkRecord | None:
        """An operation that nobody was told of and that has begun does no more than it has done."""
        if await remove_unstarted_bulk(self._records, bulk_id) is None:
            return None
        return await stop(self._records, bulk_id, caller)


def _new_record(wish: BulkSpec, caller: Caller, matched: int) -> BulkRecord:
    now = time.time()
    return BulkRecord(
        bulk_id=str(uuid4()),
        action=wish.action,
        state=BulkState.RUNNING if matched else BulkState.COMPLETED,
        query=wish.query,
        matched=matched,
        created_at=now,
        updated_at=now,
        finished_at=None if matched else now,
        mode=wish.mode,
        reason=wish.reason,
        delete=wish.delete,
        tenant_id=caller.tenant_id,
        api_key_id=caller.api_key_id,
    )


def _sample(items: list[BulkItem]) -> list[str]:
    return [item.name for item in items[:SAMPLE]]


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
        except NatsUnavailable as failure:
            found = (await read_back(find(records, bulk_id, caller), failure)).record
            if found.state is BulkState.RUNNING:
                raise
            return found


def _check_size(items: list[BulkItem]) -> None:
    if len(items) > MAX_BULK_ITEMS:
        raise BulkRefused(f"more than {MAX_BULK_ITEMS} match; narrow the filter, for example by time")
