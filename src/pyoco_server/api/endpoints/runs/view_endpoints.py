"""Endpoints of saved views."""

from pyoco_server.api import saved_view_types as views
from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.api.endpoints.endpoint import Body, Endpoint
from pyoco_server.api.endpoints.endpoint_errors import NATS, UNREADABLE
from pyoco_server.api.endpoints.endpoint_scopes import READ, SUBMIT_OR_OPERATE
from pyoco_server.errors.error_table import Err

_VIEW_ERRORS = (Err.VIEW_NOT_FOUND, UNREADABLE, Err.INVALID_REQUEST, NATS)

LIST_VIEWS = Endpoint(
    "GET /views",
    READ,
    "The saved views of the list of runs, which all keys of a tenant share.",
    views.ViewList,
    (UNREADABLE, Err.INVALID_REQUEST, NATS),
)
GET_VIEW = Endpoint("GET /views/{view_name}", READ, "One saved view.", views.ViewView, _VIEW_ERRORS)
PUT_VIEW = Endpoint(
    "PUT /views/{view_name}",
    SUBMIT_OR_OPERATE,
    "Create, replace or rename a view: a filter, an order and columns of the list of runs.",
    views.ViewView,
    (*_VIEW_ERRORS, Err.VIEW_CONFLICT),
    Body(views.ViewRequest),
    audit=AuditRule("view.save", ("view_name",)),
)
# Not repeatable: the 404 of a second request would not say whether the first one has deleted it.
DELETE_VIEW = Endpoint(
    "DELETE /views/{view_name}",
    SUBMIT_OR_OPERATE,
    "Delete a view.",
    views.ViewDeleted,
    (*_VIEW_ERRORS, Err.VIEW_CONFLICT),
    query=views.DeleteViewQuery,
    audit=AuditRule("view.delete", ("view_name",)),
)
