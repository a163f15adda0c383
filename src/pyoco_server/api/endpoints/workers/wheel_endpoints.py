"""Endpoints of wheels."""

from pyoco_server.api import wheel_types
from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.api.endpoints.endpoint import BYTES, Body, Endpoint
from pyoco_server.api.endpoints.endpoint_errors import NATS, RANGE_HEADERS, RANGE_NOT_SATISFIABLE
from pyoco_server.api.endpoints.endpoint_scopes import WHEELS
from pyoco_server.errors import WheelTooLarge
from pyoco_server.errors.error_table import Err
from pyoco_server.records.workers.wheel_models import WheelEvent

LIST_WHEELS = Endpoint(
    "GET /wheels",
    WHEELS,
    "Every wheel, by package and version.",
    list[wheel_types.WheelView],
    (Err.INVALID_REQUEST, NATS),
)
WHEEL_HISTORY = Endpoint(
    "GET /wheels/history",
    WHEELS,
    "The uploads and deletions that match, the newest first.",
    list[WheelEvent],
    (Err.INVALID_REQUEST, NATS),
    query=wheel_types.WheelHistoryQuery,
)
UPLOAD_WHEEL = Endpoint(
    "POST /wheels",
    WHEELS,
    "Upload a wheel; its version must be newer than every other of its package.",
    wheel_types.WheelView,
    (Err.WHEEL_VERSION_REJECTED, WheelTooLarge.error, Err.INVALID_REQUEST, NATS, Err.UPLOADS_BUSY),
    Body(wheel_types.WheelFields, file="wheel", file_text="A wheel, under its own name."),
    audit=AuditRule("wheel.upload", ("name",), response=("size_bytes", "tags")),
)
DOWNLOAD_WHEEL = Endpoint(
    "GET /wheels/{wheel_name}",
    WHEELS,
    "The wheel itself, or the requested range of it.",
    {"type": "string", "format": "binary"},
    (Err.WHEEL_NOT_FOUND, RANGE_NOT_SATISFIABLE, Err.INVALID_REQUEST, NATS),
    media_type=BYTES,
    also={206: "The requested range"},
    request_headers=RANGE_HEADERS,
    head=True,
)
DELETE_WHEEL = Endpoint(
    "DELETE /wheels/{wheel_name}",
    WHEELS,
    "Delete a wheel from the registry; workers uninstall it.",
    wheel_types.WheelDeleted,
    (Err.WHEEL_NOT_FOUND, NATS),
    audit=AuditRule("wheel.delete", ("wheel_name",)),
)
