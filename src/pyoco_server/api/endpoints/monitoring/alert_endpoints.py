"""Endpoints of alerts."""

from pyoco_server.api import alert_types as alerts
from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.api.endpoints.endpoint import CHANGES_NOTHING, Body, Endpoint
from pyoco_server.api.endpoints.endpoint_errors import LIST_ERRORS, NATS, UNREADABLE
from pyoco_server.api.endpoints.endpoint_scopes import OPERATE, READ_OR_OPERATE
from pyoco_server.errors.error_table import Err

_ALERT_ERRORS = (Err.ALERT_NOT_FOUND, UNREADABLE, Err.INVALID_REQUEST, NATS)

LIST_ALERTS = Endpoint(
    "GET /alerts",
    READ_OR_OPERATE,
    "The alerts that match, in the order of their ids.",
    alerts.AlertPage,
    LIST_ERRORS,
    query=alerts.AlertListQuery,
)
CHECK_ALERT = Endpoint(
    "POST /alerts/check",
    READ_OR_OPERATE,
    "Whether a condition is met now; nothing is stored or sent.",
    alerts.AlertChecked,
    (Err.INVALID_REQUEST, NATS, Err.INDEX_NOT_READY),
    Body(alerts.AlertCheckRequest),
    repeatable=True,
    not_audited=CHANGES_NOTHING,
)
GET_ALERT = Endpoint(
    "GET /alerts/{alert_id}",
    READ_OR_OPERATE,
    "One alert with its state, without its secrets.",
    alerts.AlertView,
    _ALERT_ERRORS,
    query=alerts.AlertTenantQuery,
)
PUT_ALERT = Endpoint(
    "PUT /alerts/{alert_id}",
    OPERATE,
    "Create an alert, or replace it. Its history stays; URLs and secrets that are left out stay, too.",
    alerts.AlertView,
    (
        Err.ALERT_NOT_FOUND,
        Err.ALERT_CONFLICT,
        Err.NO_SECRETS_KEY,
        UNREADABLE,
        Err.INVALID_REQUEST,
        NATS,
        Err.INDEX_NOT_READY,
    ),
    Body(alerts.AlertRequest),
    repeatable=True,
    audit=AuditRule("alert.save", ("alert_id",), changes=True),
)
# Not repeatable: the 404 of a second request would not say whether the first one has deleted it.
DELETE_ALERT = Endpoint(
    "DELETE /alerts/{alert_id}",
    OPERATE,
    "Delete an alert and its history. Messages that are not sent yet are dropped.",
    alerts.AlertDeleted,
    (*_ALERT_ERRORS, Err.ALERT_CONFLICT),
    query=alerts.DeleteAlertQuery,
    audit=AuditRule("alert.delete", ("alert_id",)),
)
TEST_ALERT = Endpoint(
    "POST /alerts/{alert_id}/test",
    OPERATE,
    "Send a test message now, and return what became of it.",
    alerts.AlertTested,
    _ALERT_ERRORS,
    Body(alerts.AlertTestRequest, required=False),
    alerts.AlertTenantQuery,
    audit=AuditRule("alert.test", ("alert_id",), request=("channel",)),
)
MUTE_ALERT = Endpoint(
    "POST /alerts/{alert_id}/mute",
    OPERATE,
    "Send no messages for a while. What fires meanwhile is in the history.",
    alerts.AlertView,
    _ALERT_ERRORS,
    Body(alerts.MuteRequest, required=False),
    alerts.AlertTenantQuery,
    repeatable=True,
    audit=AuditRule("alert.mute", ("alert_id",), request=("for_sec", "note")),
)
UNMUTE_ALERT = Endpoint(
    "POST /alerts/{alert_id}/unmute",
    OPERATE,
    "Send messages again; if the alert fires, its message is sent.",
    alerts.AlertView,
    _ALERT_ERRORS,
    query=alerts.AlertTenantQuery,
    repeatable=True,
    audit=AuditRule("alert.unmute", ("alert_id",)),
)
ALERT_HISTORY = Endpoint(
    "GET /alerts/{alert_id}/history",
    READ_OR_OPERATE,
    "When an alert has fired and was resolved, and what became of its messages.",
    alerts.AlertHistory,
    _ALERT_ERRORS,
    query=alerts.AlertTenantQuery,
)
