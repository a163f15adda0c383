"""Starts the runs of schedules: a source of the timekeeper, in every gateway.

One compare-and-set of the record decides what is due, and names the runs. Then they are started, and a second
write removes the starts that are done. A gateway that is killed in between leaves starts in the record, which
any other one starts again after a moment: the ids of the runs make that harmless.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.schedules.schedule_store import ScheduleStore, StoredSchedule
from pyoco_server.errors import NatsUnavailable, PyocoError, RunConflict, RunNotFound, UnreadableRecord
from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.records.runs.run_models import Job, RunStatus
from pyoco_server.records.schedules.schedule_models import DecisionOutcome, ScheduledStart, ScheduleRecord
from pyoco_server.runs.lifecycle.cancel_request import cancel_run
from pyoco_server.runs.lifecycle.durable_start import DurableStarter
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.schedules.record_size import check_room, fitted
from pyoco_server.schedules.schedule_decider import DecisionStep, EarlierRun, EarlierRuns
from pyoco_server.schedules.schedule_directory import GRACE_SEC, ScheduleDirectory
from pyoco_server.schedules.schedule_transitions import (
    decide,
    outcomes_between,
    runs_to_read,
    start_failed,
    without_starts,
)

log = logging.getLogger(__name__)

# Schedules that are processed concurrently, and starts of one of them.
_CONCURRENT: Final = 32
_CONCURRENT_STARTS: Final = 16
# After an error that is not an outage, a schedule is retried.
_RETRY_SEC: Final = 30.0
_NO_PROGRESS_SEC: Final = 0.5
# A server whose time cannot be read for so long must not stop all schedules.
_UNKNOWN_TIME_SEC: Final = 15.0


class ScheduleRunner:
    name = "schedules"

    def __init__(
        self,
        connection: Connection,
        directory: ScheduleDirectory,
        *,
        clock: Callable[[], float],
        knows_time: Callable[[], bool] = lambda: True,
    ) -> None:
        """`clock` is that of the server, once `knows_time`."""
        self._connection = connection
        self._directory = directory
        self._clock = clock
        self._knows_time = knows_time
        self._began = time.monotonic()
        self._store = ScheduleStore(connection)
        self._runs = RunStore(connection)
        self._starter = DurableStarter(connection)
        # By outcome, the occurrences of the records that this gateway has written.
        self.decision_counts: Counter[str] = Counter()
        # By key, why a schedule cannot be decided at present.
        self.problems: dict[str, str] = {}

    async def run_due(self, now: float) -> float | None:
        if not self._directory.ready:
            # The directory wakes the timekeeper when it is.
            return None
        if not self._knows_time() and time.monotonic() < self._began + _UNKNOWN_TIME_SEC:
            # A gateway with a wrong clock must not start tomorrow's run today.
            return now + _NO_PROGRESS_SEC
        keys = self._directory.take_due(now, _CONCURRENT)
        # Random order: fewer conflicts between gateways.
        random.shuffle(keys)
        results = await asyncio.gather(*map(self._process_due, keys), return_exceptions=True)
        outages = [error for error in results if isinstance(error, NatsUnavailable)]
        for key, result in zip(keys, results, strict=True):
            if isinstance(result, NatsUnavailable):
                self._directory.postpone(key, now)
            elif isinstance(result, BaseException):
                self._report(key, result)
        if outages:
            raise outages[0]
        return self._directory.next_at()

    async def settle(self, key: str) -> None:
        """Start what is decided and not known to be stored, also by another gateway."""
        found = await self._store.get_from_leader(key)
        if found is not None:
            await self._directory.put(await self._start_all(found, found.record.starts))

    async def on_written(self, written: StoredSchedule) -> None:
        """This gateway has created or changed a schedule."""
        await self._directory.put(written)
        # A run that a change waits for may have ended unnoticed.
        self._directory.postpone(written.record.key, self._clock())
        self._directory.wake()

    def on_deleted(self, key: str) -> None:
        """This gateway has deleted a schedule."""
        self._directory.remove(key)
        self.problems.pop(key, None)

    async def earlier_runs_of(self, record: ScheduleRecord) -> EarlierRuns:
        """What the leader knows of all earlier runs that are perhaps open."""
        unstored = {start.run_id for start in record.starts}
        return await self._read_earlier_runs(
            run.run_id for run in record.running if run.run_id not in unstored
        )

    def fitted(self, record: ScheduleRecord) -> ScheduleRecord:
        """Without older decisions and the newest buffered starts if it would be too large for NATS."""
        return fitted(record, most_bytes=self._connection.max_record_bytes, now=self._clock())

    def check_room(self, record: ScheduleRecord) -> None:
        """ScheduleFull if its triggers take too much."""
        check_room(record, most_bytes=self._connection.max_record_bytes)

    async def _process_due(self, key: str) -> None:
        """Decide a part of what is due of one schedule, and do it.

        The rest waits for the next call: ten thousand runs of a backfill must not delay other schedules.
        """
        found = await self._store.get_from_leader(key)
        if found is None:
            self.on_deleted(key)
            return
        more = await self._decide(found)
        self.problems.pop(key, None)
        if more:
            self._directory.postpone(key, self._clock())

    async def _decide(self, found: StoredSchedule) -> bool:
        """Store what is due, start it, and cancel what is in its way. True: call again at once."""
        before = found.record
        earlier_runs = await self._read_earlier_runs(runs_to_read(before))
        now = self._clock()
        # Exclusions make a search long.
        decided = await asyncio.to_thread(decide, before, now=now, earlier_runs=earlier_runs)
        decided = replace(decided, record=self.fitted(decided.record))
        if decided.record != before:
            try:
                revision = await self._store.replace(decided.record, revision=found.revision)
            except RevisionConflict:
                return True
            self.count(before, decided.record)
            found = StoredSchedule(decided.record, revision)
        new = {start.run_id for start in decided.record.starts} - {start.run_id for start in before.starts}
        # Another gateway has just decided the others, and is about to start them.
        mine = [
            start
            for start in decided.record.starts
            if start.run_id in new or start.decided_at <= now - GRACE_SEC
        ]
        found = await self._start_all(found, mine)
        await self._end_others(found.record, decided, earlier_runs)
        await self._directory.put(found)
        if found.record == before:
            # It waits for what another gateway has begun.
            self._directory.retry_in(before.key, _NO_PROGRESS_SEC)
        return decided.more and found.record != before

    async def _start_all(self, found: StoredSchedule, starts: Iterable[ScheduledStart]) -> StoredSchedule:
        """Start these, and store that they are done, or why they cannot be."""
        limit = asyncio.Semaphore(_CONCURRENT_STARTS)

        async def start(each: ScheduledStart) -> tuple[str, str | None]:
            async with limit:
                return each.run_id, await self._start(found.record, each)

        results = await asyncio.gather(*map(start, starts), return_exceptions=True)
        done = dict(result for result in results if not isinstance(result, BaseException))
        if done:
            found = await self._store_started(found, done)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return found

    async def _start(self, record: ScheduleRecord, start: ScheduledStart) -> str | None:
        """Store the run. Returns why it can never be stored, or None."""
        try:
            await self._starter.ensure_run(job_of_start(record, start))
        except PayloadTooLarge as error:
            return _failed(record, start, error)
        except NatsUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - it becomes the decision: a schedule does not get stuck
            return _failed(record, start, error)
        return None

    async def _store_started(self, found: StoredSchedule, done: dict[str, str | None]) -> StoredSchedule:
        while True:
            started = {run_id for run_id, problem in done.items() if problem is None}
            record = without_starts(found.record, started)
            for run_id, problem in done.items():
                if problem is not None:
                    record = start_failed(record, run_id, problem, now=self._clock())
            record = self.fitted(record)
            if record == found.record:
                return found
            try:
                revision = await self._store.replace(record, revision=found.revision)
                self.count(found.record, record)
                return StoredSchedule(record, revision)
            except RevisionConflict:
                newer = await self._store.get_from_leader(found.record.key)
            if newer is None or newer.record.incarnation != found.record.incarnation:
                return found
            found = newer

    async def _end_others(
        self, record: ScheduleRecord, decided: DecisionStep, earlier_runs: EarlierRuns
    ) -> None:
        """Cancel the open runs that the next one waits for."""
        policy = "terminate_other" if decided.terminate else "cancel_other"
        for run_id in decided.runs_to_cancel:
            earlier = earlier_runs.get(run_id)
            if earlier is not None and (earlier.forced if decided.terminate else earlier.cancelling):
                continue
            by, reason = f"schedule:{record.schedule_id}", f"overlap policy {policy}"
            try:
                await cancel_run(
                    self._connection,
                    self._runs,
                    run_id,
                    ANYBODY,
                    by=by,
                    reason=reason,
                    force=decided.terminate,
                )
            except RunNotFound:
                log.info("the run to cancel was deleted", extra={"run_id": run_id})
            except (RunConflict, UnreadableRecord) as error:
                log.warning("the earlier run cannot be cancelled: %s", error, extra={"run_id": run_id})

    async def _read_earlier_runs(self, run_ids: Iterable[str]) -> EarlierRuns:
        asked = list(run_ids)
        return dict(zip(asked, await asyncio.gather(*map(self._read_earlier_run, asked)), strict=True))

    async def _read_earlier_run(self, run_id: str) -> EarlierRun:
        try:
            found = await self._runs.get_from_leader(run_id)
        except UnreadableRecord:
            # It must not hold up the schedule for good.
            found = None
        if found is None:
            return EarlierRun(is_open=False)
        run = found.snapshot
        return EarlierRun(
            is_open=not run.status.terminal,
            failed=run.status is RunStatus.FAILED,
            cancelling=run.cancel_requested_at is not None,
            forced=run.cancel_force is True,
            status=run.status,
        )

    def count(self, before: ScheduleRecord, after: ScheduleRecord) -> None:
        new = outcomes_between(before, after)
        self.decision_counts += new
        if missed := new[DecisionOutcome.MISSED]:
            window = after.window_sec
            log.warning("schedule %s missed %d occurrences, older than %g s", after.key, missed, window)

    def _report(self, key: str, error: BaseException) -> None:
        """One schedule that fails stops no other."""
        self.problems[key] = _reason(error)
        if isinstance(error, PyocoError):
            log.warning("schedule %s cannot be decided: %s", key, error, extra=error.error.log_fields())
        else:
            log.error("schedule %s: unexpected error", key, exc_info=error)
        self._directory.postpone(key, self._clock() + _RETRY_SEC)


def job_of_start(record: ScheduleRecord, start: ScheduledStart) -> Job:
    """The job, the same each time."""
    job = new_job(
        run_id=start.run_id,
        flow_name=record.flow_name,
        tag=record.tag,
        tags=record.tags,
        params=record.params | start.params,
        timeout_sec=record.timeout_sec,
        workflow_yaml=None if record.workflow_yaml is None else record.workflow_yaml.encode(),
        cause=Cause(kind=CauseKind.SCHEDULE, id=record.schedule_id, at=start.scheduled_for),
    )
    job.submitted_at = start.decided_at
    job.tenant_id, job.api_key_id = record.tenant_id, record.api_key_id
    return job


def _failed(record: ScheduleRecord, start: ScheduledStart, error: Exception) -> str:
    fields = {"run_id": start.run_id}
    if isinstance(error, PyocoError):
        reason = _reason(error)
        log.error("schedule %s cannot start a run: %s", record.key, reason, extra=fields)
        return reason
    log.error("schedule %s cannot start a run", record.key, exc_info=error, extra=fields)
    return _reason(error)


def _reason(error: BaseException) -> str:
    problems = error.problems if isinstance(error, PyocoError) else ()
    return "; ".join(map(str, problems)) or str(error) or type(error).__name__
