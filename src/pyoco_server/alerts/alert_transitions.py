"""What becomes of an alert: it fires, is resolved, and its messages are claimed, sent and sent again.

All of these return the record as it is to be written, without writing it. A gateway that is killed between
the decision and a message leaves the message pending; one that is killed while it sends leaves a claim, which
ends: any gateway sends the message then, with the same id.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from msgspec import structs

from pyoco_server.records.monitoring.alert_models import (
    MAX_OCCURRENCES,
    AlertFacts,
    AlertMessage,
    AlertMute,
    AlertOccurrence,
    AlertRecord,
    MessageState,
)

V = TypeVar("V")

# `test` is of a message that people ask for.
Phase = Literal["fired", "resolved", "test"]
_PHASES: Final[tuple[Literal["fired", "resolved"], ...]] = ("fired", "resolved")


@dataclass(frozen=True, slots=True)
class AlertFinding:
    """What a gateway has found of one alert."""

    # Of the record that it was found for.
    revision: int
    cursor: int
    is_met: bool
    facts: AlertFacts
    # Of run_failed: up to which revision of the bucket of runs.
    upto: int = 0


@dataclass(frozen=True, slots=True)
class MessageId:
    """A message within an alert."""

    number: int
    phase: Phase
    channel: str


@dataclass(frozen=True, slots=True)
class MessageResult:
    """What the record keeps of an attempt."""

    ok: bool
    # Why it failed.
    error: str = ""
    # When it is sent again; None: never.
    next_at: float | None = None


def event_id(record: AlertRecord, number: str, phase: Phase) -> str:
    """The same for each attempt, and for all channels: receivers can drop repetitions by it."""
    return f"{record.incarnation}.{number}.{phase}"


def decided(record: AlertRecord, found: AlertFinding, now: float) -> AlertRecord:
    """With what the finding changes; the record itself if that is nothing.

    A finding for an earlier state of the record is not used: another gateway has decided meanwhile.
    """
    if (record.revision, record.cursor) != (found.revision, found.cursor):
        return record
    record = _after_mute(record, now)
    current = record.current
    if current is not None and not found.is_met:
        return _resolved(record, current, now)
    if current is None and found.is_met and _may_fire(record, now):
        return _fired(record, found, now)
    return record


def closed(record: AlertRecord, now: float) -> AlertRecord:
    """Its occurrence ends without a message: its rule is another one from now on."""
    current = record.current
    return record if current is None else _with_last(record, structs.replace(current, resolved_at=now))


def muted(record: AlertRecord, mute: AlertMute) -> AlertRecord:
    """Nothing is sent while it is muted, nor what would be sent again because it could not be delivered."""
    pending = {message: None for message, _ in _pending(record)}

    def drop(message: AlertMessage, _: None) -> AlertMessage:
        return structs.replace(message, state=MessageState.MUTED, next_at=None)

    return structs.replace(_changed(record, pending, drop), mute=mute)


def _may_fire(record: AlertRecord, now: float) -> bool:
    return record.last is None or now >= record.last.fired_at + record.cool_down_sec


def _fired(record: AlertRecord, found: AlertFinding, now: float) -> AlertRecord:
    state = MessageState.MUTED if record.is_muted(now) else MessageState.PENDING
    occurrence = AlertOccurrence(
        number=1 if record.last is None else record.last.number + 1,
        rule=record.rule,
        fired_at=now,
        facts=found.facts,
        fired=[_new_message(channel.name, state, now) for channel in record.channels],
    )
    history = [*record.history, occurrence][-MAX_OCCURRENCES:]
    cursor = max(record.cursor, found.upto)
    return structs.replace(record, history=history, cursor=cursor, seen_at=now)


def _resolved(record: AlertRecord, current: AlertOccurrence, now: float) -> AlertRecord:
    messages: list[AlertMessage] = []
    if record.send_resolved:
        is_muted = record.is_muted(now)
        # A channel that got no message that it fired gets none that it is over.
        muted = {each.channel for each in current.fired if is_muted or each.state is MessageState.MUTED}
        messages = [
            _new_message(
                each.channel, MessageState.MUTED if each.channel in muted else MessageState.PENDING, now
            )
            for each in current.fired
            if each.state is not MessageState.FAILED
        ]
    return _with_last(record, structs.replace(current, resolved_at=now, resolved=messages))


def _after_mute(record: AlertRecord, now: float) -> AlertRecord:
    """When a mute is over and the alert still fires, its messages are sent."""
    current = record.current
    if current is None or record.is_muted(now):
        return record
    if all(each.state is not MessageState.MUTED for each in current.fired):
        return record
    fired = [
        _new_message(each.channel, MessageState.PENDING, now) if each.state is MessageState.MUTED else each
        for each in current.fired
    ]
    return _with_last(record, structs.replace(current, fired=fired))


def _new_message(channel: str, state: MessageState, now: float) -> AlertMessage:
    return AlertMessage(channel=channel, state=state, next_at=now if state is MessageState.PENDING else None)


def _with_last(record: AlertRecord, occurrence: AlertOccurrence) -> AlertRecord:
    return structs.replace(record, history=[*record.history[:-1], occurrence])


# Messages


def next_message_at(record: AlertRecord) -> float | None:
    """When the next message is due; None: none is pending."""
    return min((at for _, at in _sendable(record)), default=None)


def claimed(record: AlertRecord, now: float, *, until: float) -> tuple[AlertRecord, list[MessageId]]:
    """The messages that are due, for one gateway until that time: they are due again then."""
    due = [message for message, at in _sendable(record) if at <= now]

    def claim(message: AlertMessage, _: None) -> AlertMessage:
        return structs.replace(message, attempts=message.attempts + 1, at=now, next_at=until)

    return _changed(record, dict.fromkeys(due), claim), due


def completed(record: AlertRecord, results: Mapping[MessageId, MessageResult]) -> AlertRecord:
    """With what became of these messages; of those that are not pending any more, only a delivery counts."""

    def complete(message: AlertMessage, result: MessageResult) -> AlertMessage:
        if message.state is not MessageState.PENDING and not result.ok:
            return message
        if result.ok:
            state = MessageState.DELIVERED
        else:
            state = MessageState.FAILED if result.next_at is None else MessageState.PENDING
        return structs.replace(message, state=state, next_at=result.next_at, error=result.error)

    return _changed(record, results, complete)


def _sendable(record: AlertRecord) -> Iterator[tuple[MessageId, float]]:
    """Each pending message that may be sent, with its time."""
    pending = list(_pending(record))
    beginnings = {(id_.number, id_.channel) for id_, _ in pending if id_.phase == "fired"}
    for id_, at in pending:
        # A channel gets the two in their order.
        if id_.phase == "fired" or (id_.number, id_.channel) not in beginnings:
            yield id_, at


def _pending(record: AlertRecord) -> Iterator[tuple[MessageId, float]]:
    """Each pending message, with its time."""
    for occurrence in record.history:
        for phase in _PHASES:
            for message in getattr(occurrence, phase):
                if message.next_at is not None:
                    yield MessageId(occurrence.number, phase, message.channel), message.next_at


def _changed(
    record: AlertRecord, values: Mapping[MessageId, V], change: Callable[[AlertMessage, V], AlertMessage]
) -> AlertRecord:
    """With another message in place of each of these."""

    def changed(occurrence: AlertOccurrence) -> AlertOccurrence:
        phases: dict[str, list[AlertMessage]] = {}
        for phase in _PHASES:
            messages: list[AlertMessage] = getattr(occurrence, phase)
            ids = [MessageId(occurrence.number, phase, each.channel) for each in messages]
            phases[phase] = [
                change(each, values[id_]) if id_ in values else each
                for each, id_ in zip(messages, ids, strict=True)
            ]
        return structs.replace(occurrence, **phases)

    return structs.replace(record, history=[changed(each) for each in record.history])
