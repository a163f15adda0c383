"""The records of bulk operations, of the wheel history and of the audit log."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from pyoco_server.records.decoding import json_record
from pyoco_server.records.models import Count, RerunMode
from pyoco_server.records.moments import Timestamp
from pyoco_server.records.open_enum import OpenStrEnum
from pyoco_server.records.wait_models import Actor

# How many items one bulk operation may have.
MAX_BULK_ITEMS: Final = 100_000
# The highest sequence number of a JetStream stream.
LAST_SEQUENCE: Final = 2**63 - 1


class BulkAction(StrEnum):
    CANCEL = "cancel"
    RERUN = "rerun"
    REPLAY_LETTERS = "dlq-replay"
    DELETE_LETTERS = "dlq-delete"

    @property
    def of_letters(self) -> bool:
        return self in (BulkAction.REPLAY_LETTERS, BulkAction.DELETE_LETTERS)


class BulkState(StrEnum):
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    STOPPED = "STOPPED"


class BulkError(Struct, kw_only=True):
    """Why the operation failed for one item."""

    item: str
    err_id: str | None
    message: str


class BulkRecord(Struct, kw_only=True):
    """One bulk operation: bucket `pyoco_bulk`, key `<bulk_id>`; its items are in `<bulk_id>.<part>`."""

    bulk_id: str
    action: BulkAction
    state: BulkState
    # The filter of the request, for display.
    query: dict[str, list[str]]
    matched: Count
    # Counted in the order of the items; `skipped`: there was nothing to do.
    done: Count = 0
    skipped: Count = 0
    failed: Count = 0
    # The first ones.
    errors: list[BulkError] = []
    created_at: Timestamp
    updated_at: Timestamp
    # When its first items were processed: until then it can be withdrawn.
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    mode: RerunMode | None = None
    # Of a rerun that keeps the answers of people.
    keep_answers: bool = False
    reason: str | None = None
    delete: bool = False
    # Of the caller; None where no API keys are required.
    tenant_id: str | None = None
    api_key_id: str | None = None

    @property
    def handled(self) -> int:
        return self.done + self.skipped + self.failed

    @property
    def has_started(self) -> bool:
        # A gateway of an earlier version does not write `started_at`.
        return self.started_at is not None or self.handled > 0 or self.state is not BulkState.RUNNING


class BulkItem(Struct, frozen=True):
    """A run id, or the sequence of a dead letter."""

    name: str
    # Of the content of a dead letter: another letter may get its sequence. None in items of earlier versions.
    digest: str | None = None


class WheelAction(StrEnum):
    UPLOAD = "upload"
    DELETE = "delete"


class WheelActor(Struct, kw_only=True):
    """Both null where no API keys are required."""

    tenant_id: str | None = None
    api_key_id: str | None = None


class Source(Struct, kw_only=True):
    """Where a request came from. The headers of a proxy are recorded, not trusted."""

    remote_addr: str | None = None
    x_forwarded_for: str | None = None
    x_real_ip: str | None = None
    user_agent: str | None = None
    host: str | None = None
    scheme: str | None = None


class WheelEvent(Struct, kw_only=True):
    """An upload or a deletion."""

    event_id: str
    occurred_at: Timestamp
    action: WheelAction
    wheel_name: str
    tags: list[str]
    size_bytes: Count | None
    sha256_hex: str | None
    # The parameter of an upload, which has no effect: the version decides.
    replace: bool | None
    actor: WheelActor
    source: Source


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


decode_audit_entry = json_record(AuditEntry)
