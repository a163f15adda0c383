"""Calls about waits for people: methods of both clients."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict, Unpack, cast
from uuid import uuid4

from msgspec import UNSET

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Pages, Request, Stream, call, given
from pyoco_server.http_client.event_stream import ServerSentEvent
from pyoco_server.http_client.filter_params import WaitFilter
from pyoco_server.http_client.response_types import Receipt, Resumed, Run, Wait, WaitItem, WaitPage


class InboxEvent(TypedDict):
    """A change of the open waits: `open` has all of them, the others have one."""

    event: Literal["open", "opened", "closed"]
    id: str | None
    waits: NotRequired[list[WaitItem]]
    wait: NotRequired[WaitItem]


def waits(
    limit: int | None = None, cursor: str | None = None, **selected: Unpack[WaitFilter]
) -> Request[WaitPage]:
    """A page of the open waits that match, the next deadline first; or of those in the states of `state`.

    Its `items`, the `next_cursor` that leads to the next page, and the `total` of all that match.
    """
    return call(api.LIST_WAITS, given(limit=limit, cursor=cursor, **selected))


def iter_waits(page_size: int = 200, **selected: Unpack[WaitFilter]) -> Pages[WaitItem]:
    """Every wait that matches, page after page."""
    return Pages(page=lambda cursor: waits(page_size, cursor, **selected))


def get_wait(wait_id: str) -> Request[Wait]:
    """One wait with the `events` of its history; open or not."""
    return call(api.GET_WAIT, wait_id=wait_id)


def watch_waits() -> Stream[InboxEvent]:
    """The open waits as they change: first an event with all of them, then each change.

    The client reconnects when the gateway is away for a moment. It then gets what has changed meanwhile, or
    all open waits again.
    """
    return Stream(path=api.WATCH_WAITS.url(), read=_inbox_event_in, ends=lambda *_: False)


def respond(
    wait_id: str,
    payload: Any = UNSET,
    *,
    decision: str | None = None,
    digest: str | None = None,
    note: str | None = None,
    decision_id: str | None = None,
    on_behalf_of: str | None = None,
) -> Request[Receipt]:
    """Answer a wait: any JSON `payload` that its schema takes, None included.

    One with a proposal is answered with a `decision`: `approved`, with the `digest` of the proposal that was
    shown; `edited`, with the replacement as `payload`; or `rejected`, perhaps with a `note`. The same answer
    with the same `decision_id` may be given again, and gets the same receipt; the client makes an id of its
    own for each call, and repeats the call when the gateway is away for a moment. An application says with
    `on_behalf_of` for whom it answers; the history shows it beside the API key.
    """
    body = given(
        decision=decision,
        digest=digest,
        note=note,
        decision_id=decision_id or str(uuid4()),
        on_behalf_of=on_behalf_of,
    )
    if payload is not UNSET:
        body["payload"] = payload
    return call(api.RESPOND, body=body, wait_id=wait_id)


def resume(
    run_id: str, payload: Any, *, decision_id: str | None = None, on_behalf_of: str | None = None
) -> Request[Resumed]:
    """Answer the one open wait of a run; of several, name one with `respond`.

    To a proposal the payload is `{"decision": ..., "value": ..., "note": ..., "digest": ...}`. About the
    `decision_id` and `on_behalf_of`, see `respond`.
    """
    body = {"runId": run_id, "payload": payload, "decisionId": decision_id or str(uuid4())}
    body |= given(onBehalfOf=on_behalf_of)
    return call(api.RESUME, body=body)


def withdraw_wait(wait_id: str, reason: str) -> Request[Wait]:
    """Close an open wait without an answer: its run fails with the reason `human_withdrawn`.

    `retry` asks again. A repeated call changes nothing.
    """
    return call(api.WITHDRAW_WAIT, body={"reason": reason}, wait_id=wait_id)


def extend_wait(wait_id: str, deadline_at: float, *, reason: str | None = None) -> Request[Wait]:
    """Move the deadline of an open wait to a later time, in seconds since 1970."""
    return call(api.EXTEND_WAIT, body=given(deadline_at=deadline_at, reason=reason), wait_id=wait_id)


def reassign_wait(wait_id: str, assignees: Sequence[str], *, reason: str | None = None) -> Request[Wait]:
    """Replace the assignees of an open wait; with none, everybody of the tenant may answer."""
    body = {"assignees": list(assignees), **given(reason=reason)}
    return call(api.REASSIGN_WAIT, body=body, wait_id=wait_id)


def retry(run_id: str) -> Request[Run]:
    """Ask again what was not answered in time, or withdrawn: the run is WAITING_HUMAN, with a new deadline.

    Only for a run that is FAILED with the reason `human_timeout` or `human_withdrawn`. What finished before
    is not executed again.
    A repeated call changes nothing.
    """
    return call(api.RETRY_RUN, body={}, run_id=run_id)


def _inbox_event_in(event: ServerSentEvent) -> InboxEvent | None:
    if event.name not in ("open", "opened", "closed"):
        return None
    return cast(InboxEvent, {"event": event.name, "id": event.id, **json.loads(event.data)})
