"""Endpoints of dead letters."""

from pyoco_server.api import dlq_types
from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.api.endpoints.endpoint import Body, Endpoint
from pyoco_server.api.endpoints.endpoint_errors import LIST_ERRORS, NATS, UNREADABLE
from pyoco_server.api.endpoints.endpoint_scopes import OPERATE, READ_OR_OPERATE
from pyoco_server.errors.error_table import Err

LIST_LETTERS = Endpoint(
    "GET /dlq",
    READ_OR_OPERATE,
    "The dead letters that match, newest first.",
    dlq_types.LettersView,
    LIST_ERRORS,
    query=dlq_types.LetterPageQuery,
)
GET_LETTER = Endpoint(
    "GET /dlq/{seq}",
    READ_OR_OPERATE,
    "One dead letter.",
    dlq_types.LetterView,
    (Err.DEAD_LETTER_NOT_FOUND, Err.INVALID_REQUEST, NATS),
)
# Not repeatable: the 404 of a second request would not say whether the first one has deleted it.
DELETE_LETTER = Endpoint(
    "DELETE /dlq/{seq}",
    OPERATE,
    "Delete one dead letter; its run is kept.",
    dlq_types.LetterDeleted,
    (Err.DEAD_LETTER_NOT_FOUND, NATS),
    audit=AuditRule("dead_letter.delete", ("seq",)),
)
REPLAY_LETTER = Endpoint(
    "POST /dlq/{seq}/replay",
    OPERATE,
    "Replay a dead letter as a new run.",
    dlq_types.ReplayAccepted,
    (
        Err.DEAD_LETTER_NOT_FOUND,
        Err.NOT_REPLAYABLE,
        Err.UNVERIFIED_RUN,
        Err.IDEMPOTENCY_CONFLICT,
        UNREADABLE,
        Err.INVALID_REQUEST,
        Err.WORKFLOW_TOO_LARGE,
        NATS,
    ),
    Body(dlq_types.ReplayRequest, required=False),
    creates="run",
    audit=AuditRule(
        "dead_letter.replay", ("seq",), run="origin_run_id", request=("mode",), response=("run_id", "deleted")
    ),
)
