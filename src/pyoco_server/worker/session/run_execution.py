"""Executes one claimed run, and stores its end."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import UNSET, structs

from pyoco_server.broker.client.connection import NoAnswer, PayloadTooLarge
from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.errors import NatsCannotWrite, NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.causes import Cause, cause_of
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.journal_order import last_number
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.runs.run_models import (
    PARKED,
    Job,
    Reason,
    RerunMode,
    RunSnapshot,
    RunStatus,
    TaskStatus,
    encode,
)
from pyoco_server.records.value_types import LAST_SEQUENCE
from pyoco_server.records.waits.wait_models import Question, WaitRecord
from pyoco_server.runs.lifecycle.ownership import NotOwner, OwnedRun, RunEnded
from pyoco_server.runs.lifecycle.waiting_state import cleared_wait_fields, parked_snapshot
from pyoco_server.worker.executors.executor import (
    ExecutorCrashed,
    ExecutorFailedToStart,
    RunExecutor,
    TaskTimedOut,
)
from pyoco_server.worker.ipc.protocol import LimitStarted, Outcome, OutputPart, Run, raw_records
from pyoco_server.worker.session.failure_report import LAST_OUTPUT
from pyoco_server.worker.session.large_output_writer import LargeOutputWriter
from pyoco_server.worker.session.run_artifacts import LeftOutFiles, RunArtifacts, RunPlace
from pyoco_server.worker.session.run_keeper import RunKeeper
from pyoco_server.worker.session.run_questions import RunQuestions
from pyoco_server.worker.session.run_recorder import RunRecorder
from pyoco_server.worker.session.worker_services import WorkerServices

log = logging.getLogger(__name__)

T = TypeVar("T")

_WRITE_RETRY_SEC = 0.25
_REUSING = {RerunMode.FAILED, RerunMode.TASK}
# The task states of an ended run: nothing waits any more.
_TERMINAL_STATE: Final = {
    str(state): TaskStatus.CANCELLED if state is TaskStatus.WAITING else state for state in TaskStatus
}
_STATUS: Final = {str(status): status for status in RunStatus}


class RunExecution:
    """One attempt of a claimed run: executes it and stores its end.

    It implements RunEvents itself: most short runs have no events, and never need a recorder.
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
        self._artifacts: RunArtifacts | None = None
        # Of the tasks that wait until their files are stored.
        self._storing_files: set[asyncio.Task[None]] = set()
        self._outputs: LargeOutputWriter | None = None
        # Of the entries that the executor has sent.
        self._last_number = 0
        # Executor processes that were lost in this attempt.
        self._crashes = 0
        self._closed = False
        # Whether an executor has had the run in this attempt.
        self.has_started = False

    async def run(self) -> Outcome | None:
        """Execute and store the end; None when NATS is reachable but does not accept it.

        A run that was not started or must continue has no end: it returns to the queue.
        """
        keeper = RunKeeper(
            self._services,
            self._delivery,
            self._owned,
            self._executor,
            self._questions,
            with_artifacts_and_version=self._with_artifacts_and_version,
        )
        async with asyncio.TaskGroup() as group:
            keeper.register(group)
            try:
                outcome = await self._run_to_outcome(keeper)
                keeper.stop_writing()
                if outcome.must_continue:
                    await self._retry(lambda: self._owned.hand_back(continues=True))
                    return outcome
                if outcome.not_started:
                    if await self.unclaim():
                        return outcome
                    outcome = Outcome(status=RunStatus.CANCELLED)
                await self.flush()
                stored = await self._store_end(outcome)
                if stored and self._artifacts is not None:
                    await self._artifacts.remove_files()
            finally:
                keeper.stop()
        return outcome if stored else None

    async def flush(self) -> None:
        """Store what the run has done so far: its next owner continues from there."""
        if self._recorder is not None:
            await self._recorder.flush()

    async def close(self) -> None:
        self._closed = True
        for storing in list(self._storing_files):
            storing.cancel()
        await self._drop_outputs()
        if self._recorder is not None:
            await self._recorder.close()

    def on_finished(self, entry: JournalEntry) -> None:
        if not self._closed:
            self._last_number = max(self._last_number, entry.number)
            self._recording().finished(entry)

    def on_asked(self, question: Question) -> None:
        if not self._closed:
            self._recording().asked(question)

    def on_printed(self, lines: list[LogLine]) -> None:
        if not self._closed:
            if self._owned.snapshot.continuations:
                attempt = self._owned.snapshot.shown_attempt
                lines = [structs.replace(line, attempt=attempt) for line in lines]
            self._recording().printed(lines)

    def on_files_written(self, task: str, saved: Mapping[str, str], on_stored: Callable[[], None]) -> None:
        if not self._closed:
            storing = asyncio.create_task(self._store_files(task, saved, on_stored))
            self._storing_files.add(storing)
            storing.add_done_callback(self._storing_files.discard)

    async def _store_files(self, task: str, saved: Mapping[str, str], on_stored: Callable[[], None]) -> None:
        """Store them, then let the task finish; never if the run has another owner."""
        try:
            await self._files().store(task, saved)
        except NotOwner as why:
            log.info("no files of a run are stored: %s", why, extra={"run_id": self._job.run_id})
            return
        except Exception as error:
            # Otherwise the task would wait forever.
            log.exception("the files of a run could not be stored", extra={"run_id": self._job.run_id})
            self._add_note(task, f"files could not be stored: {type(error).__name__}: {error}")
        on_stored()

    async def _store_last_files(self, outcome: Outcome) -> None:
        """Of tasks that failed, wait or were killed, and of a run of one task, which has no journal."""
        if not (outcome.has_files or outcome.forced or outcome.must_restart):
            return
        if self._services.run_dir is not None:
            await self._files().store(_last_task(outcome), {})

    def _files(self) -> RunArtifacts:
        if self._artifacts is None:
            services, snapshot = self._services, self._owned.snapshot
            folder = self._directory(snapshot)
            self._artifacts = RunArtifacts(
                services.connection,
                services.objects,
                services.artifact_usage,
                RunPlace(self._job.tag, self._job.run_id, snapshot.tenant_id, folder),
                LeftOutFiles(snapshot.artifacts or None, self._add_note),
                verify_ownership=lambda: self._owned.verify(services.ack_wait_sec / 2),
            )
        return self._artifacts

    def _add_note(self, task: str | None, text: str) -> None:
        attempt = self._owned.snapshot.attempt
        self.on_printed([LogLine(ts=time.time(), stream="note", text=text, task=task, attempt=attempt)])

    def _with_artifacts_and_version(self, snapshot: RunSnapshot) -> RunSnapshot:
        """With its files, and the version of the code that executes it."""
        summary = None if self._artifacts is None else self._artifacts.summary
        version = self._executor.code_version
        return structs.replace(
            snapshot,
            artifacts=snapshot.artifacts if summary is None else summary,
            # Not that of an earlier owner, if this one does not know its own.
            code_version=snapshot.code_version if version is None else version or UNSET,
        )

    def on_output_part(self, part: OutputPart, resume: Callable[[], None]) -> bool:
        if self._closed:
            return True
        if self._outputs is None:
            services = self._services
            self._outputs = LargeOutputWriter(
                services.objects,
                self._job.tag,
                self._job.run_id,
                self._owned.snapshot.attempt,
                max_bytes=services.connection.config.result_max_bytes,
            )
        return self._outputs.add(part, resume)

    async def _drop_outputs(self) -> None:
        if self._outputs is not None:
            outputs, self._outputs = self._outputs, None
            await outputs.close()

    def _recording(self) -> RunRecorder:
        if self._recorder is None:
            services = self._services
            self._recorder = RunRecorder(
                services.connection,
                services.journal,
                services.logs,
                self._job.run_id,
                tag=self._job.tag,
                ask=self._questions.ask,
                verify_ownership=lambda: self._owned.verify(services.ack_wait_sec / 2),
            )
        return self._recorder

    async def close_waits(self) -> None:
        """Close the waits of an ended run. If this fails, a gateway does it later."""
        try:
            await self._questions.close()
        except NatsUnavailable as error:
            log.warning(
                "a gateway closes the waits of a run later: %s", error, extra={"run_id": self._job.run_id}
            )

    async def _run_to_outcome(self, keeper: RunKeeper) -> Outcome:
        if self._owned.snapshot.cancel_requested_at is not None:
            # Cancelled before its start, or taken over from a worker that died while it was stopping.
            return Outcome(status=RunStatus.CANCELLED)
        if keeper.limit.is_used_up:
            return Outcome(status=RunStatus.FAILED, reason=Reason.TIMEOUT, error=keeper.limit.error)
        outcome = await self._execute(keeper)
        if not outcome.forced:
            # It ended by itself, perhaps just before it was to be ended by force: its own outcome counts.
            return outcome
        if keeper.cancellation.forced:
            outcome.status, outcome.reason = RunStatus.CANCELLED, Reason.CANCEL_FORCED
            outcome.error = keeper.cancellation.error
        elif keeper.limit.forced:
            outcome.status, outcome.reason = RunStatus.FAILED, Reason.TIMEOUT
            outcome.error = keeper.limit.error
        return outcome

    async def _execute(self, keeper: RunKeeper) -> Outcome:
        job, owned = self._job, self._owned
        run = Run(
            run_id=job.run_id,
            flow_name=job.flow_name,
            params=encode(job.params),
            workflow_yaml=None if job.workflow_yaml is None else job.workflow_yaml.encode(),
            directory=self._directory(owned.snapshot),
            attempt=owned.snapshot.attempt,
            rerun_task=job.rerun_task,
            tenant_id=owned.snapshot.tenant_id,
            api_key_id=job.api_key_id,
            cause=_cause(job),
        )
        if owned.snapshot.attempt > 1 or job.rerun_mode in _REUSING:
            run.journal = await self._journalled()
            await self._restore_files(run.journal)
        if owned.snapshot.attempt > 1:
            await self._questions.load()
        while True:
            run.waits = self._questions.encoded()
            outcome = await self._execute_once(run, keeper)
            await self._store_last_files(outcome)
            if self._outputs is not None:
                # An attempt that goes on in another process sends them again.
                if outcome.task_records and not outcome.must_continue:
                    outcome.task_records = await self._outputs.finish(outcome.task_records)
                await self._drop_outputs()
            if outcome.status in PARKED:
                return await self._wait_or_continue(outcome)
            if not outcome.must_continue:
                return outcome
            await self._flush_journal()
            run.journal = await self._journalled()
            run.in_new_process = True
            # The run may have been taken over, cancelled or ended meanwhile.
            await owned.refresh()
            if owned.snapshot.cancel_requested_at is not None:
                return Outcome(status=RunStatus.CANCELLED)

    async def _restore_files(self, journal: Sequence[JournalEntry]) -> None:
        """Of earlier attempts; before that, of the finished tasks of the run that this one repeats."""
        job = self._job
        if job.rerun_mode in _REUSING and job.origin_run_id is not None:
            finished = {entry.task for entry in journal if entry.has_value} - {job.rerun_task}
            await self._files().restore_origin(job.origin_run_id, finished)
        if self._owned.snapshot.attempt > 1:
            await self._files().restore()

    async def _journalled(self) -> list[JournalEntry]:
        """What the run has done, with the results of an earlier version if its job is of that version."""
        job = self._job
        old_up_to = LAST_SEQUENCE if job.signature is UNSET else 0
        return await self._services.journal.entries(job.tag, job.run_id, old_up_to=old_up_to)

    async def _execute_once(self, run: Run, keeper: RunKeeper) -> Outcome:
        started_before, self.has_started = self.has_started, True
        try:
            return await self._executor.execute(run, self)
        except ExecutorFailedToStart:
            self.has_started = started_before
            raise
        except TaskTimedOut as timeout:
            task = timeout.task
            if task.isolated:
                self.on_finished(self._failed_entry(task, run, str(timeout)))
                return Outcome(status=RunStatus.RUNNING, must_continue=True)
            error = f"task {task.task}: {timeout}"
            return _killed(Reason.TIMEOUT, error, timeout)
        except ExecutorCrashed as crash:
            if self._continues_after(crash, keeper):
                return Outcome(status=RunStatus.RUNNING, must_continue=True)
            error = f"{crash}{LAST_OUTPUT}{crash.output}" if crash.output else str(crash)
            return _killed(Reason.EXECUTOR_CRASHED, error, crash)

    def _continues_after(self, crash: ExecutorCrashed, keeper: RunKeeper) -> bool:
        """Whether the run gets another executor process; not if its end was forced."""
        if keeper.cancellation.forced or keeper.limit.forced:
            return False
        self._crashes += 1
        most = self._services.connection.config.executor_crash_retries
        if self._crashes > most:
            return False
        log.warning(
            "a run continues in another executor (%d of %d): %s",
            self._crashes,
            most,
            crash,
            extra={"run_id": self._job.run_id},
        )
        return True

    def _failed_entry(self, task: LimitStarted, run: Run, error: str) -> JournalEntry:
        """The entry that the killed executor of a task past its limit could not send."""
        base = last_number(run.journal)
        return JournalEntry(
            key=task.key,
            task=task.task,
            attempt=run.attempt,
            started_at=task.started_at,
            ended_at=time.time(),
            error=error,
            number=max(base, self._last_number) + 1,
            base=base,
        )

    async def unclaim(self) -> bool:
        """Release the run for the next delivery; False when it has to be cancelled instead."""
        return await self._owned.unclaim(last_delivery=self._delivery.is_last)

    def _directory(self, snapshot: RunSnapshot) -> str | None:
        """One folder per attempt: an earlier executor that still runs must not disturb a later one."""
        if self._services.run_dir is None:
            return None
        return f"{self._services.run_dir}/{snapshot.run_id}-{snapshot.attempt}"

    async def _wait_or_continue(self, outcome: Outcome) -> Outcome:
        """The outcome of a run that can only wait, after everything it has done is stored."""
        max_deliver = self._delivery.limits.max_deliver
        # Continuing costs a delivery, and there may be many answers: half of the deliveries are for failures.
        may_continue = max_deliver <= 0 or self._delivery.number < max_deliver // 2

        async def settle() -> Outcome:
            await self._all_stored()
            return await self._questions.settle(outcome, may_continue=may_continue)

        settled = await self._retry(settle)
        if settled is None:
            raise self._services.connection.unavailable("a run could not be parked")
        return settled

    async def _flush_journal(self) -> None:
        """Store everything the run has done, or it would be executed again."""
        if await self._retry(self._all_stored) is None:
            raise self._services.connection.unavailable("the journal of a run cannot be stored")

    async def _all_stored(self) -> bool:
        await self.flush()
        if self._recorder is not None and not self._recorder.is_flushed:
            raise self._recorder.failure or self._services.connection.unavailable(
                "the journal of the run is not stored yet"
            )
        return True

    async def _store_end(self, outcome: Outcome) -> bool:
        """Write how it ended, or that it waits; false when NATS is reachable but does not accept it."""
        is_waiting = outcome.status in PARKED
        try:
            stored = await self._retry(lambda: self._write_end(outcome), at_any_size=not is_waiting)
        except PayloadTooLarge as error:
            # Everything else in a snapshot can be cut.
            text = f"what the run waits for does not fit into its snapshot: {error.detail}"
            failed = Outcome(status=RunStatus.FAILED, reason=Reason.EXECUTION_ERROR, error=text)
            stored = await self._retry(lambda: self._write_end(failed))
        return stored is not None

    async def _write_end(self, outcome: Outcome) -> bool:
        try:
            await self._owned.write(
                lambda snapshot: self._with_artifacts_and_version(
                    ended_or_parked_snapshot(snapshot, outcome, self._questions.awaited)
                )
            )
        except RunEnded as ended:
            if not ended.by_us:
                raise
        return True

    async def _retry(self, act: Callable[[], Awaitable[T]], *, at_any_size: bool = True) -> T | None:
        """Retry through an outage; None when NATS is reachable but does not accept the write.

        A NATS server whose disk is full does not answer: what the run has returned is kept until it does.
        """
        connection = self._services.connection
        give_up_at = time.monotonic() + self._services.ack_wait_sec
        reported = False
        while True:
            try:
                return await act()
            except NatsUnavailable as error:
                if isinstance(error, PayloadTooLarge) and not at_any_size:
                    raise
                if not connection.ready or isinstance(error, (NoAnswer, NatsCannotWrite)):
                    if not reported:
                        fields = Err.NATS_UNAVAILABLE.log_fields(run_id=self._job.run_id)
                        log.warning("the end of a run is not stored yet: %s", error, extra=fields)
                    reported = True
                    await asyncio.sleep(_WRITE_RETRY_SEC)
                    await connection.wait_ready()
                    give_up_at = time.monotonic() + self._services.ack_wait_sec
                elif time.monotonic() > give_up_at:
                    spec = Err.TERMINAL_WRITE_FAILED
                    log.error("%s: %s", spec.en, error, extra=spec.log_fields(run_id=self._job.run_id))
                    return None
                else:
                    await asyncio.sleep(_WRITE_RETRY_SEC)


def ended_or_parked_snapshot(
    snapshot: RunSnapshot, outcome: Outcome, open_waits: Sequence[WaitRecord]
) -> RunSnapshot:
    """The snapshot when the worker is done with the run: ended, or parked."""
    if outcome.status not in PARKED:
        return terminal_snapshot(snapshot, outcome)
    if snapshot.cancel_requested_at is not None:
        return terminal_snapshot(snapshot, structs.replace(outcome, status=RunStatus.CANCELLED, tasks={}))
    tasks = {name: TaskStatus(state) for name, state in outcome.tasks.items()}
    return structs.replace(
        parked_snapshot(snapshot, open_waits, tasks),
        task_records=raw_records(outcome),
        task_records_truncated=outcome.records_cut,
    )


def _killed(reason: Reason, error: str, by: ExecutorCrashed) -> Outcome:
    return Outcome(
        status=RunStatus.FAILED, reason=reason, error=error, exc_type=type(by).__name__, forced=True
    )


def terminal_snapshot(snapshot: RunSnapshot, outcome: Outcome) -> RunSnapshot:
    now = time.time()
    status = _STATUS[outcome.status]
    reported = {name: _TERMINAL_STATE[state] for name, state in outcome.tasks.items()}
    return structs.replace(
        snapshot,
        status=status,
        tasks=reported or {name: state.when_run_ends(status) for name, state in snapshot.tasks.items()},
        # A crashed executor sends no records: keep the last reported ones.
        task_records=raw_records(outcome) or snapshot.task_records,
        task_records_truncated=outcome.records_cut,
        reason=outcome.reason,
        error=outcome.error,
        result_task=outcome.result_task or UNSET,
        heartbeat_at=now,
        end_time=now,
        **cleared_wait_fields(snapshot),
    )


def _last_task(outcome: Outcome) -> str | None:
    """The task that has written the last files, if that is certain: the only one that has not succeeded."""
    unfinished = [task for task, state in outcome.tasks.items() if state != TaskStatus.SUCCEEDED]
    candidates = unfinished or list(outcome.tasks)
    return candidates[0] if len(candidates) == 1 else None


def _cause(job: Job) -> Cause | None:
    """None, as most runs have it, where nothing is to be sent."""
    if job.cause is UNSET and job.origin_run_id is None:
        return None
    return cause_of(job.cause, job.origin_run_id)
