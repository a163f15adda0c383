"""What people do with the requests of a repository: list, create, change, enqueue, stop, answer, rerun."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from msgspec import structs

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.doctor import Check
from pyoco_server.agent.git.repository import check_branches
from pyoco_server.agent.header_status import HeaderStatus
from pyoco_server.agent.request_file import Priority, RequestFile, RequestStatus, answer_key, one_line
from pyoco_server.agent.request_folder import NewRequest, no_such_request
from pyoco_server.agent.request_ids import is_request_id, is_run_number, run_number_text
from pyoco_server.agent.requests.repository_files import RepositoryFiles
from pyoco_server.agent.requests.request_queue import RequestQueue, StoredRequest
from pyoco_server.agent.requests.request_state import RequestState
from pyoco_server.agent.run_files import RunFiles, Stage
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.errors import InvalidAnswer, NotAssigned, WaitConflict, WaitExpired, WaitNotFound
from pyoco_server.records.agent.request_models import (
    AnswerIntent,
    RequestOutcome,
    RequestRecord,
    RequestRun,
    StopIntent,
    with_run,
)
from pyoco_server.records.ids import uuid_of
from pyoco_server.records.waits.wait_models import Actor, WaitRecord
from pyoco_server.runs.lifecycle.tenancy import ANYBODY, Caller
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler

log = logging.getLogger(__name__)

_OUTCOMES: Final = frozenset(RequestOutcome)
# The question is answered, expired or withdrawn, or the answer does not fit it: repeating changes nothing.
_REFUSED: Final = (WaitConflict, WaitExpired, WaitNotFound, NotAssigned, InvalidAnswer)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEdit:
    """What a person changes; None: it stays."""

    title: str | None = None
    priority: Priority | None = None
    tags: tuple[str, ...] | None = None
    want: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRunState:
    """One run of a request: its files, and the request's state if it is the latest one."""

    files: RunFiles
    stage: Stage | None
    # None: of a run before this server's data began.
    run: RequestRun | None
    latest: RequestState | None

    @property
    def pyoco_run_id(self) -> str | None:
        if self.run is not None:
            return self.run.run_id
        return None if self.stage is None else self.stage.pyoco_run_id

    @property
    def header_status(self) -> HeaderStatus:
        """The status of the request while this was its latest run."""
        if self.latest is not None:
            return self.latest.header_status
        if self.run is not None and self.run.outcome is not None:
            status = RequestStatus(self.run.outcome)
        elif self.stage is not None and self.stage.status in _OUTCOMES:
            status = RequestStatus(self.stage.status)
        else:
            # Its server is gone, and nobody executes it.
            status = RequestStatus.FAILED
        reason = None if self.stage is None else self.stage.failure_reason
        return HeaderStatus(status=status, failure_reason=reason if status == RequestStatus.FAILED else None)


class RequestService:
    def __init__(
        self,
        connection: Connection,
        repository: RepositoryFiles,
        answers: AnswerHandler,
        *,
        clock: Callable[[], float],
    ) -> None:
        self.repository = repository
        self.queue = RequestQueue(connection, repository, clock=clock, finish_answer=self._finish_answer)
        self._answers = answers
        self._waits = WaitStore(connection)
        self._clock = clock

    # Reading

    async def all(self) -> list[RequestState]:
        """Every request of the repository."""
        files = await asyncio.to_thread(self.repository.files)
        await self.queue.caught_up()
        records = {record.request_id: record for record in self.queue.records()}
        states = {name: await self.queue.state(file, records.get(name)) for name, file in files.items()}
        # Read again, one by one: requests whose file has changed meanwhile, or whose end is not recorded yet.
        files = await asyncio.to_thread(self.repository.files)
        found = []
        for name, file in files.items():
            state = states.get(name)
            if state is None or state.has_unrecorded_end or state.file.raw != file.raw:
                state = await self._find(name)
            if state is not None:
                found.append(state)
        return found

    async def _find(self, request_id: str) -> RequestState | None:
        """None if it was removed meanwhile, or cannot be read; a request for it by its id says which."""
        try:
            return await self.read(request_id)
        except AgentError:
            return None

    async def read(self, request_id: str) -> RequestState:
        """AgentError REQUEST_NOT_FOUND if there is none."""
        _check_id(request_id)
        _, state = await self.queue.read(request_id)
        return state

    async def question(self, state: RequestState) -> WaitRecord | None:
        """The wait of its question; None if it asks nothing."""
        asked = state.question
        found = None if asked is None else await self._waits.find_from_leader(asked.wait_id)
        return None if found is None else found.record

    async def runs(self, request_id: str) -> list[RequestRunState]:
        """The newest first."""
        state = await self.read(request_id)
        known = {run.number: run for run in state.record.runs} if state.record else {}
        return await asyncio.to_thread(self._runs, request_id, state, known)

    def _runs(
        self, request_id: str, state: RequestState, known: dict[int, RequestRun]
    ) -> list[RequestRunState]:
        numbers = sorted({*known, *self.repository.run_numbers(request_id)}, reverse=True)
        found = []
        for number in numbers:
            files = self.repository.run(request_id, number)
            is_latest = state.latest is not None and state.latest.number == number
            # Of a run that waits for its turn again, the files say how it has ended.
            is_shown = is_latest and (state.record is None or not state.record.is_queued)
            found.append(
                RequestRunState(
                    files=files,
                    stage=files.stage(),
                    run=known.get(number),
                    latest=state if is_shown else None,
                )
            )
        return found

    async def run(self, request_id: str, run_number: str) -> RequestRunState:
        """AgentError RUN_NOT_FOUND if it has no such run."""
        runs = await self.runs(request_id)
        found = next((run for run in runs if run.files.run_number == run_number), None)
        if found is None:
            shown = run_number if is_run_number(run_number) else "of this id"
            raise AgentError(
                AgentCode.RUN_NOT_FOUND,
                f"The request {request_id} has no run {shown}.",
                hint=f"It has: {', '.join(run.files.run_number for run in runs) or 'none'}.",
            )
        return found

    async def latest_run(self, request_id: str) -> RequestRunState:
        runs = await self.runs(request_id)
        if not runs:
            raise AgentError(
                AgentCode.RUN_NOT_FOUND,
                f"The request {request_id} was not executed yet.",
                hint="Enqueue it.",
            )
        return runs[0]

    # Changing

    async def create(self, new: NewRequest) -> RequestState:
        """AgentError INVALID_REQUEST for a base or a branch that no run could use.

        A person may have removed a file by hand. A request of the same id does not continue that one, and
        cannot be created while a run of that one goes on.
        """
        settings = self.repository.settings
        new = replace(new, branch_prefix=settings.branch_prefix)
        check_branches(settings, new.base, new.branch or f"{settings.branch_prefix}x")
        await self.queue.caught_up()
        known = {record.request_id: record for record in self.queue.records()}
        taken = {name for name, record in known.items() if record.open_run is not None}
        file = await asyncio.to_thread(self.repository.folder.create, new, self.repository.now(), taken)
        if file.request_id in known:
            await self.queue.remove(file.request_id, lambda record: None)
        return await self.queue.state(file, None)

    async def edit(self, request_id: str, edit: RequestEdit) -> RequestState:
        """AgentError CANNOT_EDIT_WHILE_RUNNING for the want of a running request."""
        state = await self.read(request_id)
        if edit.want is not None and state.status == RequestStatus.RUNNING:
            raise _cannot_edit(request_id)
        given = {
            "title": None if edit.title is None else one_line(edit.title),
            "priority": edit.priority,
            "tags": None if edit.tags is None else [one_line(tag) for tag in edit.tags],
        }
        fields: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if fields.get("tags") == []:
            fields["tags"] = None

        def change(file: RequestFile) -> RequestFile:
            if edit.want is not None and _has_begun_since(state, file):
                raise _cannot_edit(request_id)
            return file.changed(fields, want=edit.want)

        await asyncio.to_thread(self.repository.folder.change, request_id, change, self.repository.now())
        self.queue.wake()
        return await self.read(request_id)

    async def delete(self, request_id: str) -> None:
        """Remove the file and the record; the files of runs stay."""
        await self._file(request_id)
        await self.queue.reconcile(request_id)

        def check(record: RequestRecord | None) -> None:
            if record is not None and record.open_run is not None:
                raise AgentError(
                    AgentCode.ALREADY_RUNNING,
                    f"The request {request_id} has a run that has not ended.",
                    hint="Stop it first.",
                )

        await self.queue.remove(request_id, check)
        await asyncio.to_thread(self.repository.folder.delete, request_id)

    # Executing

    async def enqueue(self, request_id: str) -> RequestState:
        """Have it executed when it is its turn; what waits already stays where it is.

        AgentError ALREADY_RUNNING, or what the repository lacks; then nothing is changed.
        """
        state = await self.read(request_id)
        if _is_waiting(state):
            return state
        _check_not_open(state)
        await asyncio.to_thread(_check_readable, state.file)
        await asyncio.to_thread(self.repository.check_preflight, state.file)
        await self.queue.change_or_create(request_id, self._enqueued)
        await self.queue.reconcile(request_id)
        self.queue.wake()
        return await self.read(request_id)

    def _enqueued(self, record: RequestRecord, state: RequestState) -> RequestRecord:
        if _is_waiting(state):
            return record
        _check_not_open(state)
        return structs.replace(record, queued_at=self._clock(), withdrawn=False, answer=None)

    async def stop(self, request_id: str, caller: Caller) -> RequestState:
        """End its run, or take it out of the queue. AgentError NOT_RUNNING if it is neither."""
        await self._file(request_id)

        def stopped(record: RequestRecord, state: RequestState) -> RequestRecord:
            run = record.open_run
            if record.queued_at is not None:
                return structs.replace(record, queued_at=None, withdrawn=True)
            if run is None:
                raise AgentError(
                    AgentCode.NOT_RUNNING,
                    f"The request {request_id} is {state.status}, and is not being executed.",
                )
            if run.stop is not None:
                return record
            intent = StopIntent(at=self._clock(), by=caller.api_key_id)
            return with_run(record, structs.replace(run, stop=intent))

        await self.queue.change_or_create(request_id, stopped)
        await self.queue.reconcile(request_id)
        self.queue.wake()
        return await self.read(request_id)

    async def resume(
        self, request_id: str, text: str, actor: Actor, *, wait_id: str | None = None
    ) -> RequestState:
        """Answer its question. AgentError NOT_NEEDS_INPUT if it has none, INVALID_REQUEST for a wrong answer.

        The same answer again changes nothing. With `wait_id` only that question is answered: without it, an
        answer that is sent again may be taken for the answer to the next question.
        """
        await self._file(request_id)

        def answered(record: RequestRecord, state: RequestState) -> RequestRecord:
            question, run = state.question, state.latest
            if question is None or run is None or wait_id not in (None, question.wait_id):
                if _was_given(record, text, wait_id):
                    return record
                raise _not_needs_input(request_id, state)
            intent = AnswerIntent(
                run_id=run.run_id,
                wait_id=question.wait_id,
                text=text,
                at=self._clock(),
                by=actor,
                key=answer_key(run_number_text(run.number), question.task, question.name),
            )
            return structs.replace(record, answer=intent)

        before = await self.read(request_id)
        await asyncio.to_thread(_check_readable, before.file)
        await self._check_answer(before, text)
        await self.queue.change_or_create(request_id, answered)
        await self.queue.reconcile(request_id)
        self.queue.wake()
        state = await self.read(request_id)
        if state.record is not None and not _was_given(state.record, text, wait_id):
            raise _not_needs_input(request_id, state)
        return state

    async def _check_answer(self, state: RequestState, text: str) -> None:
        """AgentError INVALID_REQUEST for an answer that the question does not accept."""
        wait = await self.question(state)
        schema = wait.schema if wait is not None and isinstance(wait.schema, dict) else {}
        most = schema.get("maxLength")
        if isinstance(most, int) and len(text.strip()) > most:
            raise AgentError(
                AgentCode.INVALID_REQUEST,
                f"answer.text has {len(text.strip())} characters; at most {most} are accepted.",
                hint="Put the details in a file of the repository, and name that.",
            )

    async def _finish_answer(self, stored: StoredRequest) -> None:
        """Give the answer to the run, and append it to the want; repeating this changes nothing."""
        record = stored.record
        intent = record.answer
        assert intent is not None
        answer = Answer(payload=intent.text.strip(), decision_id=_decision_id(record, intent))
        try:
            await self._answers.respond(intent.wait_id, answer, ANYBODY, intent.by)
            accepted = True
        except _REFUSED as error:
            # Such as: somebody else was faster, in the inbox.
            log.warning("an answer was not accepted: %s", error, extra={"run_id": intent.run_id})
            accepted = False
        if accepted:
            await asyncio.to_thread(self._append, record.request_id, intent)

        def finished(found: RequestRecord) -> RequestRecord:
            if found.answer is None or found.answer.at != intent.at:
                return found
            return structs.replace(found, answer=structs.replace(intent, accepted=accepted))

        await self.queue.change_existing(record.request_id, finished)

    def _append(self, request_id: str, intent: AnswerIntent) -> None:
        at, key = self.repository.at(intent.at), intent.key or intent.wait_id

        def change(file: RequestFile) -> RequestFile:
            return file.answered(intent.text, key=key, at=at)

        try:
            self.repository.folder.change(request_id, change, at)
        except (AgentError, OSError) as error:
            # The run has the answer; the file was removed or broken meanwhile.
            log.warning("an answer cannot be written to the file of %s: %s", request_id, error)

    async def doctor(self) -> list[Check]:
        return await asyncio.to_thread(self.repository.doctor)

    async def _file(self, request_id: str) -> RequestFile:
        _check_id(request_id)
        return await asyncio.to_thread(self.repository.file, request_id)


def _check_id(request_id: str) -> None:
    """AgentError REQUEST_NOT_FOUND for what can be no id: it never reaches a path or a subject."""
    if not is_request_id(request_id):
        raise no_such_request(request_id)


def choices_of(wait: WaitRecord | None) -> list[str]:
    """The answers that the question proposes; any other text is an answer as well."""
    if wait is None or not isinstance(wait.schema, dict):
        return []
    proposed = wait.schema.get("examples")
    return [each for each in proposed if isinstance(each, str)] if isinstance(proposed, list) else []


def _is_waiting(state: RequestState) -> bool:
    """Whether it is in the queue, or has a run that no worker has taken yet."""
    record = state.record
    if record is None or record.queued_at is not None:
        return record is not None
    has_ended = state.run is not None and state.run.status.terminal
    return state.status == RequestStatus.QUEUED and record.open_run is not None and not has_ended


def _check_not_open(state: RequestState) -> None:
    if not state.is_open:
        return
    is_asking = state.status == RequestStatus.NEEDS_INPUT
    raise AgentError(
        AgentCode.ALREADY_RUNNING,
        f"The request {state.file.request_id} is {state.status}.",
        hint="Answer its question (resume), or stop it." if is_asking else "Wait for its end, or stop it.",
    )


def _check_readable(file: RequestFile) -> None:
    """AgentError REQUEST_UNREADABLE if a person has broken the header."""
    file.changed()


def _was_given(record: RequestRecord, text: str, wait_id: str | None) -> bool:
    answer = record.answer
    if answer is None or answer.accepted is not True:
        return False
    return answer.text == text and wait_id in (None, answer.wait_id)


def _not_needs_input(request_id: str, state: RequestState) -> AgentError:
    if state.question is not None:
        return AgentError(
            AgentCode.NOT_NEEDS_INPUT,
            f"The request {request_id} does not ask this question any more; it asks another one.",
            hint=f"Read it, and answer it with wait_id={state.question.wait_id}.",
        )
    return AgentError(
        AgentCode.NOT_NEEDS_INPUT, f"The request {request_id} is {state.status}, and asks nothing."
    )


def _cannot_edit(request_id: str) -> AgentError:
    return AgentError(
        AgentCode.CANNOT_EDIT_WHILE_RUNNING,
        f"The want of {request_id} cannot be changed while it is running.",
        hint="Stop the request first.",
    )


def _has_begun_since(state: RequestState, file: RequestFile) -> bool:
    """Whether a run has begun since the state was read: the file says so before the run reads the want."""
    known = state.file.run_number if state.file.status == RequestStatus.RUNNING else None
    return file.status == RequestStatus.RUNNING and file.run_number != known


def _decision_id(record: RequestRecord, intent: AnswerIntent) -> str:
    return uuid_of("agent answer", record.key, intent.wait_id, intent.at)
