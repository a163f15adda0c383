"""Endpoints of waits and their answers."""

from pyoco_server.api import wait_types as waits
from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.api.endpoints.endpoint import LAST_EVENT_ID, Body, Endpoint, Events
from pyoco_server.api.endpoints.endpoint_errors import LIST_ERRORS, NATS, UNREADABLE
from pyoco_server.api.endpoints.endpoint_scopes import ANSWER, OPERATE, READ_WAITS
from pyoco_server.errors.error_table import Err

_ANSWER_ERRORS = (
    Err.NOT_ASSIGNED,
    UNREADABLE,
    Err.WAIT_CONFLICT,
    Err.WAIT_EXPIRED,
    Err.PROPOSAL_CHANGED,
    Err.ANSWER_INVALID,
    Err.INVALID_REQUEST,
    NATS,
    Err.ANSWERS_BUSY,
)
_WAIT_CHANGE_ERRORS = (
    Err.WAIT_NOT_FOUND,
    UNREADABLE,
    Err.WAIT_CONFLICT,
    Err.WAIT_EXPIRED,
    Err.INVALID_REQUEST,
    NATS,
)

WATCH_WAITS = Endpoint(
    "GET /waits/watch",
    READ_WAITS,
    "The open waits, as server-sent events: first all of them, then each that opens or closes.",
    errors=LIST_ERRORS,
    query=waits.WaitWatchQuery,
    request_headers={LAST_EVENT_ID: "Continue after this event."},
    events=Events(
        "Events `open`, whose data is an `OpenWaitsEvent` with all that is open; `opened` and `closed`, a "
        "`WaitChanged`; and `heartbeat`, an `InboxNote`. Their ids are positions for `Last-Event-ID`.",
        (waits.OpenWaitsEvent, waits.WaitChanged, waits.InboxNote),
    ),
)
LIST_WAITS = Endpoint(
    "GET /waits",
    READ_WAITS,
    "The waits that match; by default the open ones.",
    waits.WaitPage,
    LIST_ERRORS,
    query=waits.WaitListQuery,
)
GET_WAIT = Endpoint(
    "GET /waits/{wait_id}",
    READ_WAITS,
    "One wait, open or not, with its question, its answer and its history.",
    waits.WaitView,
    (Err.WAIT_NOT_FOUND, UNREADABLE, Err.INVALID_REQUEST, NATS),
)
RESPOND = Endpoint(
    "POST /waits/{wait_id}/respond",
    ANSWER,
    "Answer a wait. The first answer is accepted; later ones get a 409 that names it.",
    waits.Responded,
    (Err.WAIT_NOT_FOUND, *_ANSWER_ERRORS),
    Body(waits.RespondRequest),
    repeatable=True,
    audit=AuditRule("wait.answer", ("wait_id",), run="run_id", request=("decision", "on_behalf_of")),
)
WITHDRAW_WAIT = Endpoint(
    "POST /waits/{wait_id}/withdraw",
    OPERATE,
    "Close an open wait without an answer; its run fails with `human_withdrawn`. "
    "Repeating the request changes nothing.",
    waits.WaitView,
    _WAIT_CHANGE_ERRORS,
    Body(waits.WithdrawRequest),
    repeatable=True,
    audit=AuditRule("wait.withdraw", ("wait_id",), run="run_id", request=("reason",)),
)
EXTEND_WAIT = Endpoint(
    "POST /waits/{wait_id}/extend",
    OPERATE,
    "Move the deadline of an open wait to a later time. Repeating the request changes nothing.",
    waits.WaitView,
    _WAIT_CHANGE_ERRORS,
    Body(waits.ExtendRequest),
    repeatable=True,
    audit=AuditRule("wait.extend", ("wait_id",), run="run_id", request=("deadline_at", "reason")),
)
REASSIGN_WAIT = Endpoint(
    "POST /waits/{wait_id}/reassign",
    OPERATE,
    "Replace the assignees of an open wait. Repeating the request changes nothing.",
    waits.WaitView,
    _WAIT_CHANGE_ERRORS,
    Body(waits.ReassignRequest),
    repeatable=True,
    audit=AuditRule("wait.reassign", ("wait_id",), run="run_id", request=("assignees", "reason")),
)
RESUME = Endpoint(
    "POST /resume",
    ANSWER,
    "Answer the only open wait of a run; with several, answer one of them by its own id.",
    waits.Resumed,
    (Err.RUN_NOT_FOUND, *_ANSWER_ERRORS),
    Body(waits.ResumeRequest),
    repeatable=True,
    audit=AuditRule("run.answer", ("runId", "run_id"), request=("onBehalfOf", "on_behalf_of")),
)
