"""Bulk operations on everything that matches a filter when the operation is submitted.

A dry run counts. The real request states how many items it expects, by a number or by the token of a dry run,
and is refused when more match: a mistake in a filter must not cancel ten thousand runs. The token is a digest
of the request; it guards against mistakes, not against malice.
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
from pyoco_server.broker.stores.runs.bulk_records import BulkRecords, StoredBulk
from pyoco_server.broker.stores.runs.dead_letters import DeadLetters
from pyoco_server.broker.stores.runs.idempotency_keys import KeyKind
from pyoco_server.errors import BulkNotFound, BulkRefused, NatsUnavailable
from pyoco_server.records.runs.bulk_models import MAX_BULK_ITEMS, BulkAction, BulkItem, BulkRecord, BulkState
from pyoco_server.records.runs.run_models import RerunMode
from pyoco_server.records.value_types import is_run_id
from pyoco_server.runs.bulk.letter_operations import LetterFilter, RerunsOf, matching_letters
from pyoco_server.runs.index.run_lists import RunLists
from pyoco_server.runs.index.search.run_filter import RunFilter
from pyoco_server.runs.lifecycle.idempotency import KeyedRequest, KeyedRequests, keyed_command
from pyoco_server.runs.lifecycle.tenancy import Caller, hidden_from_others
from pyoco_server.runs.lifecycle.withdrawal import Withdrawal, Withdrawer, remove_unstarted_bulk

SAMPLE = 10


class Selection(Protocol):
    async def items(self, limit: int) -> list[BulkItem]: ...


@dataclass(frozen=True, slots=True)
class MatchingRuns:
    lists: RunLists
    run_filter: RunFilter

    async def items(self, limit: int) -> list[BulkItem]:
        return [BulkItem(run_id) for run_id in await self.lists.ids(self.run_filter, limit=limit)]


@dataclass(frozen=True, slots=True)
class MatchingLetters:
    letters: DeadLetters
    letter_filter: LetterFilter
    reruns: RerunsOf | None = None

    async def items(self, limit: int) -> list[BulkItem]:
        return await matching_letters(self.letters, self.letter_filter, limit=limit, reruns=self.reruns)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkSpec:
    action: BulkAction
    # The filter as it was requested.
    query: dict[str, list[str]]
    mode: RerunMode | None = None
    keep_answers: bool = False
    reason: str | None = None
    delete: bool = False

    def token(self, count: int) -> str:
        return f"{count}-{sha256(msgspec.json.encode(self._requested)).hexdigest()[:32]}"

    def keyed(self, key: str, caller: Caller) -> KeyedRequest:
        """The expected number of items is no part of the request."""
        return keyed_command(key, caller.tenant_id, "bulk", *self._requested)

    @property
    def _requested(self) -> tuple[object, ...]:
        # Without `keep_answers` as in earlier versions, whose tokens and keys may be in use.
        kept = ("keep_answers",) if self.keep_answers else ()
        return (self.action, sorted(self.query.items()), self.mode, self.reason, self.delete, *kept)

    def expected_by(self, token: str) -> int:
        """The count of the dry run with this token; BulkRefused if that was another request."""
        count = token.partition("-")[0]
        if not (count.isascii() and count.isdigit() and len(count) < 10 and self.token(int(count)) == token):
            raise BulkRefused("the token is not that of a dry run with this filter and these options")
        return int(count)


@dataclass(frozen=True, slots=True)
class BulkCount:
    matched: int
    sample: list[str] = field(default_factory=list)


async def count(selection: Selection) -> BulkCount:
    items = await selection.items(MAX_BULK_ITEMS + 1)
    _check_size(items)
    return BulkCount(len(items), _sample(items))


@dataclass(frozen=True, slots=True)
class StartedBulk:
    record: BulkRecord
    sample: list[str]
    # Whether an earlier request with the same key has started it.
    replayed: bool = False


class BulkSubmitter:
    """Stores operations, for `BulkRunner` to execute."""

    def __init__(self, connection: Connection, records: BulkRecords, withdrawer: Withdrawer) -> None:
        self._connection = connection
        self._records = records
        self._withdrawer = withdrawer
        self._keys = KeyedRequests(connection)

    async def submit(
        self,
        selection: Selection,
        spec: BulkSpec,
        caller: Caller,
        *,
        expected: int,
        request: KeyedRequest | None = None,
    ) -> StartedBulk:
        """The stored operation; or that of an earlier request with the same key.

        NatsUnavailable: the operation was withdrawn, or will be once NATS is available (see withdrawal.py).
        """
        if request is not None and (earlier := await self._keys.accepted(request)) is not None:
            return await self._replayed(earlier.run_id, caller)
        items = await selection.items(MAX_BULK_ITEMS + 1)
        _check_size(items)
        if len(items) > expected:
            raise BulkRefused(f"{len(items)} match, and {expected} were expected")
        record = _new_record(spec, caller, len(items))
        try:
            return await self._store(record, items, caller, request)
        except NatsUnavailable as failure:
            started = await self._withdrawer.withdraw_or_keep(
                self._withdrawal(record, caller, request), failure
            )
            return StartedBulk(started, _sample(items))

    async def _store(
        self, record: BulkRecord, items: list[BulkItem], caller: Caller, request: KeyedRequest | None
    ) -> StartedBulk:
        held = None
        if request is not None:
            held = await self._keys.hold(request, record.bulk_id, kind=KeyKind.BULK)
            if held.record.run_id != record.bulk_id:
                return await self._replayed(held.record.run_id, caller)
        try:
            await self._records.create(record, items)
            if held is not None:
                await self._keys.accept(held)
        except RevisionConflict:
            # It was withdrawn meanwhile, or its key settled.
            raise self._connection.unavailable("storing the operation took too long") from None
        return StartedBulk(record, _sample(items))

    async def _replayed(self, bulk_id: str, caller: Caller) -> StartedBulk:
        record = (await find(self._records, bulk_id, caller)).record
        items = await self._records.first_items(record, SAMPLE)
        return StartedBulk(record, _sample(items), replayed=True)

    def _withdrawal(
        self, record: BulkRecord, caller: Caller, request: KeyedRequest | None
    ) -> Withdrawal[BulkRecord]:
        bulk_id, name = record.bulk_id, f"bulk operation {record.bulk_id}"
        if request is not None:
            # A retry finds the operation, so it is not stopped.
            return Withdrawal(
                name=name,
                undo=lambda: self._keys.undo(request.key, bulk_id, kind=KeyKind.BULK),
                keyed=True,
            )
        return Withdrawal(
            name=name,
            undo=partial(remove_unstarted_bulk, self._records, bulk_id),
            undo_late=partial(self._remove_or_stop, bulk_id, caller),
        )

    async def _remove_or_stop(self, bulk_id: str, caller: Caller) -> BulkRecord | None:
        """An operation that was answered with an error, and has started, is stopped."""
        if await remove_unstarted_bulk(self._records, bulk_id) is None:
            return None
        return await stop(self._records, bulk_id, caller)


def _new_record(spec: BulkSpec, caller: Caller, matched: int) -> BulkRecord:
    now = time.time()
    return BulkRecord(
        bulk_id=str(uuid4()),
        action=spec.action,
        state=BulkState.RUNNING if matched else BulkState.COMPLETED,
        query=spec.query,
        matched=matched,
        created_at=now,
        updated_at=now,
        finished_at=None if matched else now,
        mode=spec.mode,
        keep_answers=spec.keep_answers,
        reason=spec.reason,
        delete=spec.delete,
        tenant_id=caller.tenant_id,
        api_key_id=caller.api_key_id,
    )


def _sample(items: list[BulkItem]) -> list[str]:
    return [item.name for item in items[:SAMPLE]]


async def find(records: BulkRecords, bulk_id: str, caller: Caller) -> StoredBulk:
    """BulkNotFound when there is none that the caller may see."""
    # An invalid id must not reach a NATS subject.
    with hidden_from_others(caller, BulkNotFound(f"there is no bulk operation {bulk_id!r}")):
        stored = await records.get(bulk_id) if is_run_id(bulk_id) else None
    if stored is None or not caller.sees(stored.record.tenant_id):
        raise BulkNotFound(f"there is no bulk operation {bulk_id!r}")
    return stored


async def stop(records: BulkRecords, bulk_id: str, caller: Caller) -> BulkRecord:
    """Stop it after the current items; one that has ended is returned as it is."""
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
