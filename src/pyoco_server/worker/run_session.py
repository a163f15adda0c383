"""One delivery from receipt to acknowledgement: decode, claim, execute, record, answer the queue.

What becomes of it is the table of spec 1, appendix E:

    the job cannot be read        FAILED, if its run is known   TERM         DLQ invalid_job
    the flow cannot be resolved   FAILED                        ACK          DLQ flow_not_found
    the execution failed          FAILED                        ACK          DLQ, if configured
    NATS failed on the way        whatever was stored           NAK(delay)
    no executor could begin it    as it was before              NAK
"""

import asyncio
import logging
import time

import msgspec
from msgspec import structs

from pyoco_server import tracing
from pyoco_server.broker.work_queue import Delivery
from pyoco_server.errors import Err, NatsUnavailable
from pyoco_server.models import (
    Job,
    JournalEntry,
    Reason,
    RerunMode,
    RunSnapshot,
    RunStatus,
    TaskStatus,
    decode_job,
    encode,
    is_run_id,
)
from pyoco_server.runs.ownership import NotOwner, OwnedRun, RunEnded, RunTaken, claim
from pyoco_server.worker.executor import ExecutorCrashed, ExecutorFailedToStart, RunExecutor, TaskOverdue
from pyoco_server.worker.failure_report import LAST_OUTPUT
from pyoco_server.worker.protocol import Limited, Outcome, Run
from pyoco_server.worker.run_keeper import RunKeeper
from pyoco_server.worker.run_recorder import RunRecorder
from pyoco_server.worker.services import WorkerServices

log = logging.getLogger(__name__)

_NAK_DELAY_SEC = 2.0
# Long enough for another worker to take the run, or for somebody to mend this one.
NO_EXECUTOR_DELAY_SEC = 10.0
_WRITE_RETRY_SEC = 0.25
_REUSING = {RerunMode.FAILED, RerunMode.TASK}


class RunSession:
    """Handles one delivery; whatever happens, the queue is told or will deliver again by itself."""

    def __init__(self, services: WorkerServices, delivery: Delivery, executor: RunExecutor) -> None:
        self._services = services
        self._delivery = delivery
        self._executor = executor

    async def process(self) -> str | None:
        """The id of the run that was handled, if there was one."""
        try:
            try:
                job = decode_job(self._delivery.payload)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                return await self._reject(str(error) or type(error).__name__)
            await self._process_job(job)
        except ExecutorFailedToStart as error:
            log.error("a run goes back to the queue, this worker cannot start an executor: %s", error)
            await self._hand_back(NO_EXECUTOR_DELAY_SEC)
            raise
        except NatsUnavailable as error:
            log.warning("a run goes back to the queue: %s", error, extra=Err.NATS_UNAVAILABLE.log_fields())
            await self._hand_back(_NAK_DELAY_SEC)
            return None
        except asyncio.CancelledError:
            await self._hand_back()
            raise
        return job.run_id

    async def _process_job(self, job: Job) -> None:
        services = self._services
        try:
            owned = await claim(
                services.store,
                services.queue,
                job,
                delivery=self._delivery.token,
                expected_revision=self._delivery.revision,
                worker_id=services.worker_id,
                max_bytes=services.max_snapshot_bytes,
            )
        except RunTaken as why:
            # The message is the other worker's to acknowledge.
            log.info("dropped a delivery: %s", why, extra=self._context(job))
            return
        except NotOwner as why:
            log.info("dropped a job: %s", why, extra=self._context(job))
            await self._delivery.ack()
            return
        services.presence.began(job.run_id)
        status: str | None = None
        try:
            status = await self._execute_and_conclude(job, owned)
        finally:
            services.presence.ended(job.run_id, status)

    async def _execute_and_conclude(self, job: Job, owned: OwnedRun) -> str | None:
        services = self._services
        recorder = RunRecorder(
            services.connection,
            services.journal,
            services.logs,
            job.run_id,
            assure_ownership=lambda: owned.assure(services.ack_wait_sec / 2),
        )
        try:
            outcome = await self._execute_watched(job, owned, recorder)
        except asyncio.CancelledError:
            await self._executor.abandon()
            # The next owner goes on from what this one has finished.
            await recorder.settle()
            raise
        except ExceptionGroup as group:
            await self._executor.abandon()
            for kind in (ExecutorFailedToStart, NatsUnavailable):
                found, _ = group.split(kind)
                if found is not None:
                    raise found.exceptions[0] from None
            lost, other = group.split(NotOwner)
            if lost is None or other is not None:
                raise
            # Fenced: whatever the executor was still doing has no effect any more.
            log.warning("lost a run: %s", lost.exceptions[0], extra=self._context(job))
            return None
        finally:
            await recorder.close()
        if outcome is None:
            await self._hand_back(_NAK_DELAY_SEC)
            return None
        if outcome.not_begun:
            await self._hand_back()
            return None
        tracing.tell_run(owned.snapshot, self._delivery.headers)
        if owned.snapshot.status is RunStatus.FAILED:
            await self._services.failures.tell(job, self._delivery, outcome)
        else:
            log.info("run %s", owned.snapshot.status, extra=self._context(job))
        await self._delivery.ack()
        return owned.snapshot.status

    async def _execute_watched(self, job: Job, owned: OwnedRun, recorder: RunRecorder) -> Outcome | None:
        """Execute and store the end; None when NATS answers but does not take it.

        A run that was not begun has no end, and is not ours any more.
        """
        keeper = RunKeeper(self._services, self._delivery, owned, self._executor)
        self._services.wakers[job.run_id] = keeper.wake
        try:
            async with asyncio.TaskGroup() as group:
                keeper.start(group)
                try:
                    outcome = await self._outcome(job, owned, recorder, keeper)
                    keeper.leave_snapshot_alone()
                    if outcome.not_begun:
                        if await self._unclaim(owned):
                            return outcome
                        outcome = Outcome(status=RunStatus.CANCELLED)
                    await recorder.settle()
                    stored = await self._store_terminal(owned, outcome)
                finally:
                    keeper.stop()
        finally:
            # A later delivery of the same run may have come to another slot of this worker meanwhile.
            if self._services.wakers.get(job.run_id) == keeper.wake:
                del self._services.wakers[job.run_id]
        return outcome if stored else None

    async def _outcome(self, job: Job, owned: OwnedRun, recorder: RunRecorder, keeper: RunKeeper) -> Outcome:
        if owned.snapshot.cancel_requested_at is not None:
            # Cancelled before it began, or taken over from a worker that died while it was stopping.
            return Outcome(status=RunStatus.CANCELLED)
        if keeper.limit.passed:
            return Outcome(status=RunStatus.FAILED, reason=Reason.TIMEOUT, error=keeper.limit.verdict)
        outcome = await self._execute(job, owned, recorder)
        if outcome.status == RunStatus.COMPLETED:
            return outcome
        if keeper.cancellation.forced:
            outcome.status, outcome.reason = RunStatus.CANCELLED, Reason.CANCEL_FORCED
            outcome.error = keeper.cancellation.verdict
        elif keeper.limit.exceeded:
            outcome.status, outcome.reason = RunStatus.FAILED, Reason.TIMEOUT
            outcome.error = keeper.limit.verdict
        return outcome

    async def _execute(self, job: Job, owned: OwnedRun, recorder: RunRecorder) -> Outcome:
        run = Run(
            run_id=job.run_id,
            flow_name=job.flow_name,
            params=encode(job.params),
            workflow_yaml=None if job.workflow_yaml is None else job.workflow_yaml.encode(),
            directory=self._directory(owned.snapshot),
            attempt=owned.snapshot.attempt,
            rerun_task=job.rerun_task,
        )
        if owned.snapshot.attempt > 1 or job.rerun_mode in _REUSING:
            run.journal = await self._services.journal.entries(job.run_id)
        while True:
            outcome = await self._execute_once(run, recorder)
            if not outcome.go_on:
                return outcome
            await recorder.settle()
            run.journal = await self._services.journal.entries(job.run_id)
            # The run may have been taken, cancelled or ended meanwhile.
            await owned.refresh()
            if owned.snapshot.cancel_requested_at is not None:
                return Outcome(status=RunStatus.CANCELLED)

    async def _execute_once(self, run: Run, recorder: RunRecorder) -> Outcome:
        try:
            return await self._executor.execute(run, recorder)
        except TaskOverdue as overdue:
            late = overdue.task
            if late.isolated:
                recorder.finished(_failed_entry(late, run.attempt, str(overdue)))
                return Outcome(status=RunStatus.RUNNING, go_on=True)
            error = f"task {late.task}: {overdue}"
            return Outcome(status=RunStatus.FAILED, reason=Reason.TIMEOUT, error=error)
        except ExecutorCrashed as crash:
            error = f"{crash}{LAST_OUTPUT}{crash.output}" if crash.output else str(crash)
            return Outcome(status=RunStatus.FAILED, reason=Reason.EXECUTOR_CRASHED, error=error)

    async def _unclaim(self, owned: OwnedRun) -> bool:
        """Whether the run is free for the next delivery; False when it is to be cancelled instead."""
        if self._delivery.number < self._services.connection.config.consumer_max_deliver:
            return await owned.unclaim()
        # There may be no other delivery: the sweep must see that this one was somebody's.
        return owned.snapshot.cancel_requested_at is None

    def _directory(self, snapshot: RunSnapshot) -> str | None:
        """One folder per attempt: an earlier one that is not quite dead must not disturb its successor."""
        if self._services.run_dir is None:
            return None
        return f"{self._services.run_dir}/{snapshot.run_id}-{snapshot.attempt}"

    async def _store_terminal(self, owned: OwnedRun, outcome: Outcome) -> bool:
        """Write the end of the run; an outage is waited out, since the work is done and must count."""
        give_up_at = time.monotonic() + self._services.ack_wait_sec
        while True:
            try:
                await owned.write(lambda snapshot: _ended(snapshot, outcome))
            except RunEnded:
                if owned.snapshot.delivery != self._delivery.token:
                    raise
                # Our own write, whose acknowledgement was lost.
                return True
            except NatsUnavailable as error:
                if not self._services.connection.ready:
                    await self._services.connection.wait_ready()
                    give_up_at = time.monotonic() + self._services.ack_wait_sec
                elif time.monotonic() > give_up_at:
                    spec = Err.TERMINAL_WRITE_FAILED
                    log.error("%s: %s", spec.en, error, extra=spec.log_fields(run_id=owned.snapshot.run_id))
                    return False
                else:
                    await asyncio.sleep(_WRITE_RETRY_SEC)
            else:
                return True

    async def _reject(self, problem: str) -> str | None:
        """A job that cannot be read: its run, if it names one, fails; the message never comes again."""
        run_id = _run_id_in(self._delivery.payload)
        error = f"the job cannot be read: {problem}"
        stored = await self._services.store.get_from_leader(run_id) if run_id else None
        if stored is not None:
            owned = OwnedRun(self._services.store, stored, max_bytes=self._services.max_snapshot_bytes)
            outcome = Outcome(status=RunStatus.FAILED, reason=Reason.INVALID_JOB, error=error)
            try:
                await owned.write(lambda snapshot: _ended(snapshot, outcome))
            except NotOwner as why:
                log.info("an unreadable job changes nothing: %s", why, extra={"run_id": run_id})
        tenant_id = None if stored is None else stored.snapshot.tenant_id
        await self._services.failures.tell_invalid(self._delivery, run_id, error, tenant_id=tenant_id)
        await self._delivery.term()
        return run_id

    async def _hand_back(self, delay_sec: float = 0.0) -> None:
        try:
            await self._delivery.nak(delay_sec)
        except NatsUnavailable as error:
            log.warning(
                "the job comes back after AckWait: %s", error, extra=Err.NATS_UNAVAILABLE.log_fields()
            )

    def _context(self, job: Job) -> dict[str, object]:
        return {
            "run_id": job.run_id,
            "flow_name": job.flow_name,
            "tag": job.tag,
            "worker_id": self._services.worker_id,
        }


def _ended(snapshot: RunSnapshot, outcome: Outcome) -> RunSnapshot:
    now = time.time()
    status = RunStatus(outcome.status)
    told = {name: TaskStatus(state) for name, state in outcome.tasks.items()}
    return structs.replace(
        snapshot,
        status=status,
        tasks=told or {name: state.when_run_ends(status) for name, state in snapshot.tasks.items()},
        task_records=outcome.raw_records(),
        task_records_truncated=outcome.records_cut,
        reason=outcome.reason,
        error=outcome.error,
        heartbeat_at=now,
        end_time=now,
    )


def _failed_entry(late: Limited, attempt: int, error: str) -> JournalEntry:
    """What the executor of a task past its limit could not tell itself."""
    return JournalEntry(
        key=late.key,
        task=late.task,
        attempt=attempt,
        started_at=late.started_at,
        ended_at=time.time(),
        error=error,
    )


def _run_id_in(payload: bytes) -> str | None:
    try:
        fields = msgspec.json.decode(payload)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    run_id = fields.get("run_id") if isinstance(fields, dict) else None
    return run_id if isinstance(run_id, str) and is_run_id(run_id) else None
