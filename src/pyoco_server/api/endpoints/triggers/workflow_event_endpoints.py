"""Endpoints of workflow events, templates and actions."""

from pyoco_server.api import workflow_event_types as triggers
from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.api.endpoints.endpoint import CHANGES_NOTHING, Body, Endpoint
from pyoco_server.api.endpoints.endpoint_errors import LIST_ERRORS, NATS, UNREADABLE
from pyoco_server.api.endpoints.endpoint_scopes import CHANGE_TRIGGERS, READ_EVENTS, SEND_EVENTS
from pyoco_server.errors.error_table import Err

_TEMPLATE_ERRORS = (Err.TEMPLATE_NOT_FOUND, UNREADABLE, Err.INVALID_REQUEST, NATS)
_ACTION_ERRORS = (Err.ACTION_NOT_FOUND, UNREADABLE, Err.INVALID_REQUEST, NATS)
_EVENT_TOKEN_ERRORS = (Err.EVENT_TOKEN_INVALID, Err.INVALID_REQUEST, NATS)

SEND_WORKFLOW_EVENT = Endpoint(
    "POST /api/workflow-events",
    SEND_EVENTS,
    "Send an event, which starts a run by the `external_event` template that it names. "
    "An event with the same idempotency key starts nothing, and gets the first run.",
    triggers.WorkflowEventAccepted,
    (
        Err.EVENT_INVALID,
        Err.EVENT_TOKEN_INVALID,
        Err.TEMPLATE_NOT_FOUND,
        Err.TEMPLATE_CONFLICT,
        Err.ACTION_NOT_EXECUTABLE,
        Err.TEMPLATE_BUSY,
        Err.WORKFLOW_TOO_LARGE,
        Err.INVALID_REQUEST,
        NATS,
    ),
    Body(triggers.WorkflowEventRequest, required=False),
    triggers.TokenQuery,
    for_senders=True,
    event_token=True,
    not_audited="Each event has a row of its own.",
)
EVENT_SUMMARY = Endpoint(
    "GET /api/workflow-events/summary",
    READ_EVENTS,
    "The workflow events of a month: counts by status and reason, the retry queue, and the recent ones.",
    triggers.EventSummary,
    (Err.EVENT_INVALID, *_EVENT_TOKEN_ERRORS, Err.INDEX_NOT_READY),
    query=triggers.SummaryQuery,
    event_token=True,
)
LIST_RETRY_JOBS = Endpoint(
    "GET /api/workflow-events/retry-jobs",
    READ_EVENTS,
    "The events that the server sends again, the last changed first.",
    triggers.RetryJobList,
    (*_EVENT_TOKEN_ERRORS, Err.INDEX_NOT_READY),
    query=triggers.RetryJobsQuery,
    event_token=True,
)
DRAIN_RETRY_JOBS = Endpoint(
    "POST /api/workflow-events/retry-jobs/drain",
    CHANGE_TRIGGERS,
    "Execute retry jobs now, those that are due first.",
    triggers.Drained,
    (*_EVENT_TOKEN_ERRORS, Err.INDEX_NOT_READY),
    Body(triggers.DrainRequest, required=False),
    triggers.TokenQuery,
    event_token=True,
    audit=AuditRule("retry_queue.drain", request=("limit", "force"), response=("processed",)),
)
GET_NOTIFICATION_SETTINGS = Endpoint(
    "GET /api/workflow-events/notification-settings",
    READ_EVENTS,
    "Where escalations are sent to; the webhook is masked.",
    triggers.NotificationSettings,
    _EVENT_TOKEN_ERRORS,
    query=triggers.TokenQuery,
    event_token=True,
)
SAVE_NOTIFICATION_SETTINGS = Endpoint(
    "POST /api/workflow-events/notification-settings",
    CHANGE_TRIGGERS,
    "Store the Google Chat webhook, encrypted; or clear it with an empty text.",
    triggers.NotificationSettings,
    (Err.CHAT_WEBHOOK_INVALID, *_EVENT_TOKEN_ERRORS),
    Body(triggers.NotificationRequest),
    triggers.TokenQuery,
    repeatable=True,
    event_token=True,
    audit=AuditRule("chat_webhook.change", response=("configured",)),
)
TEST_NOTIFICATION = Endpoint(
    "POST /api/workflow-events/notification-settings/test",
    CHANGE_TRIGGERS,
    "Send a test message to the Google Chat webhook.",
    triggers.NotificationTested,
    (Err.CHAT_WEBHOOK_INVALID, *_EVENT_TOKEN_ERRORS),
    query=triggers.TokenQuery,
    also={
        404: "Google Chat has refused the message, with this or another status from 400 on.",
        502: "Google Chat cannot be reached.",
    },
    event_token=True,
    audit=AuditRule("chat_webhook.test", response=("sent", "http_status")),
)
LIST_TEMPLATES = Endpoint(
    "GET /api/workflow-templates",
    READ_EVENTS,
    "The workflow templates that match.",
    triggers.TemplateList,
    LIST_ERRORS,
    query=triggers.TemplateListQuery,
)
SAVE_TEMPLATE = Endpoint(
    "POST /api/workflow-templates",
    CHANGE_TRIGGERS,
    "Create a workflow template, or replace the one whose `base_updated_at` is given.",
    triggers.TemplateSaved,
    (Err.TEMPLATE_CONFLICT, *_TEMPLATE_ERRORS),
    Body(triggers.TemplateRequest),
    audit=AuditRule("template.save", ("template.id", "id"), ("template.name",), response=("created",)),
)
GET_TEMPLATE = Endpoint(
    "GET /api/workflow-templates/{template_id}",
    READ_EVENTS,
    "One workflow template.",
    triggers.TemplateView,
    _TEMPLATE_ERRORS,
)
# Not repeatable: the 404 of a second request would not say whether the first one has deleted it.
DELETE_TEMPLATE = Endpoint(
    "DELETE /api/workflow-templates/{template_id}",
    CHANGE_TRIGGERS,
    "Delete a workflow template; its runs and its receipts stay.",
    triggers.TemplateDeleted,
    _TEMPLATE_ERRORS,
    audit=AuditRule("template.delete", ("template_id",)),
)
TEST_TEMPLATE = Endpoint(
    "POST /api/workflow-templates/{template_id}/test",
    READ_EVENTS,
    "What an event with this body would start by the template, and with which params; nothing is started.",
    triggers.TemplateTested,
    _TEMPLATE_ERRORS,
    Body(triggers.WorkflowEventRequest, required=False),
    repeatable=True,
    not_audited=CHANGES_NOTHING,
)
LIST_ACTIONS = Endpoint(
    "GET /api/workflow-actions",
    READ_EVENTS,
    "The actions of templates, and the flows that they start.",
    triggers.WorkflowActionList,
    (NATS, Err.INDEX_NOT_READY),
)
GET_ACTION = Endpoint(
    "GET /api/workflow-actions/{key}",
    READ_EVENTS,
    "One action.",
    triggers.WorkflowActionView,
    _ACTION_ERRORS,
)
PUT_ACTION = Endpoint(
    "PUT /api/workflow-actions/{key}",
    CHANGE_TRIGGERS,
    "Create or replace an action: the flow that it starts.",
    triggers.WorkflowActionSaved,
    (*_ACTION_ERRORS, Err.WORKFLOW_TOO_LARGE),
    Body(triggers.WorkflowActionRequest),
    repeatable=True,
    audit=AuditRule("action.save", ("key",), response=("created", "action.flow_name")),
)
# Not repeatable, as above.
DELETE_ACTION = Endpoint(
    "DELETE /api/workflow-actions/{key}",
    CHANGE_TRIGGERS,
    "Delete an action.",
    triggers.WorkflowActionDeleted,
    _ACTION_ERRORS,
    audit=AuditRule("action.delete", ("key",)),
)
