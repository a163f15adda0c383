"""Finds lost workers and hands their runs over, in seconds instead of after AckWait.

Every gateway does this without a lease: a handover is a compare-and-set, so that the death of one gateway
delays nothing. A mistake costs the task in progress only: the fence of ownership decides who may write.
"""

import asyncio
import logging
import time
from dataclasses import dataclass

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.broker.jetstream.stream_reads import read_batch
from pyoco_server.broker.queue.worker_probe import WorkerProbe, is_instance_id
from pyoco_server.errors import IndexNotReady, NatsUnavailable, UnreadableRecord
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.moments import iso_time
from pyoco_server.records.workers.worker_models import WorkerRecord
from pyoco_server.runs.index.run_lists import RunLists
from pyoco_server.runs.lifecycle.unowned_runs import UnownedRuns
from pyoco_server.runs.open_runs import OpenRun, OpenRuns
from pyoco_server.runs.sweep.exhausted_deliveries import UndeliverableJobs
from pyoco_server.runs.takeover.lost_workers import LostWorkers, ProbedWorker, WorkerHead
from pyoco_server.runs.takeover.run_handover import RunHandover
from pyoco_server.runs.takeover.unclaimed_jobs import Delivered, UnclaimedJobs

log = logging.getLogger(__name__)

_PROBE_EVERY_SEC = 0.5
# The feed of runs may be behind, and a request may fail: runs of a lost worker are searched for this long.
_SEARCHED_SEC = 10.0
_CONCURRENT = 16

_decode_head = record_decoder(WorkerHead, whole=False)


@dataclass(slots=True)
class _Search:
    """The search for what a lost worker had."""

    process: ProbedWorker
    # Until when it goes on, by the monotonic clock.
    until: float
    # What was delivered when it disappeared; None once that is handed over.
    unclaimed: Delivered | None


class LostWorkerLoop:
    def __init__(
        self,
        connection: Connection,
        lists: RunLists,
        runs: OpenRuns,
        unowned_runs: UnownedRuns,
        undeliverable_jobs: UndeliverableJobs,
    ) -> None:
        config = connection.config
        self._connection = connection
        self._lists = lists
        self._runs = runs
        self._enabled = config.worker_lost_after_sec > 0
        self._silent_sec = config.worker_disconnect_timeout_sec
        self._workers = LostWorkers(config.worker_lost_after_sec)
        self._probe = WorkerProbe(connection)
        self._handover = RunHandover(unowned_runs, undeliverable_jobs)
        self._unclaimed = UnclaimedJobs(connection, unowned_runs, runs)
        self._records_stream = f"KV_{config.workers_kv_bucket}"
        self._records_subject = f"$KV.{config.workers_kv_bucket}.*"
        self._records = RenewableSubscription(
            connection, lambda message: self._on_record(message.data), self._records_subject
        )
        # By instance id, what was delivered when it disappeared.
        self._delivered: dict[str, Delivered] = {}
        self._searches: list[_Search] = []
        # The connection on which the records of all workers were read.
        self._connected_since = 0.0
        self._loop = BackgroundLoop("takeover", self._step)

    @property
    def counts(self) -> dict[str, int]:
        """How much this gateway has handed over: runs that were running, and unclaimed jobs."""
        return dict(self._handover.counts)

    def is_lost(self, worker: WorkerRecord) -> bool:
        return self._workers.is_lost(worker.instance_id)

    async def start(self) -> None:
        if self._enabled:
            self._loop.start()

    async def close(self) -> None:
        await self._loop.close()

    def _on_record(self, data: bytes) -> None:
        try:
            record = _decode_head(data)
        except UnreadableRecord:
            # A marker, or a record that cannot be read.
            return
        if is_instance_id(record.instance_id) and self._workers.on_record(record):
            # It has to be seen connected before it can be lost, and waits for that before its first run.
            self._loop.wake()

    async def _step(self) -> None:
        # First without a pause: workers that have started at the same time wait until they are seen.
        await self._round()
        await self._loop.pause(_PROBE_EVERY_SEC)

    async def _round(self) -> None:
        await self._connection.wait_ready()
        since = self._connection.state.since
        is_new = self._connected_since != since
        if is_new:
            self._workers.on_outage()
            self._handover.on_connect()
        try:
            await self._records.renew()
            if is_new:
                await self._read_records()
                self._connected_since = since
            await self._look_for_lost_workers()
        except NatsUnavailable as error:
            log.debug("workers cannot be probed: %s", error)
            self._workers.on_outage()
            return
        try:
            await self._hand_over()
        except (NatsUnavailable, IndexNotReady) as error:
            log.debug("the handover is retried: %s", error)

    async def _read_records(self) -> None:
        """Workers that have started before: their next heartbeat may be seconds away.

        Not those that were silent for long: there may be thousands of dead ones, each probed ten times.
        """
        since = iso_time(max(0.0, time.time() - self._silent_sec))
        after = 0
        while batch := await read_batch(
            self._connection,
            self._records_stream,
            self._records_subject,
            after=after,
            since="" if after else since,
        ):
            for message in batch:
                self._on_record(message.data)
            if not batch[-1].num_pending:
                return
            after = batch[-1].sequence

    async def _look_for_lost_workers(self) -> None:
        # Records that arrive meanwhile add others.
        asked = list(self._workers.probed)
        if not asked:
            return
        disconnected = await self._probe.disconnected(asked)
        now = time.monotonic()
        found = self._workers.on_probe(asked, disconnected, now)
        for process in found.missing:
            self._delivered[process.instance_id] = await self._unclaimed.delivered(process.tags)
        for process in found.lost:
            log.warning(
                "worker %s is gone: its connection to NATS was closed; its runs are handed over",
                process.worker_id,
                extra={"worker_id": process.worker_id},
            )
            delivered = self._delivered.pop(process.instance_id, None)
            self._searches.append(_Search(process, now + _SEARCHED_SEC, delivered))
        for instance_id in self._delivered.keys() - disconnected:
            del self._delivered[instance_id]

    async def _hand_over(self) -> None:
        if not self._searches:
            return
        # A claim that is not in the list yet would be missed.
        await self._lists.caught_up()
        await self._handover.finish()
        for search in list(self._searches):
            if not self._workers.is_lost(search.process.instance_id):
                # It has come back: what it claims from now on is not to be taken from it.
                self._searches.remove(search)
                continue
            await self._hand_over_runs(search.process)
            if search.unclaimed is not None:
                self._handover.counts["unclaimed"] += await self._unclaimed.publish_again(search.unclaimed)
                search.unclaimed = None
            if time.monotonic() > search.until:
                self._searches.remove(search)

    async def _hand_over_runs(self, process: ProbedWorker) -> None:
        owned: list[OpenRun] = []
        async for group in self._runs.active_groups():
            owned += [run for run in group if _is_owned(run, process.instance_id)]
        for start in range(0, len(owned), _CONCURRENT):
            part = owned[start : start + _CONCURRENT]
            await asyncio.gather(*(self._hand_over_run(run, process) for run in part))

    async def _hand_over_run(self, run: OpenRun, process: ProbedWorker) -> None:
        try:
            await self._handover.hand_over(run.run_id, process)
        except NatsUnavailable:
            raise
        except Exception:
            # One run must not stop the others.
            log.exception("a run cannot be handed over", extra={"run_id": run.run_id})


def _is_owned(run: OpenRun, instance_id: str) -> bool:
    return run.state.worker_instance == instance_id and run.state.handed_over_at is None
