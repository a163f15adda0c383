"""The waits of one run, at the worker that executes it: questions to people, sleeps, signals, events.

A question is stored as soon as its task asks it, so that it can be answered while the rest of the flow runs.
When nothing else can run, the stored waits decide how the run continues.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, structs

from pyoco_server.broker.client.connection import PayloadTooLarge
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.records.runs.run_models import Job, Reason, RerunMode, RunStatus, TaskStatus, WaitKind
from pyoco_server.records.waits.wait_models import (
    NO_DEADLINE,
    Question,
    WaitEvent,
    WaitEventKind,
    WaitRecord,
    WaitState,
    decode_questions,
    digest_of,
    encode,
    wait_id_of,
)
from pyoco_server.waits.wait_event_outbox import close_wait, publish_outbox
from pyoco_server.waits.wait_transitions import (
    RUN_ENDED,
    change_of,
    ended_unanswered,
    event_of,
    unanswered_reason,
    unanswered_text,
    with_kept_answer,
)
from pyoco_server.worker.ipc.protocol import Outcome

_NOT_NEEDED: Final = "the run does not need the answer any more"

Place = tuple[str, str]


class RunQuestions:
    def __init__(self, store: WaitStore, events: WaitEventLog, job: Job, timeout_sec: float) -> None:
        self._store = store
        self._events = events
        self._job = job
        self._timeout_sec = timeout_sec
        # The newest wait of each question, as last read.
        self._waits: dict[Place, WaitRecord] = {}
        # The waits that the run needs an answer to, when nothing else can run.
        self.awaited: list[WaitRecord] = []
        self._asking = asyncio.Lock()

    @property
    def open(self) -> list[WaitRecord]:
        """Those without an answer, as last read."""
        return [wait for wait in self._waits.values() if wait.state is WaitState.OPEN]

    async def load(self) -> None:
        """Read the waits of earlier attempts.

        From the leader: a run that waits for a closed wait would never continue.
        """
        stored = await self._store.of_run_from_leader(self._job.run_id)
        for wait in sorted((each.record for each in stored), key=lambda record: record.arming):
            self._waits[wait.node, wait.name] = wait

    def encoded(self) -> bytes:
        return encode(list(self._waits.values())) if self._waits else b""

    async def ask(self, question: Question) -> WaitRecord:
        """The wait of a question; created unless an earlier attempt has asked it."""
        async with self._asking:
            known = self._waits.get((question.node, question.name))
            change = None if known is None else change_of(known, question)
            if known is not None and not _must_ask_again(known, change):
                return known
            if known is not None and known.state is WaitState.OPEN:
                known = await close_wait(self._store, self._events, known.wait_id, change or "") or known
            wait = self._new_wait(question, known, change)
            outbox: Sequence[WaitEvent] = [event_of(wait, WaitEventKind.OPENED, why=wait.asked_again)]
            if known is None and (kept := await self._with_kept_answer(wait)) is not None:
                wait, outbox = kept, [event_of(kept, WaitEventKind.REUSED, why=kept.taken_from)]
            if not wait.is_human:
                outbox = ()
            try:
                await self._store.create(wait, outbox=outbox)
            except RevisionConflict:
                stored = await self._store.find_from_leader(wait.wait_id)
                wait, outbox = (wait, ()) if stored is None else (stored.record, stored.outbox)
            await publish_outbox(self._events, outbox)
            self._waits[question.node, question.name] = wait
            return wait

    async def _with_kept_answer(self, wait: WaitRecord) -> WaitRecord | None:
        """The wait with the outcome of the origin's: in a rerun that keeps answers or, as for steps, in one
        from the failed tasks what its tasks have slept and received.
        """
        origin = self._job.origin_run_id
        keeps_results = not wait.is_human and self._job.rerun_mode is RerunMode.FAILED
        if origin is None or not (self._job.keep_answers or keeps_results):
            return None
        earlier = await self._store.of_run_from_leader(origin)
        # A job names any origin; an answer counts within its tenant only.
        mine = [each.record for each in earlier if each.record.tenant_id == self._job.tenant_id]
        return with_kept_answer(wait, mine)

    async def settle(self, outcome: Outcome, *, may_continue: bool) -> Outcome:
        """The outcome of a run that can only wait: it is parked, continues with an answer, or has failed.

        `may_continue` is false when it is to be parked although it has an answer: a gateway continues it.

        An answer between this read and the write of the snapshot is found by a gateway.
        """
        try:
            asked = [await self.ask(question) for question in decode_questions(outcome.questions)]
        except PayloadTooLarge as error:
            text = f"a question cannot be asked, it is too large for NATS: {error.detail}"
            return Outcome(status=RunStatus.FAILED, reason=Reason.EXECUTION_ERROR, error=text)
        await self._read_back(asked)
        self.awaited = [self._waits[wait.node, wait.name] for wait in asked]
        await self._close_unneeded()
        if may_continue and any(wait.resolved for wait in self.awaited):
            return Outcome(status=RunStatus.RUNNING, must_continue=True)
        missed = [wait for wait in self.awaited if ended_unanswered(wait)]
        if not missed:
            return outcome
        return structs.replace(
            outcome,
            status=RunStatus.FAILED,
            reason=unanswered_reason(missed),
            error=unanswered_text(missed),
            tasks=outcome.tasks | {wait.task: TaskStatus.FAILED for wait in missed},
        )

    async def close(self) -> None:
        """The run has ended: close its open waits."""
        for wait in self.open:
            await close_wait(self._store, self._events, wait.wait_id, RUN_ENDED)

    async def _close_unneeded(self) -> None:
        """Close waits that the flow does not need any more, for example because another task was faster."""
        awaited = {wait.wait_id for wait in self.awaited}
        for wait in self.open:
            if wait.wait_id not in awaited:
                closed = await close_wait(self._store, self._events, wait.wait_id, _NOT_NEEDED)
                if closed is not None:
                    self._waits[wait.node, wait.name] = closed

    async def _read_back(self, waits: Sequence[WaitRecord]) -> None:
        """Read the waits from the leader, and follow those that `retry` has opened again."""
        for wait in waits:
            wait_id, arming = wait.wait_id, wait.arming
            while (stored := await self._store.find_from_leader(wait_id)) is not None:
                self._waits[wait.node, wait.name] = stored.record
                if stored.record.state not in (WaitState.EXPIRED, WaitState.WITHDRAWN):
                    break
                arming += 1
                wait_id = wait_id_of(wait.run_id, wait.node, wait.name, arming)

    def _new_wait(self, question: Question, before: WaitRecord | None, change: str | None) -> WaitRecord:
        job, now = self._job, time.time()
        arming = 1 if before is None else before.arming + 1
        changes = 0 if before is None else before.changes + (change is not None and before.resolved)
        is_proposal = question.proposal is not UNSET
        return WaitRecord(
            wait_id=wait_id_of(job.run_id, question.node, question.name, arming),
            run_id=job.run_id,
            flow_name=job.flow_name,
            tag=job.tag,
            tenant_id=job.tenant_id,
            node=question.node,
            task=question.task,
            name=question.name,
            arming=arming,
            message=question.message,
            schema=question.schema,
            proposal=question.proposal,
            proposal_digest=digest_of(question.proposal) if is_proposal else None,
            assignees=question.assignees,
            default=question.default,
            on_timeout=question.on_timeout,
            asked_again=change,
            changes=changes,
            required=question.required,
            self_approval=question.self_approval,
            submitted_by=job.api_key_id,
            notify=question.notify,
            escalate_to=question.escalate_to,
            remind_at=None if question.remind_sec is None else now + question.remind_sec,
            escalate_at=None if question.escalate_sec is None else now + question.escalate_sec,
            created_at=now,
            deadline_at=self._deadline(question, now),
            kind=question.kind,
            topic=question.topic,
            match=question.match,
        )

    def _deadline(self, question: Question, now: float) -> float:
        if question.until is not None:
            return question.until
        if question.timeout_sec is not None:
            return now + question.timeout_sec
        return now + self._timeout_sec if question.kind is WaitKind.HUMAN else NO_DEADLINE


def _must_ask_again(known: WaitRecord, change: str | None) -> bool:
    """Whether the wait is not that of this question; one that expired still fails its run."""
    is_pending = known.state is WaitState.OPEN or known.resolved
    return known.state is WaitState.CANCELLED or (change is not None and is_pending)
