"""Endpoints of hooks and their deliveries."""

from typing import Any

from pyoco_server.api import hook_types as hooks
from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.api.endpoints.endpoint import CHANGES_NOTHING, Body, Endpoint
from pyoco_server.api.endpoints.endpoint_errors import LIST_ERRORS, NATS, UNREADABLE
from pyoco_server.api.endpoints.endpoint_scopes import CHANGE_TRIGGERS, PUBLIC, READ_EVENTS
from pyoco_server.errors import DeliveryTooLarge
from pyoco_server.errors.error_table import Err

_HOOK_ERRORS = (Err.HOOK_NOT_FOUND, UNREADABLE, Err.INVALID_REQUEST, NATS)
_HOOK_CHANGE_ERRORS = (*_HOOK_ERRORS, Err.HOOK_CONFLICT)

RECEIVE_HOOK = Endpoint(
    "POST /hooks/{hook_id}",
    PUBLIC,
    "Deliver to a hook, which starts a run. The proof is the hook's token or signature, not an API key.",
    hooks.DeliveryAccepted,
    (
        Err.HOOK_REFUSED,
        Err.HOOK_NOT_FOUND,
        Err.HOOK_BUSY,
        DeliveryTooLarge.error,
        Err.UPLOADS_BUSY,
        Err.INVALID_REQUEST,
        Err.SECRET_UNREADABLE,
        NATS,
    ),
    Body(Any, required=False),
    hooks.ReceiveQuery,
    status=202,
    ok_text="The run is stored.",
    also={200: "Nothing was started: `reason` says why."},
    optional_key=True,
    for_senders=True,
    not_audited="The deliveries of a hook are kept with it.",
)
LIST_HOOKS = Endpoint(
    "GET /hooks",
    READ_EVENTS,
    "The hooks that match, in the order of their ids.",
    hooks.HookPage,
    LIST_ERRORS,
    query=hooks.HookListQuery,
)
CREATE_HOOK = Endpoint(
    "POST /hooks",
    CHANGE_TRIGGERS,
    "Create a hook. The response has its secret, this once.",
    hooks.HookWithSecret,
    (Err.HOOK_CONFLICT, Err.NO_SECRETS_KEY, Err.INVALID_REQUEST, Err.WORKFLOW_TOO_LARGE, NATS),
    Body(hooks.HookRequest),
    status=201,
    ok_text="The hook is stored.",
    audit=AuditRule("hook.create", ("hook_id",), response=("kind", "flow_name")),
)
GET_HOOK = Endpoint(
    "GET /hooks/{hook_id}",
    READ_EVENTS,
    "One hook, without its secrets.",
    hooks.HookView,
    _HOOK_ERRORS,
    query=hooks.HookTenantQuery,
)
PATCH_HOOK = Endpoint(
    "PATCH /hooks/{hook_id}",
    CHANGE_TRIGGERS,
    "Change some fields of a hook. They apply to later deliveries.",
    hooks.HookView,
    (*_HOOK_CHANGE_ERRORS, Err.WORKFLOW_TOO_LARGE),
    Body(hooks.HookPatch, min_fields=1),
    hooks.HookTenantQuery,
    audit=AuditRule("hook.update", ("hook_id",), changes=True),
)
# Not repeatable: the 404 of a second request would not say whether the first one has deleted it.
DELETE_HOOK = Endpoint(
    "DELETE /hooks/{hook_id}",
    CHANGE_TRIGGERS,
    "Delete a hook and its kept deliveries; its runs stay.",
    hooks.HookDeleted,
    _HOOK_CHANGE_ERRORS,
    query=hooks.DeleteHookQuery,
    audit=AuditRule("hook.delete", ("hook_id",)),
)
ROTATE_HOOK = Endpoint(
    "POST /hooks/{hook_id}/rotate",
    CHANGE_TRIGGERS,
    "Give a hook a new secret, which the response has this once. The old one stays valid for a while.",
    hooks.HookWithSecret,
    (*_HOOK_CHANGE_ERRORS, Err.NO_SECRETS_KEY),
    Body(hooks.RotateRequest, required=False),
    hooks.HookTenantQuery,
    audit=AuditRule("hook.rotate", ("hook_id",), request=("keep_sec",)),
)
FINISH_ROTATION = Endpoint(
    "POST /hooks/{hook_id}/rotate/finish",
    CHANGE_TRIGGERS,
    "End a rotation: only the newest secret is valid from now on. Repeating the request changes nothing.",
    hooks.HookView,
    _HOOK_CHANGE_ERRORS,
    query=hooks.HookTenantQuery,
    repeatable=True,
    audit=AuditRule("hook.finish_rotation", ("hook_id",)),
)
TEST_HOOK = Endpoint(
    "POST /hooks/{hook_id}/test",
    READ_EVENTS,
    "What a sample delivery would start, and with which parameters; nothing is started or stored.",
    hooks.TestedDelivery,
    _HOOK_ERRORS,
    Body(hooks.SampleDelivery),
    hooks.HookTenantQuery,
    repeatable=True,
    not_audited=CHANGES_NOTHING,
)
LIST_DELIVERIES = Endpoint(
    "GET /hooks/{hook_id}/deliveries",
    READ_EVENTS,
    "The kept deliveries of a hook, the newest first.",
    hooks.DeliveryPage,
    (*_HOOK_ERRORS, Err.INVALID_LIST_QUERY),
    query=hooks.DeliveryListQuery,
)
GET_DELIVERY = Endpoint(
    "GET /hooks/{hook_id}/deliveries/{delivery_id}",
    READ_EVENTS,
    "One delivery: what was sent, without secrets, and what was answered.",
    hooks.DeliveryView,
    (*_HOOK_ERRORS, Err.DELIVERY_NOT_FOUND),
    query=hooks.HookTenantQuery,
)
REDELIVER = Endpoint(
    "POST /hooks/{hook_id}/deliveries/{delivery_id}/redeliver",
    CHANGE_TRIGGERS,
    "Process a kept delivery again, with the hook as it is now.",
    hooks.Redelivered,
    (*_HOOK_ERRORS, Err.DELIVERY_NOT_FOUND, Err.NOT_REDELIVERABLE, Err.HOOK_BUSY),
    Body(hooks.RedeliverRequest, required=False),
    hooks.HookTenantQuery,
    creates="run",
    audit=AuditRule("hook.redeliver", ("hook_id",), request=("new_run",), response=("run_id",)),
)
