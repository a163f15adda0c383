"""The questions about waits for people: these are methods of both clients, as those of endpoints.py are."""

from __future__ import annotations

import json
from typing import Any, Unpack, cast
from uuid import uuid4

from msgspec import UNSET

from pyoco_server.http_client.call_types import Pages, Request, Stream, get, given, post, quoted
from pyoco_server.http_client.event_stream import ServerSentEvent
from pyoco_server.http_client.filter_params import WaitFilter
from pyoco_server.http_client.response_types import Run
from pyoco_server.http_client.wait_response_types import (
    InboxEvent,
    Receipt,
    Resumed,
    Wait,
    WaitItem,
    WaitPage,
)


def waits(
    limit: int | None = None, cursor: str | None = None, **wanted: Unpack[WaitFilter]
) -> Request[WaitPage]:
    """A page of the open waits that match, the next deadline first; or of those in the states of `state`.

    Its `items`, the `next_cursor` that leads to the next page, and the `total` of all that match.
    """
    return get("/waits", given(limit=limit, cursor=cursor, **wanted))


def iter_waits(page_size: int = 200, **wanted: Unpack[WaitFilter]) -> Pages[WaitItem]:
    """Every wait that matches, page after page."""
    return Pages(
        page=lambda cursor: waits(page_size, cursor, **wanted),
        items="items",
        next=lambda page, _: page.get("next_cursor"),
    )


def get_wait(wait_id: str) -> Request[Wait]:
    """One wait with the `events` of its history; open or not."""
    return get(f"/waits/{quoted(wait_id)}")


def watch_waits() -> Stream[InboxEvent]:
    """What waits for an answer, as it changes: first an event with all that is open, then each change.

    A gateway that goes away for a moment is waited for, and tells then what changed meanwhile, or all that is
    open once more.
    """
    return Stream(path="/waits/watch", read=_inbox_event_in, ends=lambda *_: False)


def respond(
    wait_id: str,
    payload: Any = UNSET,
    *,
    decision: str | None = None,
    digest: str | None = None,
    note: str | None = None,
    decision_id: str | None = None,
) -> Request[Receipt]:
    """Answer a wait: any JSON `payload` that its schema takes, None included.

    One with a proposal is answered with a `decision`: `approved`, with the `digest` of the proposal that was
    shown; `edited`, with the replacement as `payload`; or `rejected`, perhaps with a `note`. The same answer
    with the same `decision_id` may be given again, and gets the same receipt; the client makes an id of its
    own for each call, and repeats the call when the gateway is away for a moment.
    """
    body = given(decision=decision, digest=digest, note=note, decision_id=decision_id or str(uuid4()))
    if payload is not UNSET:
        body["payload"] = payload
    return post(f"/waits/{quoted(wait_id)}/respond", body, repeatable=True)


def resume(run_id: str, payload: Any, *, decision_id: str | None = None) -> Request[Resumed]:
    """Answer the one open wait of a run; of several, name one with `respond`.

    To a proposal the payload is `{"decision": ..., "value": ..., "note": ..., "digest": ...}`. About the
    `decision_id`, see `respond`.
    """
    body = {"runId": run_id, "payload": payload, "decisionId": decision_id or str(uuid4())}
    return post("/resume", body, repeatable=True)


def retry(run_id: str) -> Request[Run]:
    """Ask again what nobody has answered in time: the run is WAITING_HUMAN anew, with a new deadline.

    Only for a run that is FAILED with the reason `human_timeout`. What finished before is not executed again.
    Asking twice is asking once.
    """
    return post(f"/runs/{quoted(run_id)}/retry", {}, repeatable=True)


def _inbox_event_in(event: ServerSentEvent) -> InboxEvent | None:
    if event.name not in ("open", "opened", "closed"):
        return None
    return cast(InboxEvent, {"event": event.name, "id": event.id, **json.loads(event.data)})
