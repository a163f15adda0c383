"""What the endpoints of workflow templates, actions and events take and return.

The names of the fields are those of the contract for workflow events. Times are ISO 8601 in UTC.
"""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.api.run_types import Text
from pyoco_server.records.triggers.trigger_models import (
    ActionKey,
    ExecutionMode,
    StepAction,
    TemplateId,
    TemplateName,
    TemplateOverlap,
    TriggerKind,
)
from pyoco_server.records.triggers.workflow_event_models import (
    EventReason,
    EventStatus,
    RetryAdvice,
    RetryStatus,
)
from pyoco_server.records.value_types import Labels, NewFlowName, RunId, RunTimeout, Tag

TEMPLATE_LIMIT_DEFAULT: Final = 50
TEMPLATE_LIMIT_MAX: Final = 200
RECENT_DEFAULT: Final = 20
RECENT_MAX: Final = 200
RETRY_JOBS_DEFAULT: Final = 20
RETRY_JOBS_MAX: Final = 200
DRAIN_DEFAULT: Final = 10
DRAIN_MAX: Final = 50

IsoTime = Annotated[str, Meta(description="ISO 8601, in UTC.", examples=["2026-11-17T06:00:00.000000Z"])]
TemplateSort = Literal["name", "-name", "updated_at", "-updated_at", "created_at", "-created_at"]

_Year = Annotated[int, Meta(description="0, or from 2000 to 3000.")]
_Month = Annotated[int, Meta(description="0, or from 1 to 12.")]
_Url = Annotated[str, Meta(max_length=2048, description="http or https.")]
_Notes = Annotated[str, Meta(max_length=4000)]


# Templates


class StepInput(Struct, kw_only=True, forbid_unknown_fields=True):
    """One step of a template. The first one says what starts it, and its action is what an event executes.

    Further steps, `execution_mode` and `timer_minutes` are kept with the template and not executed.
    """

    id: Annotated[str, Meta(max_length=64)] = ""
    title: Annotated[str, Meta(max_length=80)] = ""
    action: StepAction
    trigger_kind: Annotated[
        str,
        Meta(
            description="`manual_start`, `scheduled` or `external_event` of the first step, `after_previous` "
            "of the others; the earlier names `manual`, `schedule`, `webhook` and `after_step` as well."
        ),
    ] = ""
    execution_mode: ExecutionMode = ExecutionMode.MANUAL_CONFIRM
    timer_minutes: Annotated[int, Meta(ge=0, le=525_600)] = 0


class TemplateRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A template to create or to replace."""

    id: Annotated[TemplateId | None, Meta(description="Null: the server makes one.")] = None
    name: TemplateName
    year: _Year = 0
    month: _Month = 0
    mfcloud_url: _Url = ""
    notes: _Notes = ""
    steps: list[StepInput]
    overlap: TemplateOverlap = TemplateOverlap.ALLOW
    base_updated_at: Annotated[
        IsoTime | None,
        Meta(
            description="The `updated_at` that you have read: 409 if it was changed since. Null: a new "
            "template; 409 if there is one with this id."
        ),
    ] = None


class StepView(Struct, kw_only=True):
    id: str
    title: str
    action: str
    trigger_kind: TriggerKind
    execution_mode: ExecutionMode
    timer_minutes: int


class TemplateView(Struct, kw_only=True):
    """A template."""

    id: str
    name: str
    year: int
    month: int
    mfcloud_url: str
    notes: str
    steps: list[StepView]
    overlap: TemplateOverlap
    created_at: IsoTime
    updated_at: IsoTime
    tenant_id: str | None


class TemplateListQuery(Struct, kw_only=True):
    """Which templates are listed."""

    search: Annotated[
        Text | UnsetType,
        Meta(description="Anywhere in id, name, notes or actions; the case does not matter."),
    ] = UNSET
    sort: Annotated[TemplateSort, Meta(description="With `-`: descending.")] = "-updated_at"
    limit: Annotated[int, Meta(ge=1, le=TEMPLATE_LIMIT_MAX, description="How many at most.")] = (
        TEMPLATE_LIMIT_DEFAULT
    )
    offset: Annotated[int, Meta(ge=0, le=1_000_000, description="How many are left out before.")] = 0


class TemplateList(Struct, kw_only=True):
    status: Literal["ok"] = "ok"
    items: list[TemplateView]
    # Of all that match.
    total: int


class TemplateSaved(Struct, kw_only=True):
    """The template is stored."""

    status: Literal["ok"] = "ok"
    template: TemplateView
    created: bool


class TemplateDeleted(Struct, kw_only=True):
    """The template is deleted; its runs and receipts stay."""

    status: Literal["ok"] = "ok"
    id: str
    deleted: bool = True


class TemplateTested(Struct, kw_only=True):
    """What an event with this body would start; nothing is started, stored or audited."""

    template_id: str
    template_name: str
    action_key: str
    # Null where the action is not executable.
    flow_name: str | None
    tag: str | None
    params: dict[str, Any]
    idempotency_key: str | None
    # The text that the event would be refused with, and its status; null: it would be accepted.
    problem: str | None
    problem_status: int | None


# Actions


class WorkflowActionRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The flow that an action starts."""

    flow_name: NewFlowName
    workflow_yaml: Annotated[
        str | None, Meta(description="A flow.yaml to run; null: the workers' flow of this name.")
    ] = None
    tag: Tag | None = None
    tags: Labels | None = None
    params: Annotated[
        dict[str, Any], Meta(description="In place of the params of these names that come from events.")
    ] = {}
    timeout_sec: RunTimeout | None = None


class WorkflowActionView(Struct, kw_only=True):
    """An action, and the flow that it starts."""

    key: str
    flow_name: str
    has_workflow_yaml: bool
    workflow_yaml: str | None
    tag: str
    tags: list[str]
    params: dict[str, Any]
    timeout_sec: float | None
    # Not stored: some live worker has a flow of this name.
    implied: bool
    created_at: IsoTime | None
    updated_at: IsoTime | None
    tenant_id: str | None


class WorkflowActionList(Struct, kw_only=True):
    """The actions, by key; the implied ones last."""

    status: Literal["ok"] = "ok"
    items: list[WorkflowActionView]
    total: int


class WorkflowActionSaved(Struct, kw_only=True):
    status: Literal["ok"] = "ok"
    action: WorkflowActionView
    created: bool


class WorkflowActionDeleted(Struct, kw_only=True):
    """The action is deleted; templates with it are not executable any more."""

    status: Literal["ok"] = "ok"
    key: ActionKey
    deleted: bool = True


# Events


class WorkflowEventRequest(Struct, kw_only=True):
    """An external event. Other fields are allowed, and ignored.

    Senders are read leniently: a value of another type counts as left out, or as an invalid month.
    """

    template_id: Annotated[Any, Meta(description="The template; or `templateId`.")] = UNSET
    event_name: Annotated[
        Any,
        Meta(description="The action of a template's first step, at most 80 characters; or `eventName`."),
    ] = UNSET
    idempotency_key: Annotated[
        Any,
        Meta(
            description="At most 128 of `A-Za-z0-9._:@-`; or `idempotencyKey`, `event_id`, `eventId`, or the "
            "header `x-idempotency-key`: the first valid one."
        ),
    ] = UNSET
    source: Annotated[
        Any, Meta(description="Where it comes from, at most 80 characters; or `event_source`.")
    ] = UNSET
    year: Annotated[
        Any, Meta(description="From 2000 on, together with `month`; otherwise those of the template.")
    ] = UNSET
    month: Annotated[Any, Meta(description="1 to 12.")] = UNSET
    mfcloud_url: Annotated[Any, Meta(description="A text.")] = UNSET
    notes: Annotated[Any, Meta(description="A text.")] = UNSET
    payload: Annotated[Any, Meta(description="Any JSON: the param `payload` of the run.")] = None


class WorkflowEventAccepted(Struct, kw_only=True):
    """A run was started; or `duplicate`: the run that the first event with this key has started."""

    status: Literal["ok"] = "ok"
    duplicate: bool
    triggered: bool
    template_id: str
    template_name: str
    action_key: str
    idempotency_key: str | None
    run_id: RunId


class SummaryQuery(Struct, kw_only=True):
    """Which month."""

    ym: Annotated[str, Meta(description="The month of the events, `YYYY-MM`.", examples=["2026-11"])]
    recent_limit: Annotated[int, Meta(ge=1, le=RECENT_MAX, description="How many recent ones.")] = (
        RECENT_DEFAULT
    )
    token: Annotated[str | UnsetType, Meta(description="The token of workflow events.")] = UNSET


class ReasonClassCount(Struct, kw_only=True):
    reason_class: str
    count: int


class ReasonCodeCount(Struct, kw_only=True):
    reason_code: str
    count: int


class RetryAdviceCount(Struct, kw_only=True):
    retry_advice: str
    count: int


class StatusCounts(Struct, kw_only=True):
    success: int = 0
    skipped: int = 0
    rejected: int = 0
    failed: int = 0
    unknown: int = 0


class DuplicateCounts(Struct, kw_only=True, rename={"yes": "true", "no": "false"}):
    yes: int = 0
    no: int = 0
    unknown: int = 0


class RetryPolicy(Struct, kw_only=True):
    max_attempts: int
    base_delay_seconds: int
    terminal_ttl_days: int
    max_jobs: int


class RetryStatusCounts(Struct, kw_only=True):
    pending: int = 0
    retrying: int = 0
    succeeded: int = 0
    discarded: int = 0
    escalated: int = 0


class RetryQueueView(Struct, kw_only=True):
    total: int
    due: int
    by_status: RetryStatusCounts
    policy: RetryPolicy


class RecentEvent(Struct, kw_only=True):
    """One row of the audit."""

    at: IsoTime
    status: EventStatus
    action: str
    run_id: str | None
    template_id: str | None
    template_name: str | None
    event_name: str | None
    source: str | None
    idempotency_key: str | None
    reason: str | None
    reason_class: EventReason | None
    reason_code: str | None
    retry_advice: RetryAdvice | None
    duplicate: bool | None
    # Of refused tokens: how many requests of this sender in this minute.
    count: int
    # Whether a repeated event had another payload than the first one.
    payload_differs: bool


class ReceiptRetention(Struct, kw_only=True):
    ttl_days: int
    max_receipts: int


class NotificationSettings(Struct, kw_only=True):
    """The Google Chat webhook, which is never shown as a whole."""

    configured: bool
    webhook_url_masked: str
    source: Annotated[
        Literal["file", "env", "none"], Meta(description="`file`: it is stored, in NATS and encrypted.")
    ]
    updated_at: IsoTime | None
    inherited: Annotated[
        bool,
        Meta(
            description="Whether it is that of the installation, and the tenant has none of its own: then it "
            "is not shown, and can be neither cleared nor tested."
        ),
    ]
    status: Literal["ok"] = "ok"


class EventSummary(Struct, kw_only=True):
    """The workflow events of a month."""

    status: Literal["ok"] = "ok"
    ym: str
    event_type: Literal["workflow_event"] = "workflow_event"
    total: int
    first_at: IsoTime | None
    last_at: IsoTime | None
    by_status: StatusCounts
    by_reason_class: list[ReasonClassCount]
    by_reason_code: list[ReasonCodeCount]
    by_retry_advice: list[RetryAdviceCount]
    retry_queue: RetryQueueView
    duplicate: DuplicateCounts
    # The newest first.
    recent: list[RecentEvent]
    receipt_retention: ReceiptRetention
    notification: NotificationSettings


class RetryJobsQuery(Struct, kw_only=True):
    """How many jobs."""

    limit: Annotated[int, Meta(ge=1, le=RETRY_JOBS_MAX, description="How many at most.")] = RETRY_JOBS_DEFAULT
    token: Annotated[str | UnsetType, Meta(description="The token of workflow events.")] = UNSET


class TokenQuery(Struct, kw_only=True):
    """The token, for senders that cannot set a header."""

    token: Annotated[str | UnsetType, Meta(description="The token of workflow events.")] = UNSET


class RetryJobView(Struct, kw_only=True):
    """An event that is sent again by the server."""

    job_id: str
    template_id: str
    template_name: str
    action_key: str
    event_name: str | None
    source: str
    idempotency_key: str
    year: int
    month: int
    mfcloud_url: str
    notes: str
    status: RetryStatus
    attempts: int
    max_attempts: int
    next_retry_at: IsoTime | None
    last_error: str | None
    last_reason_class: EventReason | None
    last_reason_code: str | None
    last_retry_advice: RetryAdvice | None
    last_run_id: str | None
    created_at: IsoTime
    updated_at: IsoTime


class RetryJobList(Struct, kw_only=True):
    """The retry jobs, the last changed first."""

    status: Literal["ok"] = "ok"
    total: int
    due: int
    by_status: RetryStatusCounts
    jobs: list[RetryJobView]
    policy: RetryPolicy


class DrainRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which jobs are executed now."""

    limit: Annotated[int, Meta(ge=1, le=DRAIN_MAX)] = DRAIN_DEFAULT
    force: Annotated[bool, Meta(description="Also those whose time has not come.")] = False


class Drained(Struct, kw_only=True):
    """What became of the executed jobs."""

    status: Literal["ok"] = "ok"
    processed: int
    succeeded: int
    retrying: int
    escalated: int
    discarded: int
    remaining_due: int
    # After it.
    queue: RetryQueueView


class NotificationRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    webhook_url: Annotated[
        str,
        Meta(
            max_length=2048,
            description="https://chat.googleapis.com/v1/spaces/.../messages?key=...&token=..., or empty "
            "to clear it.",
        ),
    ]


class NotificationTested(Struct, kw_only=True):
    """Whether the test message was sent, and what Google Chat has answered."""

    status: Literal["ok", "error"]
    sent: bool
    # 502: there was no answer.
    http_status: int
    message: str
