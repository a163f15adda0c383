"""Schedules beside the clients: each occurrence must have one run, or one reason.

The bucket of schedules keeps every write here, so that every decision is visible, and not only the last ones.
"""

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.schedules.schedule_store import ScheduleStore
from pyoco_server.broker.streams_and_buckets import resources
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.records.runs.run_models import decode_snapshot
from pyoco_server.records.schedules.schedule_models import (
    DecisionOutcome,
    Overlap,
    ScheduleRecord,
    ScheduleSpec,
    decode_schedule,
)
from pyoco_server.schedules.schedule_transitions import paused
from tests.faults.chaos.history import read_everything
from tests.support.waiting import eventually

# A second instead of two: a scenario is shorter than the faults of a day.
EVERY_SEC: Final = 1.0
# The runs of some are longer than that, so that they overlap.
_KINDS: Final = (
    (Overlap.ALLOW_ALL, "noop", 0.0),
    (Overlap.SKIP, "chain", 0.5),
    (Overlap.BUFFER_ONE, "chain", 0.4),
    (Overlap.CANCEL_OTHER, "chain", 0.4),
)


class Schedules:
    """Creates schedules of each kind, and reads what became of their occurrences."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._store = ScheduleStore(connection)
        self._keys: list[str] = []

    async def keep_everything(self) -> None:
        """Create the bucket so that it keeps every write."""
        name = f"KV_{self._connection.config.schedules_kv_bucket}"
        bucket = next(each for each in resources(self._connection.config) if each.name == name)
        await jetstream_api.ensure_stream(self._connection, bucket.evolve(max_msgs_per_subject=-1))

    async def create(self, count: int, *, every_sec: float = EVERY_SEC) -> None:
        now = time.time()
        for number in range(count):
            overlap, flow, task_sec = _KINDS[number % len(_KINDS)]
            record = ScheduleRecord(
                schedule_id=f"{overlap}-{number}",
                incarnation=str(now),
                created_at=now,
                updated_at=now,
                flow_name=flow,
                params={"number": -1, "task_sec": task_sec},
                spec=ScheduleSpec(every_sec=every_sec),
                overlap=overlap,
                # Whatever is killed, and however slow the machine is, nothing is missed.
                catchup_window_sec=600.0,
                cursor=now,
            )
            await self._store.create(record)
            self._keys.append(record.key)

    async def stop(self) -> None:
        """Pause them, and wait until all that is decided is stored."""
        for key in self._keys:
            await eventually(partial(self._pause, key), describe=f"{key} is paused")
        for key in self._keys:
            await eventually(partial(self._is_settled, key), describe=f"the runs of {key} are stored")

    async def check(self) -> "OccurrenceReport":
        config = self._connection.config
        versions: dict[str, list[ScheduleRecord]] = defaultdict(list)
        bucket = config.schedules_kv_bucket
        for message in await read_everything(self._connection, f"KV_{bucket}", f"$KV.{bucket}.*.*"):
            # A test write of a gateway is a marker.
            if message.data:
                record = decode_schedule(message.data)
                versions[record.schedule_id].append(record)
        runs: dict[str, Cause] = {}
        for message in await read_everything(
            self._connection, f"KV_{config.runs_kv_bucket}", f"$KV.{config.runs_kv_bucket}.*"
        ):
            if message.data and b'"schedule"' in message.data:
                run = decode_snapshot(message.data)
                if isinstance(run.cause, Cause) and run.cause.kind is CauseKind.SCHEDULE:
                    runs[run.run_id] = run.cause
        return check_occurrences(versions, runs)

    async def _pause(self, key: str) -> bool:
        try:
            found = await self._store.get_from_leader(key)
            assert found is not None
            if not found.record.paused:
                record = paused(found.record, note="the scenario has ended", now=time.time())
                await self._store.replace(record, revision=found.revision)
        except (NatsUnavailable, RevisionConflict):
            return False
        return True

    async def _is_settled(self, key: str) -> bool:
        try:
            found = await self._store.get_from_leader(key)
        except NatsUnavailable:
            return False
        return found is not None and not found.record.starts and not found.record.buffer


@dataclass
class OccurrenceReport:
    started: int = 0
    # Skipped, with a reason.
    skipped: int = 0
    # Occurrences without a decision, or with several, or whose run is missing or superfluous.
    wrong: list[str] = field(default_factory=list)


def check_occurrences(versions: dict[str, list[ScheduleRecord]], runs: dict[str, Cause]) -> OccurrenceReport:
    """Of each schedule all versions of its record, and of each run of a schedule its cause."""
    report = OccurrenceReport()
    named: set[str] = set()
    for name, records in versions.items():
        every_sec = float(records[0].spec.every_sec or EVERY_SEC)
        outcomes = _outcomes(records, every_sec)
        first, last = records[0].cursor, records[-1].cursor
        for nominal in _nominal_times(first, last, every_sec):
            found = outcomes.pop(nominal, set())
            if len(found) != 1:
                report.wrong.append(f"{name} at {nominal}: {sorted(map(str, found)) or 'not decided'}")
                continue
            [(outcome, run_id)] = found
            report.started += outcome is DecisionOutcome.STARTED
            report.skipped += outcome is not DecisionOutcome.STARTED
            if outcome is DecisionOutcome.STARTED:
                named.add(run_id)
                if run_id not in runs or (runs[run_id].id, runs[run_id].at) != (name, nominal):
                    report.wrong.append(f"{name} at {nominal}: run {run_id} is {runs.get(run_id)}")
        report.wrong += [f"{name} at {nominal}: {found}" for nominal, found in outcomes.items()]
    report.wrong += [f"run {run_id} without a decision: {runs[run_id]}" for run_id in set(runs) - named]
    return report


def _outcomes(
    records: Iterable[ScheduleRecord], every_sec: float
) -> dict[float, set[tuple[DecisionOutcome, str]]]:
    """What was decided about each nominal time, other than to wait, with the run that was started."""
    found: dict[float, set[tuple[DecisionOutcome, str]]] = defaultdict(set)
    for record in records:
        for decision in record.decisions:
            if decision.outcome is not DecisionOutcome.BUFFERED:
                run_id = str(decision.run_id) if decision.outcome is DecisionOutcome.STARTED else ""
                for number in range(decision.count):
                    found[decision.scheduled_for + number * every_sec].add((decision.outcome, run_id))
    return found


def _nominal_times(first: float, last: float, every_sec: float) -> list[Any]:
    start = int(first // every_sec) + 1
    return [number * every_sec for number in range(start, int(last // every_sec) + 1)]
