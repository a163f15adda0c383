"""What people do with schedules: create, read, change, pause, trigger, backfill and delete them.

Each change is a compare-and-set on the record, which the runner of any gateway may write at the same time; a
change that lost the race is made again on the newer record.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import structs

from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.schedules.schedule_store import ScheduleStore, StoredSchedule
from pyoco_server.errors import (
    FieldProblem,
    InvalidRequest,
    NatsUnavailable,
    ScheduleConflict,
    ScheduleNotFound,
    shortened_json,
)
from pyoco_server.records.schedules.schedule_models import (
    Backfill,
    DecisionOutcome,
    Overlap,
    ScheduleRecord,
    SpecInput,
    is_schedule_id,
    schedule_key,
)
from pyoco_server.runs.lifecycle.idempotency import KeyedRequest
from pyoco_server.runs.lifecycle.tenancy import Caller, hidden_from_others
from pyoco_server.schedules import schedule_transitions
from pyoco_server.schedules.repeated_requests import (
    BACKFILL_ID_BYTES,
    backfill_id_of,
    earlier_request,
    id_of,
    with_request,
)
from pyoco_server.schedules.schedule_runner import ScheduleRunner
from pyoco_server.schedules.schedule_transitions import CancelledBackfill
from pyoco_server.schedules.spec_problems import checked_spec, checked_window

log = logging.getLogger(__name__)

# Writers of one record: the runners of all gateways, and people. Each round one of them succeeds.
_TRIES: Final = 50
# More than anybody needs, and far from the limits of numbers.
_MAX_RUNS: Final = 1_000_000_000

Change = Callable[[ScheduleRecord, float], Awaitable[ScheduleRecord]]


@dataclass(frozen=True, slots=True)
class ScheduleName:
    """A schedule as a caller names it; an operator may name one of another tenant."""

    schedule_id: str
    caller: Caller
    tenant: str | None = None

    @property
    def key(self) -> str | None:
        """None: it cannot be the caller's, or cannot exist; it must not reach a NATS subject."""
        if not is_schedule_id(self.schedule_id):
            return None
        return self.caller.key_of(self.tenant, lambda owner: schedule_key(owner, self.schedule_id))

    @property
    def unknown(self) -> ScheduleNotFound:
        return ScheduleNotFound(f"there is no schedule {self.schedule_id!r}")


@dataclass(frozen=True, slots=True)
class CreatedSchedule:
    stored: StoredSchedule
    # Whether an earlier request with the same Idempotency-Key has done it; here and below.
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class TriggerResult:
    run_id: str
    outcome: DecisionOutcome
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class AcceptedBackfill:
    # How many runs it starts, or would start.
    count: int
    # None: a dry run.
    backfill_id: str | None = None
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    backfill: Backfill
    # How many occurrences it has not started yet.
    remaining: int


class ScheduleService:
    def __init__(self, store: ScheduleStore, runner: ScheduleRunner, *, clock: Callable[[], float]) -> None:
        self._store = store
        self._runner = runner
        self._clock = clock

    async def create(
        self,
        schedule_id: str,
        caller: Caller,
        spec: SpecInput,
        *,
        request: KeyedRequest | None = None,
        **fields: Any,
    ) -> CreatedSchedule:
        """ScheduleConflict if there is one with this id; InvalidRequest stores nothing.

        Here and below, a repeated call with the same `request` returns what the first one did.
        """
        now = self._clock()
        record = ScheduleRecord(
            schedule_id=schedule_id,
            incarnation=secrets.token_hex(16),
            tenant_id=caller.tenant_id,
            api_key_id=caller.api_key_id,
            created_at=now,
            updated_at=now,
            # Nothing before its creation is started.
            cursor=now,
            spec=await asyncio.to_thread(checked_spec, spec, now=now),
            paused_at=now if fields.get("paused") else None,
            **fields,
        )
        await asyncio.to_thread(_check_limits, record, now)
        record = with_request(record, request, now=now)
        try:
            revision = await self._store.create(record)
        except RevisionConflict:
            stored = None if request is None else await self._store.get_from_leader(record.key)
            if stored is None or earlier_request(stored.record, request) is None:
                raise ScheduleConflict(f"there is a schedule {schedule_id!r} already") from None
            return CreatedSchedule(stored, replayed=True)
        return CreatedSchedule(await self._noticed(record, revision, "created"))

    async def find(self, name: ScheduleName) -> StoredSchedule:
        """As the leader knows it; ScheduleNotFound when there is none that the caller may see."""
        with hidden_from_others(name.caller, name.unknown):
            stored = None if name.key is None else await self._store.get_from_leader(name.key)
        if stored is None:
            raise name.unknown
        return stored

    async def patch(
        self, name: ScheduleName, fields: dict[str, Any], spec: dict[str, Any], *, revision: int | None
    ) -> StoredSchedule:
        """Replace these fields, and these of the spec; ScheduleConflict if `revision` is not the current."""

        async def change(record: ScheduleRecord, now: float) -> ScheduleRecord:
            new = dict(fields)
            if spec:
                given = {**msgspec.to_builtins(record.spec), **spec}
                as_input = msgspec.convert(given, SpecInput)
                new["spec"] = await asyncio.to_thread(checked_spec, as_input, now=now)
            changed = structs.replace(record, **new)
            if changed == record:
                return record
            await asyncio.to_thread(_check_limits, changed, now)
            if name.caller.tenant_id == record.tenant_id:
                changed.api_key_id = name.caller.api_key_id
            return await asyncio.to_thread(schedule_transitions.edited, record, changed, now=now)

        return await self._write(name, change, "changed", revision=revision, settled=True)

    async def pause(self, name: ScheduleName, note: str | None) -> StoredSchedule:
        """Without a note, the one that it has stays."""

        async def change(record: ScheduleRecord, now: float) -> ScheduleRecord:
            text = record.note if note is None else note
            if record.paused and record.note == text:
                return record
            return await asyncio.to_thread(schedule_transitions.paused, record, note=text, now=now)

        return await self._write(name, change, "paused")

    async def resume(self, name: ScheduleName, note: str | None) -> StoredSchedule:
        """Without a note, that of the pause is removed."""

        async def change(record: ScheduleRecord, now: float) -> ScheduleRecord:
            return await asyncio.to_thread(schedule_transitions.resumed, record, note=note or "", now=now)

        return await self._write(name, change, "resumed")

    async def trigger(
        self,
        name: ScheduleName,
        *,
        params: dict[str, Any] | None = None,
        overlap: Overlap | None = None,
        request: KeyedRequest | None = None,
    ) -> TriggerResult:
        """The run that is started now, or buffered; ScheduleConflict if an open run forbids it."""
        trigger_id = secrets.token_hex(16) if request is None else id_of(request)
        started = TriggerResult("", DecisionOutcome.STARTED)

        async def change(record: ScheduleRecord, now: float) -> ScheduleRecord:
            nonlocal started
            if (earlier := earlier_request(record, request)) is not None:
                started = TriggerResult(
                    earlier.run_id or "", earlier.outcome or DecisionOutcome.STARTED, replayed=True
                )
                return record
            earlier_runs = await self._runner.earlier_runs_of(record)
            placed = schedule_transitions.triggered(
                record,
                now=now,
                trigger_id=trigger_id,
                earlier_runs=earlier_runs,
                params=params,
                overlap=overlap,
            )
            self._runner.check_room(placed.record)
            is_buffered = any(start.run_id == placed.run_id for start in placed.record.buffer)
            started = TriggerResult(
                placed.run_id, DecisionOutcome.BUFFERED if is_buffered else DecisionOutcome.STARTED
            )
            return with_request(
                placed.record, request, now=now, run_id=started.run_id, outcome=started.outcome
            )

        stored = await self._write(name, change, "triggered")
        try:
            await self._runner.settle(stored.record.key)
        except NatsUnavailable:
            # It is decided: a gateway starts it when NATS is there again.
            log.warning("the run of a trigger starts later", extra={"run_id": started.run_id})
        return started

    async def backfill(
        self,
        name: ScheduleName,
        *,
        from_at: float,
        to_at: float,
        overlap: Overlap | None = None,
        dry_run: bool = False,
        request: KeyedRequest | None = None,
    ) -> AcceptedBackfill:
        """A dry run does not use its `request`."""
        backfill_id = secrets.token_hex(BACKFILL_ID_BYTES) if request is None else backfill_id_of(request)
        by = name.caller.api_key_id
        done = AcceptedBackfill(0)

        def added(record: ScheduleRecord, now: float) -> ScheduleRecord:
            return schedule_transitions.with_backfill(
                record,
                now=now,
                backfill_id=backfill_id,
                from_at=from_at,
                to_at=to_at,
                overlap=overlap,
                requested_by=by,
            )

        async def change(record: ScheduleRecord, now: float) -> ScheduleRecord:
            nonlocal done
            if (earlier := earlier_request(record, request)) is not None:
                done = AcceptedBackfill(earlier.count, backfill_id, replayed=True)
                return record
            changed = await asyncio.to_thread(added, record, now)
            done = AcceptedBackfill(changed.backfills[-1].count or 0, backfill_id)
            return with_request(changed, request, now=now, count=done.count)

        if dry_run:
            stored = await self.find(name)
            # The same errors.
            changed = await asyncio.to_thread(added, stored.record, self._clock())
            return AcceptedBackfill(changed.backfills[-1].count or 0)
        await self._write(name, change, "backfilled")
        return done

    async def backfills(self, name: ScheduleName) -> list[BackfillProgress]:
        """Those in progress, in the order of their requests."""

        def progress(record: ScheduleRecord) -> list[BackfillProgress]:
            return [
                BackfillProgress(each, schedule_transitions.remaining_of(record, each))
                for each in record.backfills
            ]

        return await asyncio.to_thread(progress, (await self.find(name)).record)

    async def cancel_backfill(self, name: ScheduleName, backfill_id: str) -> CancelledBackfill:
        """Start no more of its runs; BackfillNotFound if it is not in progress."""
        cancelled: CancelledBackfill | None = None

        async def change(record: ScheduleRecord, now: float) -> ScheduleRecord:
            nonlocal cancelled
            cancelled = await asyncio.to_thread(
                schedule_transitions.backfill_cancelled, record, backfill_id, now=now
            )
            return cancelled.record

        await self._write(name, change, "backfill cancelled")
        assert cancelled is not None
        return cancelled

    async def delete(self, name: ScheduleName, *, revision: int | None) -> None:
        """Its runs stay; a run that is already decided is started first."""
        for _ in range(_TRIES):
            stored = await self._settled(name)
            _check_revision(stored.record, revision)
            try:
                await self._store.delete(stored.record.key, revision=stored.revision)
            except RevisionConflict:
                continue
            self._runner.on_deleted(stored.record.key)
            log.info("schedule deleted", extra=_log_fields(stored.record))
            return
        raise _too_busy()

    async def _write(
        self,
        name: ScheduleName,
        change: Change,
        done: str,
        *,
        revision: int | None = None,
        settled: bool = False,
    ) -> StoredSchedule:
        """The schedule with this change; one that changes nothing is not written."""
        for _ in range(_TRIES):
            stored = await (self._settled(name) if settled else self.find(name))
            _check_revision(stored.record, revision)
            record = await change(stored.record, self._clock())
            if record == stored.record:
                return stored
            if not settled:
                # A person can pause or trigger one whose record is full.
                record = self._runner.fitted(record)
            try:
                written = await self._store.replace(record, revision=stored.revision)
            except RevisionConflict:
                continue
            self._runner.count(stored.record, record)
            return await self._noticed(record, written, done)
        raise _too_busy()

    async def _settled(self, name: ScheduleName) -> StoredSchedule:
        """The schedule, after its decided runs are stored: a change must not affect them."""
        stored = await self.find(name)
        if not stored.record.starts:
            return stored
        await self._runner.settle(stored.record.key)
        return await self.find(name)

    async def _noticed(self, record: ScheduleRecord, revision: int, done: str) -> StoredSchedule:
        stored = StoredSchedule(record, revision)
        await self._runner.on_written(stored)
        log.info("schedule %s", done, extra=_log_fields(record))
        return stored


def _check_limits(record: ScheduleRecord, now: float) -> None:
    """Limits that depend on several fields, or need words of their own."""
    if record.catchup_window_sec is not None:
        checked_window(record.spec, record.catchup_window_sec, now=now, field="catchup_window_sec")
    remaining = record.remaining_runs
    if remaining is not None and not 0 <= remaining <= _MAX_RUNS:
        message = f"expected a whole number from 0 to {_MAX_RUNS}, or null for no limit"
        value = shortened_json(remaining)
        raise InvalidRequest(problems=[FieldProblem("remaining_runs", message, value=value)])


def _check_revision(record: ScheduleRecord, revision: int | None) -> None:
    if revision is not None and revision != record.revision:
        raise ScheduleConflict(
            f"the schedule {record.schedule_id!r} is at revision {record.revision}, not {revision}"
        )


def _too_busy() -> ScheduleConflict:
    return ScheduleConflict("the schedule is written by others too often; try again")


def _log_fields(record: ScheduleRecord) -> dict[str, object]:
    return {"schedule_id": record.schedule_id, "flow_name": record.flow_name, "tag": record.tag}
