"""What the document says about explanations, dead letters and bulk operations."""

from collections.abc import Mapping
from typing import Final

from pyoco_server.errors.error_table import Err
from pyoco_server.http_api.openapi.list_docs import FILTER_PARAMETERS
from pyoco_server.http_api.openapi.parts import Answers, Paths, add_idempotency, json_body, query_parameters
from pyoco_server.http_api.routes import bulk_routes as bulk
from pyoco_server.http_api.routes import dlq_routes as dlq
from pyoco_server.http_api.routes import explain_routes as explain
from pyoco_server.records.operation_models import BulkRecord

RECORDS: Final[tuple[type, ...]] = (
    explain.Explanation,
    dlq.LetterView,
    dlq.LettersView,
    dlq.LetterDeleted,
    dlq.ReplayRequest,
    dlq.ReplayAccepted,
    bulk.BulkRequest,
    bulk.BulkCancelRequest,
    bulk.BulkRerunRequest,
    bulk.BulkReplayRequest,
    bulk.BulkAnswer,
    bulk.BulkList,
    BulkRecord,
)

# The status 422 is that of the query and of the body.
_BULK_ERRORS = (
    Err.INVALID_REQUEST,
    Err.BULK_REFUSED,
    Err.IDEMPOTENCY_CONFLICT,
    Err.BULK_NOT_FOUND,
    Err.NATS_UNAVAILABLE,
)
ANSWERS: Final[Answers] = {
    ("/runs/{run_id}/explain", "get"): (explain.Explanation, (Err.RUN_NOT_FOUND,)),
    ("/dlq", "get"): (dlq.LettersView, (Err.INVALID_LIST_QUERY, Err.NATS_UNAVAILABLE)),
    ("/dlq/{seq}", "get"): (dlq.LetterView, (Err.DEAD_LETTER_NOT_FOUND, Err.NATS_UNAVAILABLE)),
    ("/dlq/{seq}", "delete"): (dlq.LetterDeleted, (Err.DEAD_LETTER_NOT_FOUND, Err.NATS_UNAVAILABLE)),
    ("/dlq/{seq}/replay", "post"): (
        dlq.ReplayAccepted,
        (
            Err.DEAD_LETTER_NOT_FOUND,
            Err.NOT_REPLAYABLE,
            Err.IDEMPOTENCY_CONFLICT,
            Err.INVALID_REQUEST,
            Err.WORKFLOW_TOO_LARGE,
            Err.NATS_UNAVAILABLE,
        ),
    ),
    ("/dlq/replay", "post"): (bulk.BulkAnswer, _BULK_ERRORS),
    ("/dlq/delete", "post"): (bulk.BulkAnswer, _BULK_ERRORS),
    ("/bulk/cancel", "post"): (bulk.BulkAnswer, _BULK_ERRORS),
    ("/bulk/rerun", "post"): (bulk.BulkAnswer, _BULK_ERRORS),
    ("/bulk", "get"): (bulk.BulkList, (Err.NATS_UNAVAILABLE,)),
    ("/bulk/{bulk_id}", "get"): (BulkRecord, (Err.BULK_NOT_FOUND, Err.NATS_UNAVAILABLE)),
    ("/bulk/{bulk_id}/stop", "post"): (BulkRecord, (Err.BULK_NOT_FOUND, Err.NATS_UNAVAILABLE)),
}
_BODIES: Final[Mapping[str, tuple[type, bool]]] = {
    "/dlq/{seq}/replay": (dlq.ReplayRequest, False),
    "/dlq/replay": (bulk.BulkReplayRequest, True),
    "/dlq/delete": (bulk.BulkRequest, True),
    "/bulk/cancel": (bulk.BulkCancelRequest, True),
    "/bulk/rerun": (bulk.BulkRerunRequest, True),
}


def add(paths: Paths) -> None:
    """The queries and bodies that FastAPI cannot see."""
    for path, (record, required) in _BODIES.items():
        paths[path]["post"]["requestBody"] = json_body(record, required=required)
    paths["/dlq"]["get"]["parameters"] = query_parameters(dlq.LetterPageQuery)
    for path in ("/dlq/replay", "/dlq/delete"):
        paths[path]["post"]["parameters"] = query_parameters(dlq.LetterQuery)
    for path in ("/bulk/cancel", "/bulk/rerun"):
        paths[path]["post"]["parameters"] = [*FILTER_PARAMETERS]
    for path in ("/dlq/replay", "/dlq/delete", "/bulk/cancel", "/bulk/rerun"):
        add_idempotency(paths[path]["post"], "bulk operation")
    add_idempotency(paths["/dlq/{seq}/replay"]["post"], "run")
