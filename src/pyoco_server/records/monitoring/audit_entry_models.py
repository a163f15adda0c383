"""The records of the audit log: who did what to what, and what became of it."""

from msgspec import Struct

from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.moments import Timestamp
from pyoco_server.records.open_enum import OpenStrEnum
from pyoco_server.records.waits.wait_models import Actor


class AuditOutcome(OpenStrEnum):
    ACCEPTED = "accepted"
    # The request was wrong, or not allowed: a status from 400 on.
    REFUSED = "refused"
    # From 500 on: perhaps the action was done nevertheless.
    FAILED = "failed"


class AuditVia(OpenStrEnum):
    """By which program, as its request says; it is not verified."""

    API = "api"
    CLI = "cli"
    PYTHON = "python"
    DASHBOARD = "dashboard"
    MCP = "mcp"
    # `pyoco-server-admin`, which has no gateway between itself and NATS.
    ADMIN = "admin"


class AuditTarget(Struct, kw_only=True, omit_defaults=True):
    # Such as `run`, `schedule` or `worker`.
    kind: str
    id: str | None = None
    # Of a run or a wait, the name of its flow.
    name: str | None = None


class AuditEntry(Struct, kw_only=True, omit_defaults=True):
    """One action of somebody: a message of `<audit log prefix>.<tenant or =>.<id>`. It is never changed."""

    id: str
    at: Timestamp
    # Of the target, else of the actor; None where no API keys are required.
    tenant_id: str | None = None
    actor: Actor
    via: AuditVia = AuditVia.API
    # Such as `run.cancel`.
    action: str
    target: AuditTarget
    run_id: str | None = None
    outcome: AuditOutcome
    # Of the response; 0 for an action that was no request.
    status: int
    err_id: str | None = None
    # Of the header X-Request-Id, or made by the gateway.
    request_id: str
    details: dict[str, str | int | float | bool | list[str]] = {}


decode_audit_entry = record_decoder(AuditEntry)
