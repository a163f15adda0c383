"""What the document says about the watches: event streams, which FastAPI cannot describe."""

from typing import Any, Final

from pyoco_server.errors.error_table import Err
from pyoco_server.http_api.openapi.list_docs import FILTER_PARAMETERS
from pyoco_server.http_api.openapi.parts import Answers, Paths, events, query_parameter
from pyoco_server.http_api.streams.list_watch_routes import ListedRun, ListNote, UnlistedRun
from pyoco_server.http_api.streams.run_watch_routes import RunNote, WatchedRun

RECORDS: Final[tuple[type, ...]] = (ListNote, ListedRun, RunNote, UnlistedRun, WatchedRun)
ANSWERS: Final[Answers] = {
    ("/runs/watch", "get"): (
        ListedRun,
        (Err.INVALID_LIST_QUERY, Err.NATS_UNAVAILABLE, Err.INDEX_NOT_READY),
    ),
    ("/runs/{run_id}/watch", "get"): (
        WatchedRun,
        (Err.RUN_NOT_FOUND, Err.INVALID_REQUEST, Err.NATS_UNAVAILABLE),
    ),
}

_RUN_EVENTS = (
    "Events `snapshot`, whose data is a `WatchedRun` and whose id is its revision; the last one has a "
    "terminal status. Events `heartbeat` in between, and `removed` at the end of a run that was "
    "deleted: a `RunNote`."
)
_LIST_EVENTS = (
    "Events `snapshot`, whose data is a `ListedRun`, and `removed`, an `UnlistedRun`; `heartbeat` and, last "
    "of all, `reset`: a `ListNote`. Their ids are positions; `reset` has none."
)


_OWN_PARAMETERS: Final[list[dict[str, Any]]] = [
    query_parameter(
        "after",
        "The `X-Pyoco-Revision` of a list: what changed behind it. Default: from now on.",
        {"type": "string", "pattern": "^[0-9a-f]{8}-[0-9]{1,18}$"},
    ),
    query_parameter(
        "timeout_sec", "End after so many seconds.", {"type": "integer", "minimum": 1, "maximum": 600}
    ),
]


def add(paths: Paths) -> None:
    """The events as what is answered, and the query of the list: its filters, and where to begin."""
    paths["/runs/{run_id}/watch"]["get"]["responses"]["200"]["content"] = events(_RUN_EVENTS)
    watch_list = paths["/runs/watch"]["get"]
    watch_list["responses"]["200"]["content"] = events(_LIST_EVENTS)
    watch_list["parameters"] += [*FILTER_PARAMETERS, *_OWN_PARAMETERS]
