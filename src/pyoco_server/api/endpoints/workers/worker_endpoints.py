"""Endpoints of workers."""

from pyoco_server.api import worker_types
from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.api.endpoints.endpoint import Body, Endpoint
from pyoco_server.api.endpoints.endpoint_errors import NATS, UNREADABLE
from pyoco_server.api.endpoints.endpoint_scopes import READ_WORKERS, WORKERS
from pyoco_server.errors.error_table import Err

LIST_WORKERS = Endpoint(
    "GET /workers",
    READ_WORKERS,
    "The active workers, or all known ones.",
    list[worker_types.WorkerView],
    (Err.INVALID_WORKERS_REQUEST, NATS),
    query=worker_types.WorkersQuery,
)
GET_WORKER = Endpoint(
    "GET /workers/{worker_id}",
    READ_WORKERS,
    "One worker, hidden or not.",
    worker_types.WorkerView,
    (Err.WORKER_NOT_FOUND, UNREADABLE, Err.INVALID_REQUEST, NATS),
)
GET_WORKER_SETUP = Endpoint(
    "GET /worker-setup",
    WORKERS,
    "The command that adds a worker to this installation, without any secret. "
    "With an operator tenant, only for its keys.",
    worker_types.WorkerSetup,
    (Err.INVALID_REQUEST,),
    operators_only=True,
)
PATCH_WORKER = Endpoint(
    "PATCH /workers/{worker_id}",
    WORKERS,
    "Hide or show a worker, pause or resume it, or drain it: it finishes its runs and exits. "
    "With an operator tenant, only for its keys.",
    worker_types.WorkerChanged,
    (Err.WORKER_NOT_FOUND, UNREADABLE, Err.INVALID_WORKERS_REQUEST, NATS),
    Body(worker_types.WorkerPatch, min_fields=1),
    repeatable=True,
    operators_only=True,
    audit=AuditRule("worker.update", ("worker_id",), request=("hidden", "paused", "drain")),
)
