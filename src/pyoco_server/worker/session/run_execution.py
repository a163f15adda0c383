"""One claimed run at its worker, from its beginning to what is stored of its end."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pyoco_server.broker.client.connection import PayloadTooLarge
from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.journal_order import last_number
from pyoco_server.records.models import (
    Job,
    JournalEntry,
    LogLine,
    Reason,
    RerunMode,
    RunSnapshot,
    RunStatus,
    encode,
)
from pyoco_server.records.wait_models import Question
from pyoco_server.runs.lifecycle.ownership import OwnedRun, RunEnded
from pyoco_server.worker.executors.executor import (
    ExecutorCrashed,
    ExecutorFailedToStart,
    RunExecutor,
    TaskOverdue,
)
from pyoco_server.worker.ipc.protocol import Limited, Outcome, Run
from pyoco_server.worker.session.failure_report import LAST_OUTPUT
from pyoco_server.worker.session.run_end import left
from pyoco_server.worker.session.run_keeper import RunKeeper
from pyoco_server.worker.session.run_questions import RunQuestions
from pyoco_server.worker.session.run_recorder import RunRecorder
from pyoco_server.worker.session.worker_services import WorkerServices

log = logging.getLogger(__name__)

T = TypeVar("T")

_WRITE_RETRY_SEC = 0.25
_REUSING = {RerunMode.FAILED, RerunMode.TASK}


class RunExecution:
    """Has the flow executed, and kept, recorded and ended as it should be.

    It is itself who hears of the run (RunEvents): most short runs have nothing to tell on their way, and
    never need a recorder.
    """

    def __init__(
        self, services: WorkerServices, delivery: Delivery, executor: RunExecutor, job: Job, owned: OwnedRun
    ) -> None:
        self._services = services
        self._delivery = delivery
        self._executor = executor
        self._job = job
        self._owned = owned
        timeout_sec = services.connection.config.wait_timeout_sec
        self._questions = RunQuestions(services.waits, services.wait_events, job, timeout_sec)
        self._recorder: RunRecorder | None = None
        # Of the entries that the executor has told of.
        self._last_number = 0
        self._closed = False
        # Whether an executor has had it in this attempt.
        self.begun = False

    async def run(self) -> Outcome | None:
        """Execute and store the end; None when NATS answers but does not take it.

        A run that was not begun, or that is to go on with an answer, has no end: it goes back to the queue.
        """
        keeper = RunKeeper(self._services, self._delivery, self._owned, self._executor, self._questions)
        async with asyncio.TaskGroup() as group:
            keeper.start(group)
            try:
                outcome = await self._outcome(keeper)
                if outcome.go_on:
                    return outcome
                keeper.leave_snapshot_alone()
                if outcome.not_begun:
                    if await self.unclaim():
                        return outcome
                    outcome = Outcome(status=RunStatus.CANCELLED)
                await self.settle()
                stored = await self._store_end(outcome)
            finally:
                keeper.stop()
        return outcome if stored else None

    async def settle(self) -> None:
        """Wait for what the run has left behind so far: its next owner goes on from there."""
        if self._recorder is not None:
            await self._recorder.settle()

    async def close(self) -> None:
        """Nothing more is stored of it."""
        self._closed = True
        if self._recorder is not None:
            await self._recorder.close()

    def finished(self, entry: JournalEntry) -> None:
        if not self._closed:
            self._last_number = max(self._last_number, entry.number)
            self._recording().finished(entry)

    def asked(self, question: Question) -> None:
        if not self._closed:
            self._recording().asked(question)

    def printed(self, lines: list[LogLine]) -> None:
        if not self._closed:
            self._recording().printed(lines)

    def _recording(self) -> RunRecorder:
        if self._recorder is None:
            services = self._services
            self._recorder = RunRecorder(
                services.connection,
                services.journal,
                services.logs,
                self._job.run_id,
                ask=self._questions.ask,
                assure_ownership=lambda: self._owned.assure(services.ack_wait_sec / 2),
            )
        return self._recorder

    async def close_waits(self) -> None:
        """The run is over: nobody has to answer it any more. A gateway does it as well, a little later."""
        try:
            await self._questions.close()
        except NatsUnavailable as error:
            log.warning("the waits of a run are closed later: %s", error, extra={"run_id": self._job.run_id})

    async def _outcome(self, keeper: RunKeeper) -> Outcome:
        if self._owned.snapshot.cancel_requested_at is not None:
            # Cancelled before it began, or taken over from a worker that died while it was stopping.
            return Outcome(status=RunStatus.CANCELLED)
        if keeper.limit.passed:
            return Outcome(status=RunStatus.FAILED, reason=Reason.TIMEOUT, error=keeper.limit.verdict)
        outcome = await self._execute()
        if not outcome.by_force:
            # Also when it ended just before it would have been ended.
            return outcome
        if keeper.cancellation.forced:
            outcome.status, outcome.reason = RunStatus.CANCELLED, Reason.CANCEL_FORCED
            outcome.error = keeper.cancellation.verdict
        elif keeper.limit.exceeded:
            outcome.status, outcome.reason = RunStatus.FAILED, Reason.TIMEOUT
            outcome.error = keeper.limit.verdict
        return outcome

    async def _execute(self) -> Outcome:
        job, owned = self._job, self._owned
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
        if owned.snapshot.attempt > 1:
            await self._questions.load()
        while True:
            run.waits = self._questions.encoded()
            outcome = await self._execute_once(run)
            if outcome.status == RunStatus.WAITING_HUMAN:
                return await self._come_to_wait(outcome)
            if not outcome.go_on:
                return outcome
            await self._journal_settled()
            run.journal = await self._services.journal.entries(job.run_id)
            # The run may have been taken, cancelled or ended meanwhile.
            await owned.refresh()
            if owned.snapshot.cancel_requested_at is not None:
                return Outcome(status=RunStatus.CANCELLED)

    async def _execute_once(self, run: Run) -> Outcome:
        begun_before, self.begun = self.begun, True
        try:
            return await self._executor.execute(run, self)
        except ExecutorFailedToStart:
            self.begun = begun_before
            raise
        except TaskOverdue as overdue:
            late = overdue.task
            if late.isolated:
                self.finished(self._failed_entry(late, run, str(overdue)))
                return Outcome(status=RunStatus.RUNNING, go_on=True)
            error = f"task {late.task}: {overdue}"
            return Outcome(status=RunStatus.FAILED, reason=Reason.TIMEOUT, error=error, by_force=True)
        except ExecutorCrashed as crash:
            error = f"{crash}{LAST_OUTPUT}{crash.output}" if crash.output else str(crash)
            reason = Reason.EXECUTOR_CRASHED
            return Outcome(status=RunStatus.FAILED, reason=reason, error=error, by_force=True)

    def _failed_entry(self, late: Limited, run: Run, error: str) -> JournalEntry:
        """What the executor of a task past its limit could not tell itself."""
        base = last_number(run.journal)
        return JournalEntry(
            key=late.key,
            task=late.task,
            attempt=run.attempt,
            started_at=late.started_at,
            ended_at=time.time(),
            error=error,
            number=max(base, self._last_number) + 1,
            base=base,
        )

    async def unclaim(self) -> bool:
        """Whether the run is free for the next delivery; False when it is to be cancelled instead."""
        most = self._services.connection.config.consumer_max_deliver
        return await self._owned.unclaim(last_delivery=self._delivery.number >= most)

    def _directory(self, snapshot: RunSnapshot) -> str | None:
        """One folder per attempt: an earlier one that is not quite dead must not disturb its successor."""
        if self._services.run_dir is None:
            return None
        return f"{self._services.run_dir}/{snapshot.run_id}-{snapshot.attempt}"

    async def _come_to_wait(self, outcome: Outcome) -> Outcome:
        """What becomes of a run that can only wait, once all that it has done is stored."""
        limit = self._services.connection.config.consumer_max_deliver
        # Going on takes a delivery, and there may be many answers: half of them are for other troubles.
        may_go_on = limit <= 0 or self._delivery.number < limit // 2

        async def settle() -> Outcome:
            await self._all_stored()
            return await self._questions.settle(outcome, may_go_on=may_go_on)

        settled = await self._insist(settle)
        if settled is None:
            raise self._services.connection.unavailable("a run cannot come to wait")
        return settled

    async def _journal_settled(self) -> None:
        """Wait until the journal has all that the run has done, or it would be executed again."""
        if await self._insist(self._all_stored) is None:
            raise self._services.connection.unavailable("the journal of a run cannot be stored")

    async def _all_stored(self) -> bool:
        await self.settle()
        if self._recorder is not None and not self._recorder.is_settled:
            raise self._services.connection.unavailable("the journal of the run is not stored yet")
        return True

    async def _store_end(self, outcome: Outcome) -> bool:
        """Write how it ended, or that it waits; false when NATS answers but does not take it."""
        is_waiting = outcome.status == RunStatus.WAITING_HUMAN
        try:
            return (
                await self._insist(lambda: self._write_end(outcome), at_any_size=not is_waiting) is not None
            )
        except PayloadTooLarge as error:
            # Whatever else a snapshot has can be cut.
            text = f"what the run waits for does not fit into its snapshot: {error.detail}"
            failed = Outcome(status=RunStatus.FAILED, reason=Reason.EXECUTION_ERROR, error=text)
            return await self._insist(lambda: self._write_end(failed)) is not None

    async def _write_end(self, outcome: Outcome) -> bool:
        try:
            await self._owned.write(lambda snapshot: left(snapshot, outcome, self._questions.awaited))
        except RunEnded as ended:
            if not ended.by_us:
                raise
        return True

    async def _insist(self, act: Callable[[], Awaitable[T]], *, at_any_size: bool = True) -> T | None:
        """Wait an outage out: the work is done and must count. None: NATS answers, but does not take it."""
        connection = self._services.connection
        give_up_at = time.monotonic() + self._services.ack_wait_sec
        while True:
            try:
                return await act()
            except NatsUnavailable as error:
                if isinstance(error, PayloadTooLarge) and not at_any_size:
                    raise
                if not connection.ready:
                    await connection.wait_ready()
                    give_up_at = time.monotonic() + self._services.ack_wait_sec
                elif time.monotonic() > give_up_at:
                    spec = Err.TERMINAL_WRITE_FAILED
                    log.error("%s: %s", spec.en, error, extra=spec.log_fields(run_id=self._job.run_id))
                    return None
                else:
                    await asyncio.sleep(_WRITE_RETRY_SEC)
