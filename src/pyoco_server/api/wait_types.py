"""What the endpoints of waits for people take and return."""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from pyoco_server.api.query_params import NextCursor
from pyoco_server.api.run_types import Text, WatchTimeout
from pyoco_server.records.moments import LAST_TIME, Timestamp
from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.value_types import RunId
from pyoco_server.records.waits.wait_models import Decision, WaitEvent, WaitId, WaitRecord, WaitState
from pyoco_server.waits.human.asking import MAX_ASSIGNEES
from pyoco_server.waits.index.wait_items import WaitItem

WAIT_LIMIT_DEFAULT: Final = 50
WAIT_LIMIT_MAX: Final = 200

DecisionId = Annotated[
    str, Meta(min_length=1, max_length=200, description="The same answer under the same id is one answer.")
]


class WaitListQuery(Struct, kw_only=True):
    """Which waits are listed."""

    state: Annotated[
        list[WaitState] | UnsetType,
        Meta(description="Any of these; repeated or separated by commas. Default `open`."),
    ] = UNSET
    run_id: Annotated[
        str | UnsetType, Meta(description="Of this run.", extra_json_schema={"format": "uuid"})
    ] = UNSET
    flow: Annotated[Text | UnsetType, Meta(description="Of this flow.")] = UNSET
    tag: Annotated[Text | UnsetType, Meta(description="Of runs with this tag.")] = UNSET
    task: Annotated[Text | UnsetType, Meta(description="Asked by this task.")] = UNSET
    kind: Annotated[
        list[WaitKind] | UnsetType,
        Meta(description="Any of these; repeated or separated by commas. Default `human`."),
    ] = UNSET
    assignee: Annotated[
        Text | UnsetType,
        Meta(description="For this assignee: the id or the name of an API key, or `group:<name>`."),
    ] = UNSET
    limit: Annotated[int, Meta(ge=1, le=WAIT_LIMIT_MAX, description="How many at most.")] = WAIT_LIMIT_DEFAULT
    cursor: NextCursor = UNSET


class WaitWatchQuery(Struct, kw_only=True):
    """How long the waits are watched."""

    timeout_sec: WatchTimeout | UnsetType = UNSET


class WaitPage(Struct, kw_only=True):
    """One page of a list of waits."""

    items: list[WaitItem]
    # None on the last page.
    next_cursor: str | None
    # Of all pages.
    total: int


class WaitView(WaitRecord, kw_only=True, omit_defaults=False):
    """A wait, and the events of its history."""

    # None: it has no deadline.
    deadline_at: Timestamp | None  # type: ignore[assignment]
    # How many have approved, where several are required.
    approvals: int
    events: list[WaitEvent]


class OpenWaitsEvent(Struct, kw_only=True):
    """The data of an event `open`: all open waits; it replaces all that was sent before."""

    waits: list[WaitItem]
    # When it was sent, unix seconds.
    ts: float


class WaitChanged(Struct, kw_only=True):
    """The data of an event `opened` or `closed`: the wait as it is now."""

    wait: WaitItem
    ts: float


class InboxNote(Struct, kw_only=True):
    """The data of an event `heartbeat`."""

    ts: float


OnBehalfOf = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="For whom an application answers; recorded beside its API key, and not verified.",
    ),
]


class RespondRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """An answer. To a proposal it is a `decision`; to anything else a `payload`."""

    payload: Any = UNSET
    decision: Decision | None = None
    digest: Annotated[str, Meta(max_length=200)] | None = None
    note: Annotated[str, Meta(max_length=10_000)] | None = None
    decision_id: DecisionId | None = None
    on_behalf_of: OnBehalfOf | None = None


class Responded(Struct, kw_only=True):
    """The answer counts."""

    wait_id: WaitId
    run_id: RunId
    decided_at: float
    decision: Decision | None
    decision_id: str | None
    # `open` while more approvals are required.
    state: WaitState
    # How many approvals it needs, and has; 1 and 0 where one answer decides.
    required: int
    approvals: int
    # Whether it had been given before, under the same `decision_id`.
    repeated: bool
    success: Literal[True] = True


class ResumeRequest(Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """An answer to the only open wait of a run. One of `runId` and `run_id` is required."""

    payload: Any
    run_id: str | None = None
    decision_id: DecisionId | None = None
    on_behalf_of: OnBehalfOf | None = None
    snake_run_id: Annotated[str | None, Meta(description="The same as `runId`.")] = field(
        default=None, name="run_id"
    )
    snake_decision_id: Annotated[DecisionId | None, Meta(description="The same as `decisionId`.")] = field(
        default=None, name="decision_id"
    )
    snake_on_behalf_of: Annotated[OnBehalfOf | None, Meta(description="The same as `onBehalfOf`.")] = field(
        default=None, name="on_behalf_of"
    )


class Resumed(Struct, kw_only=True, rename="camel"):
    """The answer counts, and the run continues."""

    run_id: RunId
    success: Literal[True] = True


WaitReason = Annotated[
    str, Meta(min_length=1, max_length=1000, description="Why, for people; kept in the history.")
]


class WithdrawRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Why the question is closed without an answer."""

    reason: WaitReason


class ExtendRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The new deadline of an open wait."""

    deadline_at: Annotated[
        float, Meta(ge=0, lt=LAST_TIME, description="Unix seconds, not before the current deadline.")
    ]
    reason: WaitReason | None = None


class ReassignRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Who may answer an open wait from now on; nobody named: everybody of the tenant."""

    assignees: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=300)]],
        Meta(max_length=MAX_ASSIGNEES, description="Names or ids of API keys, or `group:<name>`."),
    ]
    reason: WaitReason | None = None


class RetryRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A retry takes no fields."""
