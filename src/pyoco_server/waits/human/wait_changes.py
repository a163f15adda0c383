"""Changing an open wait: withdrawing it, extending its deadline, assigning it to others.

A change is one compare-and-set on the wait, and races on its revision with answers, the expiry, a cancel and
other changes. After a conflict the wait is read again, and the change is applied to what it is then. The same
change again changes nothing, so a request whose response was lost can be repeated.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from pyoco_server.auth.key_administration import KeyAdministration, KeyState, state_of
from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_store import StoredWait, WaitStore
from pyoco_server.errors import (
    FieldProblem,
    InvalidRequest,
    NatsUnavailable,
    WaitConflict,
    WaitExpired,
    shortened_json,
)
from pyoco_server.records.runs.run_models import RunSnapshot
from pyoco_server.records.waits.wait_models import Actor, WaitEvent, WaitEventKind, WaitRecord, WaitState
from pyoco_server.runs.lifecycle.compaction import compact_run_snapshot
from pyoco_server.runs.lifecycle.tenancy import Caller
from pyoco_server.waits.continuation import Continuations, awaited_by
from pyoco_server.waits.human.asking import MAX_TIMEOUT_MS, known_approvers, names_somebody
from pyoco_server.waits.wait_lookup import (
    check_asks_person,
    check_run_continues,
    find_wait,
    withdrawn_error,
)
from pyoco_server.waits.wait_transitions import change_event, expired

log = logging.getLogger(__name__)

_MAX_EXTENSION_SEC: Final = MAX_TIMEOUT_MS / 1000


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """Which wait somebody wants to change, and why."""

    wait_id: str
    caller: Caller
    actor: Actor
    reason: str | None = None


class WaitChanges:
    """`clock` decides whether a wait is still open."""

    def __init__(self, connection: Connection, *, clock: Callable[[], float] = time.time) -> None:
        self._connection = connection
        self._waits = WaitStore(connection)
        self._runs = RunStore(connection)
        self._continuations = Continuations(connection)
        self._clock = clock

    async def withdraw(self, request: ChangeRequest) -> WaitRecord:
        """Close the wait without an answer; its run fails with `human_withdrawn`."""
        if request.reason is None or not request.reason.strip():
            expected = "expected why the question is withdrawn; it is blank"
            problem = FieldProblem("reason", expected, value=shortened_json(request.reason))
            raise InvalidRequest(problems=[problem])
        while True:
            wait = await find_wait(self._waits, request.wait_id, request.caller)
            if wait.record.state is WaitState.WITHDRAWN:
                await self._continue_run(wait.record)
                return wait.record
            if (now := await self._time_of_change(wait)) is None:
                continue
            withdrawn = structs.replace(
                wait.record,
                state=WaitState.WITHDRAWN,
                decided_at=now,
                decided_by=request.actor,
                note=request.reason,
            )
            if await self._continuations.write_transition(wait, withdrawn):
                await self._continue_run(withdrawn)
                return withdrawn

    async def extend(self, request: ChangeRequest, deadline_at: float) -> WaitRecord:
        """Move the deadline to a later time."""

        async def extended(wait: WaitRecord, now: float) -> WaitRecord:
            _check_deadline(wait, now, deadline_at)
            return structs.replace(wait, deadline_at=deadline_at)

        changed = await self._change(request, WaitEventKind.EXTENDED, extended)
        await self._show_deadline(changed)
        return changed

    async def reassign(self, request: ChangeRequest, assignees: Sequence[str]) -> WaitRecord:
        """Replace the assignees; without any, everybody of the tenant may answer."""

        async def reassigned(wait: WaitRecord, _: float) -> WaitRecord:
            _check_assignees(wait, assignees, await self._excluded(wait))
            return structs.replace(wait, assignees=list(dict.fromkeys(assignees)))

        return await self._change(request, WaitEventKind.REASSIGNED, reassigned)

    async def _change(
        self,
        request: ChangeRequest,
        kind: WaitEventKind,
        change: Callable[[WaitRecord, float], Awaitable[WaitRecord]],
    ) -> WaitRecord:
        while True:
            wait = await find_wait(self._waits, request.wait_id, request.caller)
            if (now := await self._time_of_change(wait)) is None:
                continue
            changed = await change(wait.record, now)
            if changed == wait.record:
                return changed
            event = change_event(changed, kind, wait.revision, at=now, by=request.actor, why=request.reason)
            if await self._write(wait, changed, event):
                return changed

    async def _excluded(self, wait: WaitRecord) -> set[str]:
        """The key that may not answer because it submitted the run: its id, and its name if it is unique."""
        submitter = wait.submitted_by
        if wait.self_approval or submitter is None:
            return set()
        keys = [key.record for key in await KeyAdministration(self._connection).list(wait.tenant_id)]
        own = {key.name for key in keys if key.key_id == submitter}
        others = {key.name for key in keys if key.key_id != submitter and state_of(key) is KeyState.ACTIVE}
        return {submitter} | (own - others)

    async def _write(self, wait: StoredWait, changed: WaitRecord, event: WaitEvent) -> bool:
        try:
            return await self._continuations.write_transition(wait, changed, event)
        except PayloadTooLarge as error:
            problem = FieldProblem("assignees", f"the wait has no room for them: {error}")
            raise InvalidRequest(problems=[problem]) from error

    async def _time_of_change(self, wait: StoredWait) -> float | None:
        """Now; None when the wait has to be read again. An error says why it cannot be changed any more."""
        record, now = wait.record, self._clock()
        check_asks_person(record)
        if record.state is WaitState.OPEN and now >= record.deadline_at:
            # The maintenance has not expired it yet.
            if await self._continuations.write_transition(wait, expired(record, at=now)):
                await self._continue_run(record)
            return None
        match record.state:
            case WaitState.EXPIRED:
                raise WaitExpired("its deadline has passed; only an open wait can be changed")
            case WaitState.WITHDRAWN:
                raise withdrawn_error(record)
            case WaitState.ANSWERED | WaitState.CANCELLED:
                raise WaitConflict(
                    "invalid_state", f"the wait is {record.state}; only an open one can be changed"
                )
        await check_run_continues(self._runs, record.run_id)
        return now

    async def _continue_run(self, record: WaitRecord) -> None:
        """Best effort: the maintenance of waits repeats it."""
        try:
            await self._continuations.continue_run(record.run_id)
        except NatsUnavailable as error:
            extra = {"wait_id": record.wait_id, "run_id": record.run_id}
            log.warning("a wait is decided, its run will be continued later: %s", error, extra=extra)

    async def _show_deadline(self, wait: WaitRecord) -> None:
        """Write the deadline into the run as well, for display; best effort, as the wait itself decides."""
        room = min(self._connection.config.max_run_snapshot_bytes, self._connection.max_record_bytes)
        try:
            while (stored := await self._runs.get_from_leader(wait.run_id)) is not None:
                shown = _with_deadline(stored.snapshot, wait)
                if shown is None:
                    return
                try:
                    await self._runs.replace(compact_run_snapshot(shown, room), revision=stored.revision)
                except RevisionConflict:
                    continue
                return
        except NatsUnavailable as error:
            extra = {"wait_id": wait.wait_id, "run_id": wait.run_id}
            log.warning("the run of an extended wait shows its old deadline: %s", error, extra=extra)


def _check_deadline(wait: WaitRecord, now: float, deadline_at: float) -> None:
    if deadline_at < wait.deadline_at:
        expected = f"expected a later time than its deadline, {wait.deadline_at}"
        raise InvalidRequest(problems=[FieldProblem("deadline_at", expected, value=str(deadline_at))])
    if deadline_at > now + _MAX_EXTENSION_SEC:
        expected = f"expected at most {_MAX_EXTENSION_SEC / 86_400:.0f} days from now, in seconds since 1970"
        raise InvalidRequest(problems=[FieldProblem("deadline_at", expected, value=str(deadline_at))])


def _check_assignees(wait: WaitRecord, assignees: Sequence[str], excluded: Collection[str]) -> None:
    """Each must be a name, and those who may still answer enough for the approvals that are missing."""
    if blank := [name for name in assignees if not names_somebody(name)]:
        expected = "expected names or ids of API keys, or `group:<name>`, none of them blank"
        raise InvalidRequest(problems=[FieldProblem("assignees", expected, value=shortened_json(blank))])
    voters = {name for vote in wait.votes for name in (vote.by.name, vote.by.api_key_id) if name}
    approvers = known_approvers(assignees, voters.union(excluded))
    missing = wait.required - wait.approvals
    if approvers is not None and approvers < missing:
        conditions = ["have not voted"] if wait.votes else []
        conditions += ["did not submit the run"] if excluded else []
        who = f" who {' and '.join(conditions)}" if conditions else ""
        expected = f"expected at least {missing}{who}, or a group, or an empty list"
        raise InvalidRequest(problems=[FieldProblem("assignees", expected, value=shortened_json(assignees))])


def _with_deadline(snapshot: RunSnapshot, wait: WaitRecord) -> RunSnapshot | None:
    """The waiting run with the new deadline; None when there is nothing to change."""
    awaited = awaited_by(snapshot)
    shown = [
        structs.replace(each, deadline_at=wait.deadline_at) if each.wait_id == wait.wait_id else each
        for each in awaited
    ]
    if shown == awaited:
        return None
    before = next(each.deadline_at for each in awaited if each.wait_id == wait.wait_id)
    is_first = snapshot.wait_message == wait.message and snapshot.wait_deadline_at == before
    deadline_at = wait.deadline_at if is_first else snapshot.wait_deadline_at
    return structs.replace(snapshot, open_waits=shown, wait_deadline_at=deadline_at)
