"""The records of waits (for people, times, signals and events), and of their events.

The id of a wait begins with the id of its run, and is derived from the question: an attempt that asks the
same question again finds the wait of the earlier one.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Final
from unicodedata import normalize

import msgspec
from msgspec import UNSET, Meta, Struct, structs

from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.moments import Seconds, Timestamp
from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.value_types import RUN_ID_PATTERN, Count, RunId

# The stored `deadline_at` of a wait without one: the last second that dates can show. Never shown.
NO_DEADLINE: Final = 253_402_300_799.0

WAIT_ID_PATTERN: Final = RUN_ID_PATTERN.removesuffix("$(?!\\n)") + r"\.[0-9a-f]{16}$(?!\n)"
WaitId = Annotated[
    str, Meta(pattern=WAIT_ID_PATTERN, description="A run id, a dot, and 16 hexadecimal digits.")
]
_WAIT_ID: Final = re.compile(WAIT_ID_PATTERN)


def is_wait_id(text: str) -> bool:
    return _WAIT_ID.fullmatch(text) is not None


# The name of a signal or an event.
TOPIC_PATTERN: Final = r"^(?=.{1,100}$(?!\n))[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$(?!\n)"
TOPIC_EXPECTED: Final = "a name of 1 to 100 letters, digits, '_', '-' and single dots"
_TOPIC: Final = re.compile(TOPIC_PATTERN)


def is_topic(text: str) -> bool:
    return _TOPIC.fullmatch(text) is not None


def wait_id_of(run_id: str, node: str, name: str, arming: int) -> str:
    place = msgspec.json.encode([node, name, arming])
    return f"{run_id}.{sha256(place).hexdigest()[:16]}"


def run_id_of_wait(wait_id: str) -> str:
    return wait_id.partition(".")[0]


class WaitState(StrEnum):
    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    # Closed by a person without an answer; `note` has the reason.
    WITHDRAWN = "withdrawn"


class Decision(StrEnum):
    """What a person can do with a proposal."""

    APPROVED = "approved"
    EDITED = "edited"
    REJECTED = "rejected"


class OnTimeout(StrEnum):
    """What happens at the deadline of a question without a default."""

    # The run fails, and `retry` asks again.
    FAIL = "fail"
    # The task continues with an exception.
    RAISE = "raise"
    # The same, in a task whose failure does not stop the flow (`fail_policy="isolate"`).
    ISOLATE = "isolate"


class Question(Struct, kw_only=True, omit_defaults=True):
    """What a task asks a person, or what else it waits for. Values are JSON; `schema` is a JSON Schema."""

    # The execution of the task: `task|loop path|occurrence`, as in the journal.
    node: str
    task: str
    name: str
    message: str
    kind: WaitKind = WaitKind.HUMAN
    # Of a human question, None: the default of the settings. Of a signal or an event, None: no deadline.
    timeout_sec: Seconds | None = None
    # The deadline itself, of a sleep until a time.
    until: Timestamp | None = None
    # The name of the signal or event.
    topic: str | None = None
    # Of an event: what its data must have, by JSON pointer.
    match: dict[str, Any] = {}
    schema: dict[str, Any] | bool | None = None
    # Something to approve, edit or reject.
    proposal: Any = UNSET
    # Names or ids of API keys; empty: everybody of the tenant.
    assignees: list[str] = []
    # The answer when there is none at the deadline.
    default: Any = UNSET
    on_timeout: OnTimeout = OnTimeout.FAIL
    # How many people have to approve; only of a proposal, or of a yes-or-no question.
    required: Count = 1
    # Whether the key that submitted the run may answer.
    self_approval: bool = True
    # The names of receivers of notifications, as configured in the gateways; never a URL.
    notify: str | None = None
    escalate_to: str | None = None
    # When to remind and to escalate, after it was asked.
    remind_sec: Seconds | None = None
    escalate_sec: Seconds | None = None


class Actor(Struct, kw_only=True, omit_defaults=True):
    """Who did something, as far as the gateway knows."""

    tenant_id: str | None = None
    api_key_id: str | None = None
    name: str | None = None
    ip: str | None = None
    user_agent: str | None = None
    # For whom, as the application that has the key says; it is not verified.
    on_behalf_of: str | None = None

    @property
    def label(self) -> str:
        """Who it was, as far as known."""
        who = self.name or self.api_key_id or self.ip or "somebody"
        return f"{who} on behalf of {self.on_behalf_of}" if self.on_behalf_of else who


class Vote(Struct, kw_only=True, omit_defaults=True):
    """The answer of one person to a wait that several have to approve."""

    at: Timestamp
    by: Actor
    decision: Decision | None = None
    payload: Any = UNSET
    note: str | None = None
    decision_id: str | None = None


class WaitRecord(Struct, kw_only=True, omit_defaults=True):
    """One wait: bucket `pyoco_waits`, key `<wait_id>`. Once it is not open, it does not change."""

    wait_id: WaitId
    run_id: RunId
    flow_name: str
    tag: str
    node: str
    task: str
    name: str
    message: str
    created_at: Timestamp
    # Moved only by `extend`, not by an attempt that asks the same question again. NO_DEADLINE: none.
    deadline_at: Timestamp
    kind: WaitKind = WaitKind.HUMAN
    # See `Question`.
    topic: str | None = None
    match: dict[str, Any] = {}
    # The number of this asking, from 1: `retry` asks an expired question again.
    arming: Count = 1
    tenant_id: str | None = None
    schema: dict[str, Any] | bool | None = None
    proposal: Any = UNSET
    proposal_digest: str | None = None
    assignees: list[str] = []
    default: Any = UNSET
    on_timeout: OnTimeout = OnTimeout.FAIL
    # What had changed when the task asked again, and None if it did not: `message_changed`, `schema_changed`,
    # `question_changed` for both, or `approval_changed`; for a wait that asks nobody `wait_changed`.
    asked_again: str | None = None
    # How often the question had changed after it was answered.
    changes: Count = 0
    notify: str | None = None
    escalate_to: str | None = None
    # When to send these notifications while it is open, and when they were sent.
    remind_at: Timestamp | None = None
    escalate_at: Timestamp | None = None
    reminded_at: Timestamp | None = None
    escalated_at: Timestamp | None = None
    state: WaitState = WaitState.OPEN
    decided_at: Timestamp | None = None
    decided_by: Actor | None = None
    # Of a wait with a proposal.
    decision: Decision | None = None
    # The answer, or the edited proposal. An approved proposal and a default are not repeated here (`value`):
    # a decision never makes the record much larger.
    payload: Any = UNSET
    note: str | None = None
    # The caller's id of the answer, for idempotency.
    decision_id: str | None = None
    # See `Question`. With more than one required, the last vote is the answer.
    required: Count = 1
    self_approval: bool = True
    # The API key that submitted the run; None without keys.
    submitted_by: str | None = None
    votes: list[Vote] = []
    # The wait of the origin of a rerun whose answer this is.
    taken_from: str | None = None

    @property
    def is_human(self) -> bool:
        """Whether a person is asked. Only such waits have events, notifications and a place in the inbox."""
        return self.kind is WaitKind.HUMAN

    @property
    def shown_deadline(self) -> float | None:
        """None: it has no deadline."""
        return None if self.deadline_at == NO_DEADLINE else self.deadline_at

    @property
    def approvals(self) -> int:
        """How many have approved; of a wait that needs one approval, always 0."""
        return sum(
            vote.decision is not Decision.REJECTED and vote.payload is not False for vote in self.votes
        )

    @property
    def notice_at(self) -> float | None:
        """When the next reminder or escalation of an open wait is due."""
        if self.state is not WaitState.OPEN:
            return None
        due = [self.remind_at if self.reminded_at is None else None]
        due += [self.escalate_at if self.escalated_at is None else None]
        return min((at for at in due if at is not None), default=None)

    @property
    def resolved(self) -> bool:
        """Whether its task can continue: with an answer, with the default, or with an exception."""
        if self.is_expired:
            return self.default is not UNSET or self.on_timeout is not OnTimeout.FAIL
        return self.state is WaitState.ANSWERED

    @property
    def is_expired(self) -> bool:
        return self.state is WaitState.EXPIRED

    @property
    def timed_out(self) -> bool:
        """Whether it expired and has no default."""
        return self.is_expired and self.default is UNSET

    @property
    def value(self) -> Any:
        """The answer, the approved proposal, or the default; UNSET if there is none."""
        if self.payload is not UNSET:
            return self.payload
        if self.decision is Decision.APPROVED:
            return self.proposal
        return self.default if self.state is WaitState.EXPIRED else UNSET

    @property
    def answer(self) -> Any:
        """What `ctx.human` returns for a resolved wait, before the value has the type of the schema."""
        value = None if self.value is UNSET else self.value
        if self.proposal is UNSET:
            return value
        # A plain string: a task's use of it must not need this package.
        decision = None if self.decision is None else self.decision.value
        return {"decision": decision, "value": value, "note": self.note}


class WaitEventKind(StrEnum):
    OPENED = "opened"
    ANSWERED = "answered"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"
    # Changes of an open wait.
    EXTENDED = "extended"
    REASSIGNED = "reassigned"
    # An approval, where more are required.
    VOTED = "voted"
    # It is still open at the times that its task has set.
    REMINDED = "reminded"
    ESCALATED = "escalated"
    # A rerun that keeps answers: opened with the answer of its origin.
    REUSED = "reused"
    # An attempt to answer was refused.
    REFUSED = "refused"


class WaitEvent(Struct, kw_only=True, omit_defaults=True):
    """One message of `<wait events prefix>.<wait_id>.<kind>`; it may be stored twice under the same id."""

    event_id: str
    kind: WaitEventKind
    wait_id: WaitId
    run_id: RunId
    at: Timestamp
    tenant_id: str | None = None
    actor: Actor | None = None
    decision: Decision | None = None
    decision_id: str | None = None
    # Why an attempt was refused: the id of its error; of any other event, the reason that was given.
    why: str | None = None
    # What an `extended` or `reassigned` wait has from then on.
    deadline_at: Timestamp | None = None
    assignees: list[str] | None = None


class _RecordWithOutbox(WaitRecord, kw_only=True, omit_defaults=True):
    outbox: list[WaitEvent] = []


class _Outbox(Struct):
    outbox: list[WaitEvent] = []


def encode_wait(record: WaitRecord, outbox: Sequence[WaitEvent] = ()) -> bytes:
    """The value in the bucket: the record, and its events that are perhaps unpublished."""
    if not outbox:
        return encode(record)
    return encode(_RecordWithOutbox(**structs.asdict(record), outbox=list(outbox)))


def decode_outbox(data: bytes) -> list[WaitEvent]:
    return _decode_outbox(data).outbox


def digest_of(value: Any) -> str:
    """Of a JSON value, independent of the order of keys."""
    return sha256(canonical(value)).hexdigest()


def canonical(value: Any) -> bytes:
    """The canonical JSON of a value: sorted keys, NFC characters."""
    return msgspec.json.encode(_normalized(value), order="sorted")


def _normalized(value: Any) -> Any:
    # Before the keys are sorted, which depends on their characters.
    match value:
        case str():
            return normalize("NFC", value)
        case list():
            return [_normalized(each) for each in value]
        case dict():
            return {normalize("NFC", name): _normalized(each) for name, each in value.items()}
    return value


encode = msgspec.json.Encoder().encode
decode_wait = record_decoder(WaitRecord)
_decode_outbox = record_decoder(_Outbox, whole=False)
decode_wait_event = record_decoder(WaitEvent)
decode_question = record_decoder(Question)
decode_questions = record_decoder(list[Question])
decode_waits = record_decoder(list[WaitRecord])
