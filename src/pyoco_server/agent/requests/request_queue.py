"""The queue of a repository: which request is executed next, and what its runs have become.

Each decision is one compare-and-set of a record: that a request waits for its turn, that it has a next run,
that this run is to be stopped, that it has ended. What follows from a decision is done after it, and again
by every gateway of the repository that finds it undone: start the run, cancel it, give it an answer, write
its end to the file.

Only one run of a repository is started at a time. The write that decides on it is refused by NATS if any
record of the repository was written since the decision was made.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import structs

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.flow.work_session import FLOW_NAME, run_params
from pyoco_server.agent.header_status import AgentRunFacts, header_status_of, write_run_state
from pyoco_server.agent.request_file import RequestFile, RequestStatus
from pyoco_server.agent.request_ids import run_number_text
from pyoco_server.agent.requests.repository_files import RepositoryFiles
from pyoco_server.agent.requests.request_state import (
    REMOVED,
    RequestState,
    end_of_removed,
    facts_of,
    is_active,
    state_of,
)
from pyoco_server.agent.run_files import Stage
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.keyed_records import KeyedRecords, Stored
from pyoco_server.broker.stores.record_directory import RecordDirectory
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.errors import NatsUnavailable, UnreadableRecord
from pyoco_server.records.agent.request_models import (
    RequestOutcome,
    RequestRecord,
    RequestRun,
    decode_request,
    request_key,
    with_run,
)
from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.records.runs.run_models import Job, RunSnapshot, RunStatus
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.runs.lifecycle.cancel_request import cancel_run
from pyoco_server.runs.lifecycle.durable_start import DurableStarter, run_id_for
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.runs.watch.run_hub import RunChange

log = logging.getLogger(__name__)

# A change may be missed in an outage.
_POLL_SEC: Final = 10.0
_NOT_READY_SEC: Final = 0.5
# Of those who write a record at the same moment, one succeeds in each round.
_TRIES: Final = 20

# A run that is not stored any more, or cannot be read.
_LOST: Final = AgentRunFacts(status=RunStatus.FAILED, error=REMOVED)

StoredRequest = Stored[RequestRecord]


class RequestQueue:
    """Starts the next request of the repository, and does what is undone. Called by the timekeeper."""

    name = "agent requests"

    def __init__(
        self,
        connection: Connection,
        repository: RepositoryFiles,
        *,
        clock: Callable[[], float],
        finish_answer: Callable[[StoredRequest], Awaitable[None]],
    ) -> None:
        """`finish_answer` does the rest of an answer that a gateway has stored and not finished."""
        config = connection.config
        self._connection = connection
        self._repository = repository
        self._tenant_id = config.agent_tenant or None
        self._clock = clock
        self._finish_answer = finish_answer
        self._store = KeyedRecords(connection, config.requests_kv_bucket, RecordKind.REQUEST, decode_request)
        self._directory = RecordDirectory(connection, bucket=config.requests_kv_bucket, of="requests")
        self._directory.follow(
            repository.tag, RecordKind.REQUEST, decode_request, lambda key, record: self._wake()
        )
        self._runs = RunStore(connection)
        self._starter = DurableStarter(connection)
        self._wake: Callable[[], None] = lambda: None
        # One reconciles or starts at a time in this gateway: others would only lose their writes.
        self._reconcile_lock = asyncio.Lock()

    def on_changes(self, wake: Callable[[], None]) -> None:
        """Register a callback: called when something may be due."""
        self._wake = wake

    def runs_changed(self, changes: Sequence[RunChange]) -> None:
        open_runs = {run.run_id for record in self.records() if (run := record.open_run) is not None}
        if any(change.run_id in open_runs for change in changes):
            self._wake()

    async def start(self) -> None:
        await self._directory.start()

    async def close(self) -> None:
        await self._directory.close()

    def wake(self) -> None:
        self._wake()

    # Reading

    def records(self) -> list[RequestRecord]:
        """Of all requests of the repository, as last read."""
        found: list[RequestRecord] = self._directory.records(self._repository.tag)
        return found

    async def caught_up(self) -> None:
        await self._directory.caught_up()

    async def get(self, request_id: str) -> StoredRequest | None:
        return await self._store.get_from_leader(self._key(request_id))

    async def read(self, request_id: str) -> tuple[StoredRequest | None, RequestState]:
        """The record of a request and its state.

        An end that only NATS knows is written to the files first, if NATS can be written to: a run that was
        killed could not write it.
        """
        stored, state = await self._read(request_id)
        if not state.has_unrecorded_end:
            return stored, state
        try:
            await self.reconcile(request_id)
        except NatsUnavailable as error:
            # Usually the files have the end by now, and only the record lacks it; `run_due` tries again.
            log.debug("the end of a run of %s is not stored yet: %s", request_id, error)
        return await self._read(request_id)

    async def _read(self, request_id: str) -> tuple[StoredRequest | None, RequestState]:
        """The record and the state, read while the file did not change.

        A run writes what it has done to the file before its end is stored, and nothing before the record
        has the run. With a file of another moment, a request would be done without its link, or running
        without a run.
        """
        file = await self._file(request_id)
        for _ in range(_TRIES):
            stored = await self.get(request_id)
            state = await self.state(file, None if stored is None else stored.record)
            before, file = file, await self._file(request_id)
            if file.raw == before.raw:
                return stored, state
        raise self._connection.unavailable(f"others write the file of {request_id} all the time; try again")

    async def _file(self, request_id: str) -> RequestFile:
        return await asyncio.to_thread(self._repository.file, request_id)

    async def state(self, file: RequestFile, record: RequestRecord | None) -> RequestState:
        """The state of a request with this file and record."""
        latest = None if record is None else record.latest
        if record is None or latest is None or latest.outcome is not None:
            return state_of(file, record)
        run = await self._run(latest)
        stage, work_saved = await asyncio.to_thread(self._on_disk, record, latest, run)
        return state_of(file, record, run, stage, work_saved=work_saved)

    def _on_disk(
        self, record: RequestRecord, run: RequestRun, snapshot: RunSnapshot | None
    ) -> tuple[Stage | None, bool | None]:
        """What only the files of a run know."""
        stage = self._repository.run(record.request_id, run.number).stage()
        is_stopped = snapshot is not None and snapshot.status is RunStatus.CANCELLED
        if stage is None or not is_stopped:
            # A run that never began has changed nothing.
            return stage, None
        return stage, self._repository.is_work_saved(record.request_id, stage.branch)

    async def _run(self, run: RequestRun) -> RunSnapshot | None:
        try:
            stored = await self._runs.get_from_leader(run.run_id)
        except UnreadableRecord:
            # It never ends; the request must not run for ever.
            return None
        return None if stored is None else stored.snapshot

    # Writing

    def new_record(self, request_id: str) -> RequestRecord:
        return RequestRecord(repo=self._repository.tag, request_id=request_id, created_at=self._clock())

    async def change_or_create(
        self,
        request_id: str,
        decide: Callable[[RequestRecord, RequestState], RequestRecord],
    ) -> None:
        """Write what `decide` makes of the record, whose run is reconciled.

        It is called again if another write came between. What it raises changes nothing.
        """
        for _ in range(_TRIES):
            # Also starts, stops or answers its run; `read` only records an end.
            await self.reconcile(request_id)
            stored, state = await self.read(request_id)
            record = self.new_record(request_id) if stored is None else stored.record
            changed = decide(record, state)
            if changed is record:
                return
            try:
                await self._write(stored, changed)
            except RevisionConflict:
                continue
            return
        raise self._connection.unavailable(f"others write the request {request_id} all the time; try again")

    async def change_existing(self, request_id: str, make: Callable[[RequestRecord], RequestRecord]) -> None:
        """Write what `make` returns for the current record, if there is one."""

        def changed(record: RequestRecord | None) -> RequestRecord:
            if record is None:
                raise _Removed
            return make(record)

        try:
            self._put(await self._store.change(self._key(request_id), changed))
        except _Removed:
            return

    async def remove(self, request_id: str, check: Callable[[RequestRecord | None], None]) -> None:
        """Delete the record, unless `check` raises an error."""
        removed = await self._store.remove(self._key(request_id), check)
        if removed is not None:
            self._directory.remove(removed.record.key, revision=removed.revision)

    async def _write(self, stored: StoredRequest | None, record: RequestRecord) -> None:
        self._put(
            await (self._store.create(record) if stored is None else self._store.replace(stored, record))
        )

    def _put(self, stored: StoredRequest) -> None:
        self._directory.put(stored.record, stored.revision)

    def _key(self, request_id: str) -> str:
        return request_key(self._repository.tag, request_id)

    # What is due

    async def run_due(self, now: float) -> float | None:
        if not self._directory.ready:
            return now + _NOT_READY_SEC
        for record in self.records():
            if _is_unreconciled(record):
                await self._reconcile_or_log(record.request_id)
        await self._start_next()
        is_busy = any(map(_is_unreconciled, self.records()))
        return now + _POLL_SEC if is_busy else None

    async def _reconcile_or_log(self, request_id: str) -> None:
        """No request keeps the others from their turn; NatsUnavailable concerns all of them."""
        try:
            await self.reconcile(request_id)
        except NatsUnavailable:
            raise
        except Exception:
            log.exception("cannot reconcile the agent request %s", request_id)

    async def reconcile(self, request_id: str) -> None:
        """Do what was decided for a request and is not done: start, stop or answer its run, note its end."""
        async with self._reconcile_lock:
            stored = await self.get(request_id)
            if stored is None:
                return
            if _is_answering(stored.record):
                await self._finish_answer(stored)
            run = stored.record.open_run
            if run is not None:
                await self._reconcile_run(stored.record, run)
            elif stored.record.is_queued:
                await self._note_queued(stored.record)

    async def _reconcile_run(self, record: RequestRecord, run: RequestRun) -> None:
        request_id = record.request_id
        if not run.stored:
            await self._starter.ensure_run(self._job(record, run))
            await self._change_run(request_id, run, stored=True)
        snapshot = await self._run(run)
        if run.stop is not None and snapshot is not None and not snapshot.status.terminal:
            await cancel_run(
                self._connection,
                self._runs,
                run.run_id,
                ANYBODY,
                by=run.stop.by,
                reason="the request was stopped",
            )
            snapshot = await self._run(run)
        await self._note(record, run, snapshot)

    async def _note(self, record: RequestRecord, run: RequestRun, snapshot: RunSnapshot | None) -> None:
        """Write the state of the run to the file, while its flow does not; and its end to the record."""
        if snapshot is not None and snapshot.status in (RunStatus.RUNNING, RunStatus.CANCELLING):
            return
        outcome = await asyncio.to_thread(self._write_run_state, record, run, snapshot)
        if outcome is not None:
            log.info(
                "the run %s of the request %s has ended: %s",
                run_number_text(run.number),
                record.request_id,
                outcome,
                extra={"run_id": run.run_id},
            )
            await self._change_run(record.request_id, run, outcome=outcome)

    def _write_run_state(
        self, record: RequestRecord, run: RequestRun, snapshot: RunSnapshot | None
    ) -> RequestOutcome | None:
        """The outcome if the run has ended."""
        stage, work_saved = self._on_disk(record, run, snapshot)
        if snapshot is None and (end := end_of_removed(stage)) is not None:
            return RequestOutcome(end.status)
        facts = _LOST if snapshot is None else facts_of(snapshot, work_saved=work_saved)
        number = run_number_text(run.number)
        try:
            write_run_state(
                self._repository.settings, record.request_id, number, facts, self._repository.now()
            )
        except (AgentError, OSError) as error:
            # A person has removed the file, or broken its header. The record has the status.
            log.warning(
                "the state of the request %s cannot be written to its file: %s",
                record.request_id,
                error,
                extra={"run_id": run.run_id},
            )
        return RequestOutcome(header_status_of(facts, stage).status) if facts.status.terminal else None

    async def _note_queued(self, record: RequestRecord) -> None:
        fields = {"status": RequestStatus.QUEUED, "blocked_reason": None, "failure_reason": None}

        def write() -> None:
            self._repository.folder.change(
                record.request_id, lambda file: file.changed(fields), self._repository.now()
            )

        try:
            file = await asyncio.to_thread(self._repository.file, record.request_id)
            if file.status != RequestStatus.QUEUED:
                await asyncio.to_thread(write)
        except AgentError as error:
            if error.code != AgentCode.REQUEST_NOT_FOUND:
                log.warning("the request %s cannot be written: %s", record.request_id, error)
                return
            log.warning("the request %s has no file any more, and leaves the queue", record.request_id)
            await self.change_existing(
                record.request_id, lambda found: structs.replace(found, queued_at=None)
            )

    async def _change_run(self, request_id: str, run: RequestRun, **fields: object) -> None:
        def changed(record: RequestRecord) -> RequestRecord:
            found = next((each for each in record.runs if each.number == run.number), None)
            if found is None or all(getattr(found, name) == value for name, value in fields.items()):
                return record
            return with_run(record, structs.replace(found, **fields))

        await self.change_existing(request_id, changed)

    def _job(self, record: RequestRecord, run: RequestRun) -> Job:
        """The same each time."""
        job = new_job(
            flow_name=FLOW_NAME,
            tag=record.repo,
            tags=[record.request_id],
            params=dict(
                run_params(record.request_id, run_number_text(run.number), self._repository.settings.repo)
            ),
            run_id=run.run_id,
            cause=Cause(kind=CauseKind.REQUEST, id=record.request_id),
        )
        job.submitted_at, job.tenant_id = run.created_at, self._tenant_id
        return job

    # The next run

    async def _start_next(self) -> None:
        """Decide on the next run of the repository, if none is active, and start it."""
        for _ in range(_TRIES):
            if not any(record.queued_at is not None for record in self.records()):
                return
            pattern = f"{self._repository.tag}.*"
            revision = await self._store.last_revision(pattern)
            await self._directory.has_read(revision)
            if await self._has_active_run():
                return
            chosen = await asyncio.to_thread(self._choose)
            if chosen is None:
                return
            try:
                self._put(await self._store.write_after(chosen, pattern=pattern, revision=revision))
            except RevisionConflict:
                # Another request was written meanwhile: it may have a higher priority.
                continue
            await self.reconcile(chosen.request_id)
            return

    async def _has_active_run(self) -> bool:
        for record in self.records():
            run = record.open_run
            if run is None:
                continue
            snapshot = await self._run(run)
            if snapshot is None or is_active(snapshot):
                # Without a snapshot it is being started, or its end is being noted.
                return True
        return False

    def _choose(self) -> RequestRecord | None:
        """The record of the request whose turn it is, with its new run."""
        waiting = []
        for record in self.records():
            if record.queued_at is None:
                continue
            try:
                file = self._repository.file(record.request_id)
            except AgentError:
                # `reconcile` takes it out of the queue.
                continue
            waiting.append((file.priority, record.queued_at, record.request_id, record, file))
        if not waiting:
            return None
        *_, record, file = min(waiting, key=lambda each: each[:3])
        # Runs outlive the data of NATS, and no number is used twice.
        number = max(record.sequence, self._repository.last_run_number(file)) + 1
        run = RequestRun(
            number=number,
            run_id=run_id_for(CauseKind.REQUEST, record.key, record.created_at, number),
            created_at=self._clock(),
        )
        return with_run(structs.replace(record, queued_at=None), run)


class _Removed(Exception):
    """There is no such record."""


def _is_unreconciled(record: RequestRecord) -> bool:
    return _is_answering(record) or record.open_run is not None or record.queued_at is not None


def _is_answering(record: RequestRecord) -> bool:
    return record.answer is not None and record.answer.accepted is None
