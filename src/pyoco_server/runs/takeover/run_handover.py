"""Hands over the runs that a lost worker had started: their jobs are delivered again at once.

The handover is written into the snapshot first, by compare-and-set: of several gateways one wins, and a run
that was written since is left alone. Then the job is redelivered, as if its worker had returned it. It is the
same message, so that the delivery counts: a run that kills its workers ends after MaxDeliver. The delivery of
the next owner is later than that of the lost one, which can write nothing any more if it comes back.
"""

import logging
import time
from collections import Counter
from dataclasses import dataclass

from msgspec import UNSET, structs

from pyoco_server.broker.client.connection import PayloadTooLarge
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.runs.run_store import StoredRun
from pyoco_server.errors import NatsForbidden, NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus
from pyoco_server.runs.lifecycle.ownership import time_used_until_now
from pyoco_server.runs.lifecycle.unowned_runs import UnownedRuns
from pyoco_server.runs.sweep.exhausted_deliveries import UndeliverableJobs
from pyoco_server.runs.takeover.lost_workers import ProbedWorker

log = logging.getLogger(__name__)

_OWNED = (RunStatus.RUNNING, RunStatus.CANCELLING)


@dataclass(frozen=True, slots=True)
class _HandedOver:
    """A run whose handover is written, and whose job is to be redelivered."""

    run_id: str
    revision: int
    tag: str
    sequence: int
    worker_id: str


def is_to_hand_over(snapshot: RunSnapshot, instance_id: str) -> bool:
    """Whether this process owns the run. One that was handed back is in the queue already."""
    return (
        snapshot.status in _OWNED
        and snapshot.worker_instance == instance_id
        and snapshot.delivery is not None
        and snapshot.handed_back is UNSET
        and snapshot.handed_over_at is UNSET
    )


class RunHandover:
    def __init__(self, unowned_runs: UnownedRuns, undeliverable_jobs: UndeliverableJobs) -> None:
        self._unowned_runs = unowned_runs
        self._undeliverable_jobs = undeliverable_jobs
        self._unfinished: list[_HandedOver] = []
        # Whether the server has refused a redelivery since the last connect.
        self._forbidden = False
        # What was handed over: `running` runs, and `unclaimed` jobs.
        self.counts: Counter[str] = Counter()

    def on_connect(self) -> None:
        """The rights may have changed."""
        self._forbidden = False

    async def hand_over(self, run_id: str, owner: ProbedWorker) -> None:
        """Hand the run over if the process still owns it."""
        stored = await self._unowned_runs.stored(run_id)
        if stored is None or self._forbidden or not is_to_hand_over(stored.snapshot, owner.instance_id):
            return
        snapshot = stored.snapshot
        assert snapshot.delivery is not None
        if not await self._unowned_runs.queue.is_job_of(run_id, sequence=snapshot.delivery.sequence):
            # The sweep publishes a job that was lost.
            return
        limits = await self._unowned_runs.queue.limits(snapshot.tag)
        if limits.exhausted_by(snapshot.delivery.number):
            await self._undeliverable_jobs.settle(stored, *snapshot.delivery)
        elif (revision := await self._write(stored)) is not None:
            handed_over = _HandedOver(
                run_id, revision, snapshot.tag, snapshot.delivery.sequence, owner.worker_id
            )
            self._unfinished.append(handed_over)
            await self._redeliver(handed_over)

    async def finish(self) -> None:
        """Redeliver what could not be redelivered before, unless it was written since."""
        for handed_over in list(self._unfinished):
            if await self._unowned_runs.stored(handed_over.run_id, handed_over.revision) is None:
                self._unfinished.remove(handed_over)
            else:
                await self._redeliver(handed_over)

    async def _write(self, stored: StoredRun) -> int | None:
        """The revision of the handover; None if the run was written since, or has no room for it."""
        now = time.time()
        handed_over = structs.replace(stored.snapshot, handed_over_at=now, updated_at=now)
        if stored.snapshot.timeout_sec is not None:
            # The next owner adds the time since this write.
            handed_over.used_sec = await time_used_until_now(self._unowned_runs.store, stored)
        try:
            return await self._unowned_runs.store.replace(handed_over, revision=stored.revision)
        except (RevisionConflict, PayloadTooLarge) as why:
            log.info("a run is not handed over: %s", why, extra={"run_id": stored.snapshot.run_id})
            return None

    async def _redeliver(self, handed_over: _HandedOver) -> None:
        try:
            await self._unowned_runs.queue.redeliver(handed_over.tag, handed_over.sequence)
        except NatsForbidden as error:
            self._forbidden = True
            log.error(
                "a run is redelivered after AckWait only; give the gateway's user the rights that "
                "`pyoco-server-admin nats-config` prints: %s",
                error,
                extra=Err.NATS_UNAVAILABLE.log_fields(run_id=handed_over.run_id),
            )
        except NatsUnavailable as error:
            log.info("a redelivery is retried: %s", error, extra={"run_id": handed_over.run_id})
            return
        else:
            self.counts["running"] += 1
            log.warning(
                "handed a run over to the queue: its worker %s is gone",
                handed_over.worker_id,
                extra={
                    "run_id": handed_over.run_id,
                    "worker_id": handed_over.worker_id,
                    "tag": handed_over.tag,
                },
            )
        self._unfinished.remove(handed_over)
