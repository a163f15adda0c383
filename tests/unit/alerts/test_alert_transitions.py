"""When an alert fires, is resolved and repeats itself; which messages are sent, and by whom."""

import pytest
from msgspec import structs

from pyoco_server.alerts.alert_transitions import (
    AlertFinding,
    MessageId,
    MessageResult,
    claimed,
    closed,
    completed,
    decided,
    muted,
    next_message_at,
)
from pyoco_server.records.monitoring.alert_models import (
    MAX_OCCURRENCES,
    AlertChannel,
    AlertCondition,
    AlertFacts,
    AlertMute,
    AlertRecord,
    AlertRule,
    ChannelKind,
)
from tests.support.samples.alerts import NOW, an_alert

EACH_FAILURE = AlertRule(condition=AlertCondition.RUN_FAILED, flow_name="orders")


def found(record: AlertRecord, is_met: bool = True, *, upto: int = 0) -> AlertFinding:
    return AlertFinding(record.revision, record.cursor, is_met, AlertFacts(value=3), upto)


def look(record: AlertRecord, at: float, *, is_met: bool = True, upto: int = 0) -> AlertRecord:
    return decided(record, found(record, is_met, upto=upto), NOW + at)


def states(record: AlertRecord) -> list[tuple[list[str], list[str]]]:
    """Of each occurrence, the states of its messages."""
    return [
        ([str(each.state) for each in one.fired], [str(each.state) for each in one.resolved])
        for one in record.history
    ]


def test_an_alert_fires_once_while_its_condition_is_met() -> None:
    record = look(an_alert(), 1)
    assert record.current is not None
    assert (record.current.number, record.current.fired_at) == (1, NOW + 1)
    assert look(record, 1000) is record


def test_an_alert_whose_condition_is_not_met_stays_as_it_is() -> None:
    record = an_alert()
    assert look(record, 1, is_met=False) is record


def test_an_alert_that_is_over_is_resolved_and_reported() -> None:
    record = look(look(an_alert(), 1), 20, is_met=False)
    assert record.current is None
    assert record.history[0].resolved_at == NOW + 20
    assert states(record) == [(["pending"], ["pending"])]


def test_a_channel_that_could_not_be_told_is_not_told_that_it_is_over() -> None:
    record, [due] = claimed(look(an_alert(), 1), NOW + 1, until=NOW + 10)
    record = completed(record, {due: MessageResult(ok=False)})
    assert states(look(record, 20, is_met=False)) == [(["failed"], [])]


def test_no_resolved_message_with_send_resolved_off() -> None:
    record = look(look(an_alert(send_resolved=False), 1), 20, is_met=False)
    assert states(record) == [(["pending"], [])]


def test_a_flapping_condition_fires_again_only_after_the_cool_down() -> None:
    record = look(look(an_alert(cool_down_sec=300.0), 0), 10, is_met=False)
    assert look(record, 20) is record
    assert look(record, 299) is record
    again = look(record, 300)
    assert [each.number for each in again.history] == [1, 2]


def test_each_failure_is_reported_and_those_within_the_cool_down_together() -> None:
    first = look(an_alert(EACH_FAILURE, cool_down_sec=60.0), 0, upto=10)
    assert (first.cursor, first.current) == (10, None)
    assert look(first, 30, upto=20) is first
    second = look(first, 60, upto=25)
    assert (second.cursor, len(second.history)) == (25, 2)


def test_a_run_failed_alert_is_never_resolved() -> None:
    record = look(an_alert(EACH_FAILURE), 0, upto=10)
    assert look(record, 1000, is_met=False) is record


def test_a_finding_for_an_earlier_state_decides_nothing() -> None:
    """Another gateway has decided meanwhile, or a person has changed the alert."""
    before = an_alert(EACH_FAILURE, cool_down_sec=0.0)
    old = found(before, upto=10)
    fired = decided(before, old, NOW)
    assert decided(fired, old, NOW + 1) is fired
    changed = structs.replace(an_alert(), revision=2)
    assert decided(changed, found(an_alert()), NOW) is changed


def test_a_muted_alert_fires_without_messages() -> None:
    record = look(an_alert(mute=AlertMute(since=NOW)), 1)
    assert states(record) == [(["muted"], [])]
    assert next_message_at(record) is None
    over = look(record, 2, is_met=False)
    assert states(over) == [(["muted"], ["muted"])]


def test_an_alert_that_still_fires_is_reported_when_its_mute_ends() -> None:
    silent = look(an_alert(mute=AlertMute(since=NOW, until=NOW + 100)), 1)
    assert look(silent, 99) is silent
    after = look(silent, 100)
    assert states(after) == [(["pending"], [])]


def test_a_mute_ends_the_attempts_to_deliver_a_message() -> None:
    mute = AlertMute(since=NOW + 2, until=NOW + 100)
    record = muted(look(an_alert(), 1), mute)
    assert (states(record), next_message_at(record)) == ([(["muted"], [])], None)
    assert states(look(record, 100)) == [(["pending"], [])]
    over = muted(look(look(an_alert(), 1), 1.5, is_met=False), mute)
    assert (states(over), next_message_at(over)) == ([(["muted"], ["muted"])], None)


def test_a_message_that_was_being_sent_when_it_was_muted_is_not_sent_again() -> None:
    record, [due] = claimed(look(an_alert(), 1), NOW + 1, until=NOW + 10)
    record = muted(record, AlertMute(since=NOW + 2, until=NOW + 100))
    assert states(completed(record, {due: MessageResult(ok=False, next_at=NOW + 5)})) == [(["muted"], [])]
    delivered = completed(record, {due: MessageResult(ok=True)})
    assert states(look(delivered, 100)) == [(["delivered"], [])]


def test_a_change_of_the_rule_ends_its_occurrence_without_a_message() -> None:
    record = closed(look(an_alert(), 1), NOW + 5)
    assert record.current is None
    assert states(record) == [(["pending"], [])]
    assert closed(record, NOW + 6) is record


def test_only_the_newest_occurrences_are_kept() -> None:
    record = an_alert(EACH_FAILURE, cool_down_sec=0.0)
    for number in range(MAX_OCCURRENCES + 5):
        record = look(record, number, upto=number + 1)
    assert len(record.history) == MAX_OCCURRENCES
    assert record.history[-1].number == MAX_OCCURRENCES + 5


def test_a_message_is_claimed_by_one_gateway_until_the_claim_ends() -> None:
    record, due = claimed(look(an_alert(), 0), NOW, until=NOW + 15)
    assert due == [MessageId(1, "fired", "ops")]
    _, others = claimed(record, NOW + 14, until=NOW + 30)
    assert others == []
    again, after_a_kill = claimed(record, NOW + 15, until=NOW + 30)
    assert after_a_kill == due
    assert again.history[0].fired[0].attempts == 2


@pytest.mark.parametrize(
    ("result", "state", "next_at"),
    [
        (MessageResult(ok=True), "delivered", None),
        (MessageResult(ok=False, error="no", next_at=NOW + 60), "pending", NOW + 60),
        (MessageResult(ok=False, error="gone"), "failed", None),
    ],
)
def test_what_became_of_a_message_is_kept(result: MessageResult, state: str, next_at: float | None) -> None:
    record, [message] = claimed(look(an_alert(), 0), NOW, until=NOW + 15)
    done = completed(record, {message: result})
    [kept] = done.history[0].fired
    assert (kept.state, kept.next_at, kept.error, kept.attempts) == (state, next_at, result.error, 1)


def test_a_delivered_message_is_not_taken_back_by_a_late_failure() -> None:
    """Of a gateway that was suspended until its claim had ended."""
    record, [message] = claimed(look(an_alert(), 0), NOW, until=NOW + 15)
    done = completed(record, {message: MessageResult(ok=True)})
    late = completed(done, {message: MessageResult(ok=False, error="late", next_at=NOW + 60)})
    assert late.history[0].fired[0].state == "delivered"


def test_a_channel_gets_the_end_after_the_beginning() -> None:
    channels = [AlertChannel(name=name, kind=ChannelKind.WEBHOOK) for name in ("ops", "team")]
    record = look(an_alert(channels=channels), 0)
    record, _ = claimed(record, NOW, until=NOW + 15)
    record = completed(
        record,
        {
            MessageId(1, "fired", "ops"): MessageResult(ok=True),
            MessageId(1, "fired", "team"): MessageResult(ok=False, next_at=NOW + 600),
        },
    )
    _, due = claimed(look(record, 20, is_met=False), NOW + 20, until=NOW + 35)
    assert due == [MessageId(1, "resolved", "ops")]
