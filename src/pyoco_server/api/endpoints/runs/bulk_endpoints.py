"""Endpoints of bulk operations."""

from pyoco_server.api import bulk_types, dlq_types
from pyoco_server.api import run_types as runs
from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.api.endpoints.endpoint import Body, Endpoint
from pyoco_server.api.endpoints.endpoint_errors import NATS, UNREADABLE
from pyoco_server.api.endpoints.endpoint_scopes import OPERATE, READ_OR_OPERATE
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.bulk_models import BulkRecord

_BULK_ERRORS = (
    Err.INVALID_LIST_QUERY,
    Err.INVALID_REQUEST,
    Err.BULK_REFUSED,
    Err.IDEMPOTENCY_CONFLICT,
    Err.BULK_NOT_FOUND,
    UNREADABLE,
    NATS,
    Err.INDEX_NOT_READY,
)

BULK_CANCEL = Endpoint(
    "POST /bulk/cancel",
    OPERATE,
    "Cancel every run that matches the query, with the filters of `GET /runs`.",
    bulk_types.BulkAnswer,
    _BULK_ERRORS,
    Body(bulk_types.BulkCancelRequest),
    runs.RunFilterQuery,
    creates="bulk operation",
    audit=AuditRule("bulk.cancel", ("operation.bulk_id",), request=("reason",), response=("matched",)),
)
BULK_RERUN = Endpoint(
    "POST /bulk/rerun",
    OPERATE,
    "Rerun every run that matches the query, with the filters of `GET /runs`.",
    bulk_types.BulkAnswer,
    _BULK_ERRORS,
    Body(bulk_types.BulkRerunRequest),
    runs.RunFilterQuery,
    creates="bulk operation",
    audit=AuditRule("bulk.rerun", ("operation.bulk_id",), request=("mode",), response=("matched",)),
)
REPLAY_LETTERS = Endpoint(
    "POST /dlq/replay",
    OPERATE,
    "Replay every dead letter that matches the query, with the filters of `GET /dlq`.",
    bulk_types.BulkAnswer,
    _BULK_ERRORS,
    Body(bulk_types.BulkReplayRequest),
    dlq_types.LetterQuery,
    creates="bulk operation",
    audit=AuditRule("bulk.replay", ("operation.bulk_id",), request=("mode", "delete"), response=("matched",)),
)
DELETE_LETTERS = Endpoint(
    "POST /dlq/delete",
    OPERATE,
    "Delete every dead letter that matches the query, with the filters of `GET /dlq`.",
    bulk_types.BulkAnswer,
    _BULK_ERRORS,
    Body(bulk_types.BulkRequest),
    dlq_types.LetterQuery,
    creates="bulk operation",
    audit=AuditRule("bulk.delete_letters", ("operation.bulk_id",), response=("matched",)),
)
LIST_BULK = Endpoint(
    "GET /bulk",
    READ_OR_OPERATE,
    "The newest bulk operations.",
    bulk_types.BulkList,
    (Err.INVALID_REQUEST, NATS),
)
GET_BULK = Endpoint(
    "GET /bulk/{bulk_id}",
    READ_OR_OPERATE,
    "The progress of a bulk operation.",
    BulkRecord,
    (Err.BULK_NOT_FOUND, UNREADABLE, Err.INVALID_REQUEST, NATS),
)
STOP_BULK = Endpoint(
    "POST /bulk/{bulk_id}/stop",
    OPERATE,
    "Stop a bulk operation after the current items; changes already made are kept.",
    BulkRecord,
    (Err.BULK_NOT_FOUND, UNREADABLE, NATS),
    repeatable=True,
    audit=AuditRule("bulk.stop", ("bulk_id",), response=("action", "matched", "done")),
)
