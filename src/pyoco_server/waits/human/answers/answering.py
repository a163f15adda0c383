"""Answering a wait: the checks, and the write that decides it.

An answer, an expiry and a cancel race on one revision of the wait; the loser reads the outcome and reports
it. A repeated answer with the same decision_id gets the receipt of the first.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn
from uuid import uuid4

import msgspec
from msgspec import UNSET, Struct

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_store import StoredWait, WaitStore
from pyoco_server.errors import (
    AmbiguousWait,
    AnswersBusy,
    FieldProblem,
    InvalidAnswer,
    NatsUnavailable,
    NotAssigned,
    ProposalChanged,
    PyocoError,
    SelfApproval,
    WaitConflict,
    WaitExpired,
    WaitExpiredForGood,
    shortened_json,
)
from pyoco_server.json_schemas.schema_checker import SchemaChecker
from pyoco_server.records.runs.run_models import UNANSWERED, RunSnapshot, RunStatus
from pyoco_server.records.waits.wait_models import (
    Actor,
    Decision,
    Vote,
    WaitEvent,
    WaitEventKind,
    WaitRecord,
    WaitState,
    canonical,
)
from pyoco_server.runs.lifecycle.tenancy import Caller, find_run
from pyoco_server.waits.continuation import Continuations
from pyoco_server.waits.human.answers.voting import (
    as_answered_by,
    check_has_not_voted,
    vote_event,
    vote_named,
    with_vote,
)
from pyoco_server.waits.human.asking import GROUP_PREFIX
from pyoco_server.waits.wait_lookup import (
    check_asks_person,
    check_run_continues,
    find_wait,
    withdrawn_error,
)
from pyoco_server.waits.wait_transitions import expired, next_wait_id

log = logging.getLogger(__name__)


class Answer(Struct, kw_only=True, omit_defaults=True):
    """What a person answers. A payload of `null` is not the same as no payload."""

    payload: Any = UNSET
    # These two only for a wait with a proposal; the digest is that of the proposal that was shown.
    decision: Decision | None = None
    digest: str | None = None
    note: str | None = None
    # Chosen by the caller, to repeat the answer safely.
    decision_id: str | None = None


class _ProposalAnswer(Struct, kw_only=True, forbid_unknown_fields=True):
    """The payload of `resume` for a wait with a proposal."""

    decision: Decision
    value: Any = UNSET
    note: str | None = None
    digest: str | None = None


class AnswerReceipt(Struct, kw_only=True):
    """Confirms an answer; the same for every repetition of it."""

    wait_id: str
    run_id: str
    decided_at: float
    decision: Decision | None
    decision_id: str | None
    # Open while more approvals are required.
    state: WaitState = WaitState.ANSWERED
    required: int = 1
    approvals: int = 0
    repeated: bool = False


class AnswerHandler:
    """`clock` decides whether an answer is in time."""

    def __init__(self, connection: Connection, *, clock: Callable[[], float] = time.time) -> None:
        self._waits = WaitStore(connection)
        self._runs = RunStore(connection)
        self._continuations = Continuations(connection)
        self._schemas = SchemaChecker()
        self._clock = clock

    async def close(self) -> None:
        await self._schemas.close()

    async def respond(self, wait_id: str, answer: Answer, caller: Caller, actor: Actor) -> AnswerReceipt:
        """Decide the wait; an error says why the answer is invalid or too late."""
        while True:
            wait = await find_wait(self._waits, wait_id, caller)
            try:
                receipt = await self._try(wait, answer, caller, actor)
            except (NatsUnavailable, AnswersBusy):
                raise
            except PyocoError as error:
                await self._publish_refusal(wait.record, answer, actor, error)
                raise
            if receipt is not None:
                return receipt

    async def resume(
        self, run_id: str, payload: Any, caller: Caller, actor: Actor, decision_id: str | None = None
    ) -> AnswerReceipt:
        """Answer the only open wait of a run."""
        snapshot = (await find_run(self._runs, run_id, caller)).snapshot
        stored = await self._waits.of_run_from_leader(run_id)
        waits = [wait.record for wait in stored if wait.record.is_human]
        wait = _decided_as(decision_id, waits, actor) or _only_open_wait(snapshot, waits)
        answer = answer_from_payload(wait, payload, decision_id)
        try:
            return await self.respond(wait.wait_id, answer, caller, actor)
        except InvalidAnswer as error:
            if wait.proposal is UNSET:
                raise
            raise InvalidAnswer(problems=[_in_payload(problem) for problem in error.problems]) from None

    async def _try(
        self, wait: StoredWait, answer: Answer, caller: Caller, actor: Actor
    ) -> AnswerReceipt | None:
        """The receipt; None when the wait was written since it was read."""
        record = wait.record
        check_asks_person(record)
        _check_assignee(record, caller, actor)
        if record.state is not WaitState.OPEN:
            return await self._receipt_of_decided(record, answer, actor)
        if vote_named(record, answer.decision_id, actor) is not None:
            return _repeated_receipt(record, answer, actor)
        now = self._clock()
        if now >= record.deadline_at:
            await self._expire(wait, now)
            return None
        await check_run_continues(self._runs, record.run_id)
        check_answer_form(record, answer)
        check_has_not_voted(record, actor)
        if record.schema is not None and answer.payload is not UNSET:
            await self._schemas.check(
                answer.payload, record.schema, at="payload", owner=_schema_check_owner(record)
            )
        return await self._decide(wait, answer, actor, now)

    async def _decide(
        self, wait: StoredWait, answer: Answer, actor: Actor, now: float
    ) -> AnswerReceipt | None:
        vote = Vote(
            at=now,
            by=actor,
            payload=answer.payload,
            decision=answer.decision,
            note=answer.note,
            decision_id=answer.decision_id,
        )
        outcome = with_vote(wait.record, vote)
        is_open = outcome.state is WaitState.OPEN
        event = vote_event(outcome, vote, wait.revision) if is_open else None
        try:
            if not await self._continuations.write_transition(wait, outcome, event):
                return None
        except PayloadTooLarge as error:
            raise InvalidAnswer(problems=[FieldProblem("payload", f"it is too large: {error}")]) from error
        if not is_open:
            await self._continue_run(outcome)
        return _receipt(as_answered_by(outcome, vote))

    async def _receipt_of_decided(self, record: WaitRecord, answer: Answer, actor: Actor) -> AnswerReceipt:
        """The receipt of the answer that decided the wait; an error if it was another, or none."""
        if record.state is WaitState.EXPIRED:
            raise await self._too_late(record)
        if record.state is WaitState.CANCELLED:
            raise WaitConflict("invalid_state", f"the wait was cancelled: {record.note}")
        if record.state is WaitState.WITHDRAWN:
            raise withdrawn_error(record)
        receipt = _repeated_receipt(record, answer, actor)
        await self._continue_run(record)
        return receipt

    async def _too_late(self, record: WaitRecord) -> WaitExpired:
        """Whether `retry` can ask again depends on what the run did after the expiry."""
        late = f"its deadline was {_utc(record.deadline_at)}"
        if record.resolved:
            return WaitExpiredForGood(f"{late}; the default was used as the answer")
        stored = await self._runs.get_from_leader(record.run_id)
        if stored is None:
            return WaitExpiredForGood(f"{late}; its run was deleted")
        run = stored.snapshot
        if run.status.terminal and run.reason not in UNANSWERED:
            return WaitExpiredForGood(f"{late}; its run is {run.status}")
        again = next_wait_id(record)
        if await self._waits.find_from_leader(again) is not None:
            return WaitExpiredForGood(f"{late}; it was asked again, as {again}")
        return WaitExpired(late)

    async def _expire(self, wait: StoredWait, now: float) -> None:
        """The deadline has passed, and the maintenance has not expired the wait yet."""
        if await self._continuations.write_transition(wait, expired(wait.record, at=now)):
            await self._continue_run(wait.record)

    async def _continue_run(self, record: WaitRecord) -> None:
        """Best effort: the maintenance of waits repeats it."""
        try:
            await self._continuations.continue_run(record.run_id)
        except NatsUnavailable as error:
            extra = {"wait_id": record.wait_id, "run_id": record.run_id}
            log.warning("a wait is decided, its run will be continued later: %s", error, extra=extra)

    async def _publish_refusal(
        self, record: WaitRecord, answer: Answer, actor: Actor, error: PyocoError
    ) -> None:
        await self._continuations.publish_best_effort(
            WaitEvent(
                event_id=f"{record.wait_id}.{WaitEventKind.REFUSED}.{uuid4().hex}",
                kind=WaitEventKind.REFUSED,
                wait_id=record.wait_id,
                run_id=record.run_id,
                at=self._clock(),
                tenant_id=record.tenant_id,
                actor=actor,
                decision=answer.decision,
                decision_id=answer.decision_id,
                why=error.word,
            )
        )


def _check_assignee(record: WaitRecord, caller: Caller, actor: Actor) -> None:
    """Without API keys callers are not identified, so everybody may answer."""
    if caller.api_key_id is None:
        return
    names = {caller.api_key_id, *(f"{GROUP_PREFIX}{group}" for group in caller.groups)}
    # A key's name must not pass for a group.
    if actor.name and not actor.name.startswith(GROUP_PREFIX):
        names.add(actor.name)
    if record.assignees and names.isdisjoint(record.assignees):
        raise NotAssigned(f"the assignees are {', '.join(record.assignees)}")
    if not record.self_approval and caller.api_key_id == record.submitted_by:
        raise SelfApproval("you submitted this run, and somebody else has to answer")


def _schema_check_owner(record: WaitRecord) -> str:
    """Slow checks are limited per tenant, or without tenants per flow."""
    return f"tenant {record.tenant_id}" if record.tenant_id is not None else f"flow {record.flow_name}"


def _decided_as(decision_id: str | None, waits: list[WaitRecord], actor: Actor) -> WaitRecord | None:
    if decision_id is None:
        return None
    for wait in waits:
        is_named = vote_named(wait, decision_id, actor) if wait.votes else wait.decision_id == decision_id
        if is_named:
            return wait
    return None


def _only_open_wait(snapshot: RunSnapshot, waits: list[WaitRecord]) -> WaitRecord:
    # While a task waits, others of the run may be running, or be in the queue with an answer.
    can_continue = snapshot.status.parked or snapshot.status in (RunStatus.PENDING, RunStatus.RUNNING)
    still_open = [wait for wait in waits if can_continue and wait.state is WaitState.OPEN]
    if len(still_open) == 1:
        return still_open[0]
    if still_open:
        named = ", ".join(sorted(wait.wait_id for wait in still_open))
        raise AmbiguousWait(f"respond to one of {named}")
    last = max(waits, key=lambda wait: wait.decided_at or 0.0, default=None)
    has_ended_otherwise = snapshot.status.terminal and snapshot.reason not in UNANSWERED
    if last is not None and last.state is WaitState.EXPIRED and not last.resolved and not has_ended_otherwise:
        raise WaitExpired(f"its deadline was {_utc(last.deadline_at)}")
    if last is not None and last.state is WaitState.WITHDRAWN:
        raise withdrawn_error(last)
    raise WaitConflict("invalid_state", "Run is not waiting_human")


def _receipt(record: WaitRecord) -> AnswerReceipt:
    return AnswerReceipt(
        wait_id=record.wait_id,
        run_id=record.run_id,
        decided_at=record.decided_at or 0.0,
        decision=record.decision,
        decision_id=record.decision_id,
        state=record.state,
        required=record.required,
        approvals=record.approvals,
    )


def _repeated_receipt(record: WaitRecord, answer: Answer, actor: Actor) -> AnswerReceipt:
    """The receipt of an answer or vote that was given before; WaitConflict if it was another one."""
    vote = vote_named(record, answer.decision_id, actor)
    given = record if vote is None else as_answered_by(record, vote)
    is_vote_of_another = vote is None and bool(record.votes)
    if is_vote_of_another or not is_same_answer(given, answer):
        raise WaitConflict("already_decided", _answered_by(given))
    receipt = _receipt(given)
    receipt.repeated = True
    return receipt


def _answered_by(record: WaitRecord) -> str:
    by = record.decided_by or Actor()
    return f"it was answered by {by.label} at {_utc(record.decided_at or 0.0)}"


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


# The form of an answer


def answer_from_payload(wait: WaitRecord, payload: Any, decision_id: str | None) -> Answer:
    if wait.proposal is UNSET:
        return Answer(payload=payload, decision_id=decision_id)
    try:
        about = msgspec.convert(payload, _ProposalAnswer)
    except msgspec.ValidationError as error:
        expected = 'expected {"decision": "approved" | "edited" | "rejected", "value", "note", "digest"}'
        _reject("payload", f"{error}; {expected}", payload)
    return Answer(
        payload=about.value,
        decision=about.decision,
        digest=about.digest,
        note=about.note,
        decision_id=decision_id,
    )


def is_same_answer(wait: WaitRecord, answer: Answer) -> bool:
    """Whether this repeats the answer that the wait has, with the same decision_id."""
    if answer.decision_id is None or answer.decision_id != wait.decision_id:
        return False
    if answer.payload is UNSET or wait.payload is UNSET:
        same_payload = answer.payload is wait.payload
    else:
        same_payload = canonical(answer.payload) == canonical(wait.payload)
    same_decision = answer.decision is wait.decision and answer.note == wait.note
    return same_payload and same_decision and _is_about(wait, answer)


def _is_about(wait: WaitRecord, answer: Answer) -> bool:
    """Whether it answers the proposal of this wait. Only an approval requires the digest."""
    is_optional = answer.decision is not Decision.APPROVED
    return answer.digest == wait.proposal_digest or (answer.digest is None and is_optional)


def check_answer_form(wait: WaitRecord, answer: Answer) -> None:
    """InvalidAnswer or ProposalChanged say what is wrong; the schema is checked elsewhere."""
    if wait.proposal is UNSET:
        _check_plain(answer)
    else:
        _check_decision(answer)
        if answer.decision is Decision.EDITED and wait.required > 1:
            hint = f"{wait.required} people have to approve the same proposal: approve or reject it"
            _reject("decision", hint, answer.decision)
        _check_digest(wait, answer)


def _check_plain(answer: Answer) -> None:
    if answer.decision is not None:
        _reject("decision", "this wait has no proposal to decide on; answer with a payload", answer.decision)
    if answer.digest is not None:
        _reject("digest", "this wait has no proposal; leave the digest out", answer.digest)
    if answer.payload is UNSET:
        _reject("payload", "this is missing; null, false, 0 and '' are answers as well")


def _check_decision(answer: Answer) -> None:
    match answer.decision:
        case None:
            _reject("decision", "this wait has a proposal: expected approved, edited or rejected")
        case Decision.EDITED:
            if answer.payload is UNSET:
                _reject("payload", "an edit needs the value that replaces the proposal")
        case _:
            if answer.payload is not UNSET:
                hint = f"'{answer.decision}' takes no payload; use 'edited' to answer with another value"
                _reject("payload", hint, answer.payload)


def _check_digest(wait: WaitRecord, answer: Answer) -> None:
    if answer.digest is None:
        if answer.decision is Decision.APPROVED:
            _reject("digest", "this is missing: an approval names its proposal by the proposal_digest")
    elif answer.digest != wait.proposal_digest:
        raise ProposalChanged(f"the digest of the proposal is not {shortened_json(answer.digest)}")


def _in_payload(problem: FieldProblem) -> FieldProblem:
    """Its place in the body of `resume`, where the decision on a proposal is in the payload."""
    inside = problem.field.removeprefix("payload")
    below = inside if inside == problem.field else f"value{inside}"
    return replace(problem, field=f"payload.{below}")


def _reject(field: str, message: str, value: Any = UNSET) -> NoReturn:
    shown = None if value is UNSET else shortened_json(value)
    raise InvalidAnswer(problems=[FieldProblem(field, message, value=shown)])
