"""Handles one delivery from receipt to acknowledgement: decode, claim, execute, store, ack.

The outcomes: what happened, the state of the run, what is sent to the queue, and the dead letter.

    the flow ended                COMPLETED or CANCELLED        ACK
    the job cannot be decoded     FAILED, if its run is known   TERM         DLQ invalid_job
    the flow cannot be resolved   FAILED                        ACK          DLQ flow_not_found
    the execution failed          FAILED                        ACK          DLQ, if configured
    it waits for people           WAITING_HUMAN                 ACK
    it waits for anything else    WAITING                       ACK
    NATS failed on the way        what was stored last          NAK(delay)
    the run cannot be read        as it was before              NAK(delay)
    no executor could start it    as it was before              NAK(delay)
    the worker stops              RUNNING, handed back          NAK
    another delivery owns it      unchanged                     nothing
    the job is obsolete           unchanged                     ACK
"""

import asyncio
import logging
from collections.abc import Awaitable

import msgspec

from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.broker.stores.runs.run_store import StoredRun
from pyoco_server.errors import NatsUnavailable, UnreadableRecord
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.run_models import Job, Reason, RunSnapshot, RunStatus, decode_job
from pyoco_server.records.value_types import is_run_id
from pyoco_server.runs.lifecycle.ownership import NotOwner, OwnedRun, RunTaken, claim
from pyoco_server.telemetry import tracing
from pyoco_server.telemetry.run_fields import remember_run
from pyoco_server.worker.executors.executor import ExecutorFailedToStart, RunExecutor
from pyoco_server.worker.ipc.protocol import Outcome
from pyoco_server.worker.session.run_execution import RunExecution, terminal_snapshot
from pyoco_server.worker.session.worker_services import WorkerServices

log = logging.getLogger(__name__)

# The delay doubles with each delivery of a job that cannot be started, so that an outage uses few of them.
_FIRST_DELAY_SEC = 2.0
_LONGEST_DELAY_SEC = 60.0


class RunSession:
    """Handles one delivery; whatever happens, it is acknowledged or redelivered."""

    def __init__(self, services: WorkerServices, delivery: Delivery, executor: RunExecutor) -> None:
        self._services = services
        self._delivery = delivery
        self._executor = executor
        # Known once the job is decoded.
        self.run_id: str | None = None
        # Whether NATS did not accept what had to be stored.
        self.could_not_store = False
        # Whether the run, and with it the message, has another owner.
        self._lost = False

    async def process(self) -> str | None:
        """The id of the run that was handled, if there was one."""
        self._services.in_progress.add(self._delivery.id)
        try:
            try:
                job = decode_job(self._delivery.payload)
            except UnreadableRecord as error:
                return await self._reject(error)
            self.run_id = job.run_id
            await self._process_job(job)
        except ExecutorFailedToStart as error:
            log.error(
                "a run returns to the queue, this worker cannot start an executor: %s",
                error,
                extra={"run_id": self.run_id},
            )
            await self._return_to_queue(self._retry_delay_sec)
            raise
        except UnreadableRecord as error:
            # Another worker may be of a newer version. Otherwise the deliveries end at their limit.
            fields = error.error.log_fields(run_id=self.run_id)
            log.error("a run returns to the queue: %s", error, extra=fields)
            await self._return_to_queue(self._retry_delay_sec)
            return None
        except NatsUnavailable as error:
            log.warning("a run returns to the queue: %s", error, extra=self._unavailable())
            self.could_not_store = True
            await self._return_to_queue(self._retry_delay_sec)
            return None
        except asyncio.CancelledError:
            await self._return_to_queue()
            raise
        finally:
            self._services.in_progress.discard(self._delivery.id)
        return job.run_id

    async def _process_job(self, job: Job) -> None:
        services = self._services
        remember_run(job.run_id, flow_name=job.flow_name, tag=job.tag, worker_id=services.worker_id)
        try:
            owned = await claim(
                services.store,
                services.queue,
                job,
                delivery=self._delivery.id,
                expected_revision=self._delivery.revision,
                worker_id=services.worker_id,
                worker_instance=services.instance_id,
                in_progress=services.in_progress,
                max_bytes=services.max_snapshot_bytes,
            )
        except RunTaken as why:
            # The session that has the run acknowledges the message.
            log.info("dropped a delivery: %s", why, extra=self._context(job))
            return
        except NotOwner as why:
            log.info("dropped a job: %s", why, extra=self._context(job))
            await self._delivery.ack()
            return
        services.presence.began(job.run_id)
        status: str | None = None
        try:
            status = await self._execute(job, owned)
        finally:
            services.presence.ended(job.run_id, status)

    async def _execute(self, job: Job, owned: OwnedRun) -> str | None:
        execution = RunExecution(self._services, self._delivery, self._executor, job, owned)
        try:
            outcome = await execution.run()
        except asyncio.CancelledError:
            await self._executor.kill()
            await execution.flush()
            await self._give_up(owned, owned.hand_back())
            raise
        except ExceptionGroup as group:
            await self._executor.kill()
            for kind in (ExecutorFailedToStart, NatsUnavailable, UnreadableRecord):
                found, _ = group.split(kind)
                if found is not None:
                    # A run that cannot be read cannot be handed back either.
                    if kind is not UnreadableRecord and not execution.has_started:
                        await self._give_up(owned, execution.unclaim())
                    elif kind is ExecutorFailedToStart:
                        await self._give_up(owned, owned.hand_back())
                    raise found.exceptions[0] from None
            lost, other = group.split(NotOwner)
            if lost is None or other is not None:
                raise
            # Fenced: nothing that the executor still does has an effect.
            log.warning("lost a run: %s", lost.exceptions[0], extra=self._context(job))
            return None
        finally:
            await execution.close()
        if outcome is None or outcome.not_started or outcome.must_continue:
            self.could_not_store = outcome is None
            await self._return_to_queue(self._retry_delay_sec if outcome is None else 0.0)
            return None
        await self._report(job, owned.snapshot, outcome)
        if owned.snapshot.status.terminal:
            await execution.close_waits()
        await self._delivery.ack()
        return owned.snapshot.status

    @property
    def _retry_delay_sec(self) -> float:
        return min(_FIRST_DELAY_SEC * 2.0 ** min(self._delivery.number - 1, 10), _LONGEST_DELAY_SEC)

    async def _give_up(self, owned: OwnedRun, write: Awaitable[object]) -> None:
        """Store that the worker gave the run up, before its job returns to the queue: it was no crash."""
        try:
            await write
        except NotOwner as why:
            self._lost = isinstance(why, RunTaken)
            log.info("a run is not handed back: %s", why, extra={"run_id": owned.snapshot.run_id})
        except NatsUnavailable as error:
            log.warning("the hand-back of a run is not stored: %s", error, extra=self._unavailable())

    async def _report(self, job: Job, final: RunSnapshot, outcome: Outcome) -> None:
        if not final.status.parked:
            tracing.record_run(final, self._delivery.headers)
        if final.status is RunStatus.FAILED:
            await self._services.failures.report(job, self._delivery, outcome)
        elif log.isEnabledFor(logging.INFO):
            log.info("run %s", final.status, extra=self._context(job))

    async def _reject(self, problem: UnreadableRecord) -> str | None:
        """Fail the run of a job that cannot be decoded, if it names one; the message is not redelivered."""
        run_id = _run_id_of_unreadable(self._delivery.payload)
        error = f"the job cannot be read: {problem.detail}"
        stored = await self._find(run_id) if run_id else None
        if stored is not None:
            owned = OwnedRun(self._services.store, stored, max_bytes=self._services.max_snapshot_bytes)
            outcome = Outcome(status=RunStatus.FAILED, reason=Reason.INVALID_JOB, error=error)
            try:
                await owned.write(lambda snapshot: terminal_snapshot(snapshot, outcome))
            except NotOwner as why:
                log.info("a job that cannot be decoded changes nothing: %s", why, extra={"run_id": run_id})
        tenant_id = None if stored is None else stored.snapshot.tenant_id
        failures = self._services.failures
        await failures.report_invalid(self._delivery, run_id, error, problem, tenant_id=tenant_id)
        await self._delivery.term()
        return run_id

    async def _find(self, run_id: str) -> StoredRun | None:
        try:
            return await self._services.store.get_from_leader(run_id)
        except UnreadableRecord:
            return None

    async def _return_to_queue(self, delay_sec: float = 0.0) -> None:
        if self._lost:
            return
        # Before the redelivery: this worker may get it.
        self._services.in_progress.discard(self._delivery.id)
        try:
            await self._delivery.nak(delay_sec)
        except NatsUnavailable as error:
            log.warning("the job is redelivered after AckWait: %s", error, extra=self._unavailable())

    def _unavailable(self) -> dict[str, object]:
        return Err.NATS_UNAVAILABLE.log_fields(run_id=self.run_id)

    def _context(self, job: Job) -> dict[str, object]:
        return {
            "run_id": job.run_id,
            "flow_name": job.flow_name,
            "tag": job.tag,
            "worker_id": self._services.worker_id,
        }


def _run_id_of_unreadable(payload: bytes) -> str | None:
    """The run that a job names, whatever else is wrong with it; `run_id_in` expects a readable job."""
    try:
        fields = msgspec.json.decode(payload)
    except (ValueError, RecursionError):
        return None
    run_id = fields.get("run_id") if isinstance(fields, dict) else None
    return run_id if isinstance(run_id, str) and is_run_id(run_id) else None
