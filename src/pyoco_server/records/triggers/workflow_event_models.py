"""The records of workflow events: receipts, retry jobs and audit rows."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.moments import Timestamp
from pyoco_server.records.open_enum import OpenStrEnum
from pyoco_server.records.runs.run_models import Job
from pyoco_server.records.value_types import Count, RunId

WORKFLOW_EVENT: Final = "workflow_event"
NOTIFICATION_EVENT: Final = "workflow_event_notification"


class EventStatus(OpenStrEnum):
    """What became of an event, in the audit."""

    SUCCESS = "success"
    # A duplicate.
    SKIPPED = "skipped"
    REJECTED = "rejected"
    FAILED = "failed"


class EventReason(OpenStrEnum):
    """The kind of reason why an event has started nothing."""

    AUTH = "auth"
    VALIDATION = "validation"
    TEMPLATE_NOT_FOUND = "template_not_found"
    TEMPLATE_CONFLICT = "template_conflict"
    RUN_CONFLICT = "run_conflict"
    UNSUPPORTED_ACTION = "unsupported_action"
    INFRA = "infra"
    DUPLICATE = "duplicate"


class RetryAdvice(OpenStrEnum):
    DO_NOT_RETRY = "do_not_retry"
    RETRY_AFTER_FIX = "retry_after_fix"
    RETRY_WITH_BACKOFF = "retry_with_backoff"


class RetryStatus(OpenStrEnum):
    PENDING = "pending"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    DISCARDED = "discarded"
    # All attempts have failed: a person has to look at it.
    ESCALATED = "escalated"

    @property
    def terminal(self) -> bool:
        return self not in (RetryStatus.PENDING, RetryStatus.RETRYING)


class Receipt(Struct, kw_only=True, omit_defaults=True):
    """One accepted idempotency key: bucket `pyoco_receipts`, a key by tenant, owner and idempotency key."""

    run_id: RunId
    # `template:<id>`, or `hook:<id>:<incarnation>`: a hook that is created again does not know earlier keys.
    owner: str
    # Of the payload of the first request.
    fingerprint: str
    reserved_at: Timestamp
    expires_at: Timestamp
    # What is to be started; None once it is stored and audited.
    job: Job | None = None

    @property
    def accepted(self) -> bool:
        return self.job is None


class EventActor(Struct, kw_only=True, omit_defaults=True):
    """Who sent the event, as far as the gateway knows."""

    channel: str = "api"
    # Of the API key.
    id: str | None = None
    ip: str | None = None
    user_agent: str | None = None


class EventDetails(Struct, kw_only=True):
    template_id: str | None = None
    template_name: str | None = None
    event_name: str | None = None
    source: str | None = None
    idempotency_key: str | None = None
    reason: str | None = None
    reason_class: EventReason | None = None
    reason_code: str | None = None
    retry_advice: RetryAdvice | None = None
    duplicate: bool | None = None
    # Of refused tokens: how many there were of this sender in this minute.
    count: Count = 1
    # Whether a repeated event had another payload than the first one.
    payload_differs: bool = False


class AuditRow(Struct, kw_only=True):
    """One message of `<audit prefix>.<event type>.<tenant or =>.<id>`; a later one replaces it."""

    id: str
    at: Timestamp
    # The month that the event is about; of one without a month, that of `at`.
    year: int
    month: int
    event_type: str
    action: str
    status: EventStatus
    actor: EventActor
    source: str | None = None
    run_id: str | None = None
    tenant_id: str | None = None
    details: EventDetails

    @property
    def ym(self) -> str:
        return f"{self.year:04d}-{self.month:02d}"


class EventInput(Struct, kw_only=True, omit_defaults=True):
    """What an event says, after its fields were read."""

    event_name: str | None = None
    source: str = "webhook"
    year: int = 0
    month: int = 0
    mfcloud_url: str = ""
    notes: str = ""
    payload: Any = None


class RetryJob(Struct, kw_only=True, omit_defaults=True):
    """An event to be sent again: bucket `pyoco_event_retries`, key `j.<tenant or =>.<job id>`."""

    # The digest of the template and the idempotency key: one job for all repetitions of an event.
    job_id: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]
    template_id: str
    template_name: str
    action_key: str
    idempotency_key: str
    # Of the payload.
    fingerprint: str
    event: EventInput
    status: RetryStatus = RetryStatus.PENDING
    attempts: Count = 0
    max_attempts: Count
    next_retry_at: Timestamp
    last_error: str | None = None
    last_reason_class: EventReason | None = None
    last_reason_code: str | None = None
    last_retry_advice: RetryAdvice | None = None
    last_run_id: str | None = None
    created_at: Timestamp
    updated_at: Timestamp
    # The gateway that executes it, and when its claim expires.
    claim: str | None = None
    claimed_until: Timestamp = 0.0
    # Of an escalated one: whether its notification was sent, or that was tried.
    notified: bool = False
    tenant_id: str | None = None
    api_key_id: str | None = None
    actor: EventActor

    @property
    def key(self) -> str:
        return f"j.{self.tenant_id or NO_TENANT}.{self.job_id}"


encode_record = msgspec.json.Encoder().encode
decode_receipt = record_decoder(Receipt)
decode_audit_row = record_decoder(AuditRow)
decode_retry_job = record_decoder(RetryJob)
