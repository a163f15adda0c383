"""Endpoints of signals and events for waiting runs."""

from typing import Any

from pyoco_server.api import signal_types as signals
from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.api.endpoints.endpoint import Body, Endpoint
from pyoco_server.api.endpoints.endpoint_errors import NATS, RUN_ERRORS
from pyoco_server.api.endpoints.endpoint_scopes import READ, SUBMIT_OR_OPERATE
from pyoco_server.errors.error_table import Err

SEND_SIGNAL = Endpoint(
    "POST /runs/{run_id}/signals/{name}",
    SUBMIT_OR_OPERATE,
    "Send a signal to a run, with any JSON as its data. The next wait of the run for a signal of this name "
    "receives it; a signal that comes before its wait is kept.",
    signals.SignalAccepted,
    (*RUN_ERRORS, Err.RUN_CONFLICT, Err.MAILBOX_FULL, Err.IDEMPOTENCY_CONFLICT),
    Body(Any, required=False),
    creates="signal",
    status=202,
    audit=AuditRule("run.signal", ("run_id",), response=("signal_id",)),
)
LIST_SIGNALS = Endpoint(
    "GET /runs/{run_id}/signals",
    READ,
    "The signals that were sent to a run, in their order, and whether each was received.",
    signals.SignalList,
    RUN_ERRORS,
)
SEND_EVENT = Endpoint(
    "POST /events",
    SUBMIT_OR_OPERATE,
    "Send an event to all runs of the tenant that wait for it. The same `id` is one event.",
    signals.EventAccepted,
    (Err.INVALID_REQUEST, NATS),
    Body(signals.EventRequest),
    # The client gives each event an id.
    repeatable=True,
    status=202,
    audit=AuditRule("event.send", ("name",), response=("event_id", "duplicate")),
)
