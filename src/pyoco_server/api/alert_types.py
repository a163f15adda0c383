"""What the endpoints of alerts take and return."""

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.api.query_params import KnownRevision, NextCursor
from pyoco_server.api.run_types import Text
from pyoco_server.records.monitoring.alert_models import (
    AlertCondition,
    AlertFacts,
    AlertId,
    AlertLanguage,
    AlertMessage,
    AlertMute,
    AlertRule,
    ChannelKind,
    VisibleChannel,
)
from pyoco_server.records.value_types import TAG_PATTERN, FlowName, Tag

ALERT_LIMIT_DEFAULT: Final = 50
ALERT_LIMIT_MAX: Final = 200
MOST_CHANNELS: Final = 5
COOL_DOWN_DEFAULT_SEC: Final = 300.0
_DAY_SEC: Final = 86_400
_MONTH_SEC: Final = 30 * _DAY_SEC

_Name = Annotated[str, Meta(pattern=TAG_PATTERN, description="1 to 64 letters, digits, _ or -.")]
_Url = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2048,
        description="Where to POST to. It is stored encrypted, and never shown again. Null: a stored channel "
        "of this name and kind keeps its own.",
    ),
]
_Secret = Annotated[
    str,
    Meta(
        max_length=1024,
        description="The key for signing messages to a webhook (Standard Webhooks). Null: that of a stored "
        "channel stays; empty: they are not signed.",
    ),
]
_Flow = Annotated[
    FlowName,
    Meta(description="The flow, in which `*` stands for any text. Of run_failed, failures and failure_rate."),
]
_Tag = Annotated[Tag, Meta(description="The tag of the queue. Of queue_age and no_worker.")]
_Note = Annotated[str, Meta(max_length=1000, description="For people; it is part of each message.")]


class ChannelRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Where an alert reports to."""

    name: _Name
    kind: ChannelKind
    url: _Url | None = None
    secret: _Secret | None = None
    to: Annotated[
        list[Annotated[str, Meta(max_length=320)]],
        Meta(max_length=20, description="The mail addresses, of the kind mail."),
    ] = []


class AlertRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """An alert: what it watches for, and where it reports to."""

    revision: Annotated[
        int | None,
        Meta(description="The revision that you have read: 409 if it was changed since. Null: any, or none."),
    ] = None
    condition: AlertCondition
    flow_name: _Flow | None = None
    tag: _Tag | None = None
    count: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="How many failures within the window. Of failures."),
    ] = None
    percent: Annotated[
        Annotated[float, Meta(gt=0, le=100)] | None,
        Meta(description="The percentage of failed runs within the window. Of failure_rate."),
    ] = None
    min_runs: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        Meta(description="How many runs must have ended in the window. Of failure_rate; default: 10."),
    ] = None
    window_sec: Annotated[
        Annotated[float, Meta(ge=60, le=_DAY_SEC)] | None,
        Meta(description="The window, in seconds. Of failures and failure_rate; default: 3600."),
    ] = None
    after_sec: Annotated[
        Annotated[float, Meta(ge=1, le=_MONTH_SEC)] | None,
        Meta(description="For how long, in seconds. Of queue_age and no_worker."),
    ] = None
    channels: Annotated[list[ChannelRequest], Meta(min_length=1, max_length=MOST_CHANNELS)]
    cool_down_sec: Annotated[
        float,
        Meta(ge=0, le=_MONTH_SEC, description="The shortest time between two occurrences, in seconds."),
    ] = COOL_DOWN_DEFAULT_SEC
    send_resolved: Annotated[bool, Meta(description="Whether its end is reported, too.")] = True
    language: Annotated[AlertLanguage, Meta(description="Of its messages.")] = AlertLanguage.EN
    note: _Note = ""


class AlertCheckRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A condition, as of an alert."""

    condition: AlertCondition
    flow_name: _Flow | None = None
    tag: _Tag | None = None
    count: Annotated[int, Meta(ge=1, le=1000)] | None = None
    percent: Annotated[float, Meta(gt=0, le=100)] | None = None
    min_runs: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    window_sec: Annotated[float, Meta(ge=60, le=_DAY_SEC)] | None = None
    after_sec: Annotated[float, Meta(ge=1, le=_MONTH_SEC)] | None = None


class AlertChecked(Struct, kw_only=True):
    """Whether the condition is met now; of run_failed, whether a run failed within the last 24 hours."""

    met: bool
    # The number of failures, the percentage, or the seconds.
    value: float
    # The same as a sentence, in the language of the request (`Accept-Language`).
    text: str


class ChannelView(VisibleChannel, kw_only=True, omit_defaults=False):
    """A channel, without its URL and secret."""


class RuleView(AlertRule, kw_only=True, omit_defaults=False):
    """When an alert fires."""


class MuteView(AlertMute, kw_only=True, omit_defaults=False):
    """Since when, until when and why nothing is sent."""


class MessageView(AlertMessage, kw_only=True, omit_defaults=False):
    """One message to one channel."""


class FactsView(AlertFacts, kw_only=True, omit_defaults=False):
    """What was found when it fired."""


class OccurrenceView(Struct, kw_only=True):
    """One time that an alert has fired."""

    number: int
    fired_at: float
    # Null: it still fires; of run_failed always.
    resolved_at: float | None
    # What was found, as a sentence in the language of the request (`Accept-Language`).
    text: str
    facts: FactsView
    fired: list[MessageView]
    resolved: list[MessageView]


class AlertView(Struct, kw_only=True):
    """An alert, without its secrets."""

    alert_id: AlertId
    tenant_id: str | None
    # The key of the last change.
    api_key_id: str | None
    created_at: float
    updated_at: float
    revision: int
    rule: RuleView
    channels: list[ChannelView]
    cool_down_sec: float
    send_resolved: bool
    language: AlertLanguage
    note: str
    # Null: it is not muted.
    mute: MuteView | None
    # Whether its condition was met when it was evaluated last.
    firing: bool
    # Null: it has not fired yet.
    last: OccurrenceView | None


class AlertTenantQuery(Struct, kw_only=True):
    """Whose alert it is."""

    tenant: Annotated[
        Text | UnsetType,
        Meta(description="For operators: the tenant of the alert, `=` for none. Default: the key's own."),
    ] = UNSET


class DeleteAlertQuery(AlertTenantQuery, kw_only=True):
    """Which revision is deleted."""

    revision: KnownRevision = UNSET


class AlertListQuery(Struct, kw_only=True):
    """Which alerts are listed."""

    q: Annotated[
        Text | UnsetType,
        Meta(description="Anywhere in id, flow name, tag or note; the case does not matter."),
    ] = UNSET
    limit: Annotated[int, Meta(ge=1, le=ALERT_LIMIT_MAX, description="How many at most.")] = (
        ALERT_LIMIT_DEFAULT
    )
    cursor: NextCursor = UNSET


class AlertPage(Struct, kw_only=True):
    """One page of a list of alerts, in the order of their ids."""

    items: list[AlertView]
    # None on the last page.
    next_cursor: str | None
    # Of all pages.
    total: int
    # Of all pages, those that fire.
    firing: int


class AlertDeleted(Struct, kw_only=True):
    """The alert is deleted, with its history."""

    alert_id: str
    deleted: bool = True


class AlertHistory(Struct, kw_only=True):
    """The kept occurrences of an alert, the newest first: at most 50."""

    items: list[OccurrenceView]


class MuteRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Send nothing for a while."""

    for_sec: Annotated[
        Annotated[float, Meta(gt=0, le=365 * _DAY_SEC)] | None,
        Meta(description="For how long, in seconds. Null: until it is unmuted."),
    ] = None
    note: Annotated[str, Meta(max_length=1000, description="Why, for people.")] = ""


class AlertTestRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Send a test message."""

    channel: Annotated[str | None, Meta(description="To this channel. Null: to all.")] = None


class TestedChannel(Struct, kw_only=True):
    """What became of a test message."""

    channel: str
    ok: bool
    # Why it was not delivered; empty: it was.
    error: str


class AlertTested(Struct, kw_only=True):
    channels: list[TestedChannel]
