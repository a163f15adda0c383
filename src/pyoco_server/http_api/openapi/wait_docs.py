"""What the document says about waits for people."""

from typing import Any, Final

from pyoco_server.errors.error_table import Err
from pyoco_server.http_api.openapi.parts import Answers, Paths, events, json_body, query_parameter
from pyoco_server.http_api.routes import wait_answer_routes as wait_answers
from pyoco_server.http_api.routes import wait_routes as waits
from pyoco_server.http_api.streams import wait_watch_routes as wait_watch
from pyoco_server.human.inbox.wait_items import WaitItem
from pyoco_server.records.models import RunSnapshot
from pyoco_server.records.wait_models import WaitState

RECORDS: Final[tuple[type, ...]] = (
    WaitItem,
    waits.WaitPage,
    waits.WaitView,
    wait_watch.OpenWaitsEvent,
    wait_watch.WaitChanged,
    wait_watch.InboxNote,
    wait_answers.RespondRequest,
    wait_answers.Responded,
    wait_answers.ResumeRequest,
    wait_answers.Resumed,
    wait_answers.RetryRequest,
)

_LIST_ERRORS = (Err.INVALID_LIST_QUERY, Err.NATS_UNAVAILABLE, Err.INDEX_NOT_READY)
_ANSWER_ERRORS = (
    Err.NOT_ASSIGNED,
    Err.WAIT_CONFLICT,
    Err.WAIT_EXPIRED,
    Err.PROPOSAL_CHANGED,
    Err.ANSWER_INVALID,
    Err.INVALID_REQUEST,
    Err.NATS_UNAVAILABLE,
    Err.ANSWERS_BUSY,
)
ANSWERS: Final[Answers] = {
    ("/waits", "get"): (waits.WaitPage, _LIST_ERRORS),
    ("/waits/watch", "get"): (wait_watch.OpenWaitsEvent, _LIST_ERRORS),
    ("/waits/{wait_id}", "get"): (waits.WaitView, (Err.WAIT_NOT_FOUND, Err.NATS_UNAVAILABLE)),
    ("/waits/{wait_id}/respond", "post"): (wait_answers.Responded, (Err.WAIT_NOT_FOUND, *_ANSWER_ERRORS)),
    ("/resume", "post"): (wait_answers.Resumed, (Err.RUN_NOT_FOUND, *_ANSWER_ERRORS)),
    ("/runs/{run_id}/retry", "post"): (
        RunSnapshot,
        (Err.RUN_NOT_FOUND, Err.WAIT_CONFLICT, Err.INVALID_REQUEST, Err.NATS_UNAVAILABLE),
    ),
}

_EVENTS = (
    "Events `open`, whose data is an `OpenWaitsEvent` with all that is open; `opened` and `closed`, a "
    "`WaitChanged`; and `heartbeat`, an `InboxNote`. Their ids are positions for `Last-Event-ID`."
)
_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": 200}
_LIST_PARAMETERS: Final[list[dict[str, Any]]] = [
    query_parameter(
        "state",
        "Any of these; repeated or separated by commas. Default `open`.",
        {"type": "array", "items": {"type": "string", "enum": list(WaitState)}},
    ),
    query_parameter("run_id", "Of this run.", {"type": "string", "format": "uuid"}),
    query_parameter("flow", "Of this flow.", _TEXT),
    query_parameter("tag", "Of runs with this tag.", _TEXT),
    query_parameter("task", "Asked by this task.", _TEXT),
    query_parameter("assignee", "For this person: the id or the name of an API key.", _TEXT),
    query_parameter(
        "limit",
        f"How many at most; default {waits.LIMIT_DEFAULT}.",
        {"type": "integer", "minimum": 1, "maximum": waits.LIMIT_MAX},
    ),
    query_parameter(
        "cursor",
        "The `next_cursor` of the page before, with the same filters.",
        {"type": "string", "minLength": 1, "maxLength": 1000},
    ),
]
_BODIES: Final[dict[str, tuple[type, bool]]] = {
    "/waits/{wait_id}/respond": (wait_answers.RespondRequest, True),
    "/resume": (wait_answers.ResumeRequest, True),
    "/runs/{run_id}/retry": (wait_answers.RetryRequest, False),
}


def add(paths: Paths) -> None:
    for path, (record, required) in _BODIES.items():
        paths[path]["post"]["requestBody"] = json_body(record, required=required)
    paths["/waits"]["get"]["parameters"] = _LIST_PARAMETERS
    watch = paths["/waits/watch"]["get"]
    watch["responses"]["200"]["content"] = events(_EVENTS)
    watch["parameters"] += [
        query_parameter(
            "timeout_sec", "End after so many seconds.", {"type": "integer", "minimum": 1, "maximum": 600}
        )
    ]
