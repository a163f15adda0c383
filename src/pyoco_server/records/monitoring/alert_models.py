"""The records of alerts: a rule, where it reports to, and what became of its occurrences."""

import re
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.moments import Seconds, Timestamp
from pyoco_server.records.open_enum import OpenStrEnum
from pyoco_server.records.value_types import TAG_EXPECTED, TAG_PATTERN, Count, FlowName, Tag

ALERT_ID_EXPECTED: Final = TAG_EXPECTED
AlertId = Annotated[str, Meta(pattern=TAG_PATTERN, description="1 to 64 letters, digits, _ or -.")]
_ALERT_ID: Final = re.compile(TAG_PATTERN)
# The first part of the keys of alerts in the bucket.
ALERT_PREFIX: Final = "alert"
# Of one alert: the newest.
MAX_OCCURRENCES: Final = 50


def is_alert_id(text: str) -> bool:
    return _ALERT_ID.fullmatch(text) is not None


def alert_key(tenant_id: str | None, alert_id: str) -> str:
    """The key of its record in the bucket."""
    return f"{ALERT_PREFIX}.{tenant_id or NO_TENANT}.{alert_id}"


class AlertCondition(StrEnum):
    """What an alert watches for."""

    # Each failure of a flow.
    RUN_FAILED = "run_failed"
    # So many failures of a flow, or such a part of its runs, within a window.
    FAILURES = "failures"
    FAILURE_RATE = "failure_rate"
    # The oldest queued run of a tag has waited for so long.
    QUEUE_AGE = "queue_age"
    # A tag that has queued runs, or had workers, has had no live worker for so long.
    NO_WORKER = "no_worker"

    @property
    def is_event(self) -> bool:
        """Whether it happens and is over, so that it cannot be resolved."""
        return self is AlertCondition.RUN_FAILED


class ChannelKind(StrEnum):
    """Where messages are sent to."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    GOOGLE_CHAT = "google_chat"
    MAIL = "mail"


class AlertLanguage(StrEnum):
    EN = "en"
    JA = "ja"


class VisibleChannel(Struct, kw_only=True, omit_defaults=True):
    """What callers see of a channel."""

    name: str
    kind: ChannelKind
    # Of its URL: the host, and the first characters of the SHA-256.
    host: str = ""
    fingerprint: str = ""
    # Whether messages to it are signed.
    signed: bool = False
    # The mail addresses.
    to: list[str] = []


class AlertChannel(VisibleChannel, kw_only=True, omit_defaults=True):
    # Encrypted (triggers/secrets_at_rest.py): the URL, and the key for signing.
    url: str | None = None
    secret: str | None = None


class MessageState(OpenStrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    # It is not sent any more.
    FAILED = "failed"
    # It was not sent, because the alert was muted.
    MUTED = "muted"


class AlertMessage(Struct, kw_only=True, omit_defaults=True):
    """One message to one channel."""

    channel: str
    state: MessageState
    attempts: Count = 0
    # Of the last attempt.
    at: Timestamp | None = None
    # When a pending one is sent, or sent again.
    next_at: Timestamp | None = None
    # Why the last attempt failed.
    error: str = ""


class AlertFacts(Struct, kw_only=True, omit_defaults=True):
    """What was found when an alert fired."""

    # The number of failures, the percentage, or the seconds.
    value: float = 0.0
    # Of failed runs: whether there were more than are counted.
    or_more: bool = False
    # Of a failure rate: the ended runs.
    runs: Count = 0
    # Queued runs of the tag.
    queued: Count = 0
    # Of no_worker: no worker of the tag was known, only its queued runs.
    only_queued: bool = False
    # Flows and runs that failed, the newest first: at most five of each.
    flows: list[str] = []
    run_ids: list[str] = []


class AlertRule(Struct, kw_only=True, omit_defaults=True):
    """When an alert fires; the fields that its condition does not use are None."""

    condition: AlertCondition
    # `*` stands for any text.
    flow_name: FlowName | None = None
    tag: Tag | None = None
    count: Count | None = None
    percent: float | None = None
    min_runs: Count | None = None
    window_sec: Seconds | None = None
    after_sec: Seconds | None = None


class AlertOccurrence(Struct, kw_only=True, omit_defaults=True):
    """One time that an alert has fired."""

    number: Count
    # As it was then.
    rule: AlertRule
    fired_at: Timestamp
    # None: it fires, or it is an event.
    resolved_at: Timestamp | None = None
    facts: AlertFacts
    fired: list[AlertMessage] = []
    resolved: list[AlertMessage] = []


class AlertMute(Struct, kw_only=True, omit_defaults=True):
    since: Timestamp
    # None: until it is unmuted.
    until: Timestamp | None = None
    note: str = ""
    api_key_id: str | None = None

    def applies(self, now: float) -> bool:
        return self.until is None or now < self.until


class AlertRecord(Struct, kw_only=True, omit_defaults=True):
    """One alert: bucket `pyoco_alerts`, key `alert.<tenant or =>.<alert_id>`."""

    alert_id: AlertId
    # Of this alert and no other, also not of an earlier one with this id: ids of messages follow from it.
    incarnation: str
    tenant_id: str | None = None
    # The key of the last change.
    api_key_id: str | None = None
    created_at: Timestamp
    updated_at: Timestamp
    revision: Count = 1
    rule: AlertRule
    channels: list[AlertChannel]
    cool_down_sec: Seconds = 0.0
    send_resolved: bool = True
    language: AlertLanguage = AlertLanguage.EN
    note: str = ""
    mute: AlertMute | None = None
    # Failed runs up to this revision of the bucket of runs are reported; and when that was decided.
    cursor: Count = 0
    seen_at: Timestamp = 0.0
    # The newest last.
    history: list[AlertOccurrence] = []

    @property
    def key(self) -> str:
        return alert_key(self.tenant_id, self.alert_id)

    @property
    def last(self) -> AlertOccurrence | None:
        return self.history[-1] if self.history else None

    @property
    def current(self) -> AlertOccurrence | None:
        """The occurrence that is not resolved."""
        last = self.last
        is_open = last is not None and last.resolved_at is None and not last.rule.condition.is_event
        return last if is_open else None

    def is_muted(self, now: float) -> bool:
        return self.mute is not None and self.mute.applies(now)

    def channel(self, name: str) -> AlertChannel | None:
        return next((each for each in self.channels if each.name == name), None)


decode_alert = record_decoder(AlertRecord)
