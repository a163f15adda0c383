"""Waits of each kind, and those that an earlier or a later version has stored."""

import msgspec
from msgspec import UNSET

from pyoco_server.records.runs.run_models import OpenWait, RunStatus, WaitKind
from pyoco_server.records.waits.wait_models import (
    NO_DEADLINE,
    OnTimeout,
    WaitRecord,
    WaitState,
    decode_wait,
    encode_wait,
    is_topic,
)
from pyoco_server.runs.lifecycle.waiting_state import open_waits, parked_status
from pyoco_server.waits.wait_transitions import deadline_again, expired, satisfied

WAIT = {
    "wait_id": "00000000-0000-4000-8000-000000000000.0123456789abcdef",
    "run_id": "00000000-0000-4000-8000-000000000000",
    "flow_name": "flow",
    "tag": "default",
    "node": "a||0",
    "task": "a",
    "name": "human",
    "message": "?",
    "created_at": 100.0,
    "deadline_at": 160.0,
}


def wait(**fields: object) -> WaitRecord:
    return msgspec.convert(WAIT | fields, WaitRecord)


def test_a_wait_of_an_earlier_version_asks_a_person() -> None:
    stored = decode_wait(msgspec.json.encode(WAIT))
    assert (stored.kind, stored.is_human, stored.topic, stored.match) == (WaitKind.HUMAN, True, None, {})


def test_a_question_is_stored_as_earlier_versions_store_it() -> None:
    assert msgspec.json.decode(encode_wait(wait())) == WAIT


def test_a_kind_of_a_newer_version_is_kept() -> None:
    stored = decode_wait(msgspec.json.encode(WAIT | {"kind": "runs"}))
    assert (stored.kind, stored.is_human, stored.kind.known) == ("runs", False, False)
    assert msgspec.json.decode(encode_wait(stored))["kind"] == "runs"


def test_an_open_wait_of_an_earlier_snapshot_asks_a_person() -> None:
    old = msgspec.json.decode(
        b'{"wait_id":"w","task":"a","name":"n","message":"m","deadline_at":1.0}', type=OpenWait
    )
    assert (old.kind, old.since) == (WaitKind.HUMAN, None)


def test_a_run_that_asks_a_person_is_waiting_human() -> None:
    sleep = wait(kind="sleep")
    assert parked_status([sleep]) is RunStatus.WAITING
    assert parked_status([sleep, wait()]) is RunStatus.WAITING_HUMAN


def test_an_open_wait_says_what_it_waits_for_and_since_when() -> None:
    [shown] = open_waits([wait(kind="signal", topic="paid", deadline_at=NO_DEADLINE)])
    assert (shown.kind, shown.topic, shown.since, shown.deadline_at) == ("signal", "paid", 100.0, None)


def test_a_sleep_continues_its_task_at_the_deadline() -> None:
    over = expired(wait(kind="sleep", default=None), at=160.0)
    assert (over.resolved, over.timed_out, over.value) == (True, False, None)


def test_a_signal_without_a_default_times_out() -> None:
    over = expired(wait(kind="signal", topic="paid", on_timeout=OnTimeout.RAISE), at=160.0)
    assert (over.resolved, over.timed_out, over.value) == (True, True, UNSET)


def test_a_satisfied_wait_has_the_data_and_the_id() -> None:
    decided = satisfied(wait(kind="event", topic="paid"), payload=[1], decision_id="e1", at=120.0)
    assert (decided.state, decided.value, decided.decision_id) == (WaitState.ANSWERED, [1], "e1")
    assert (decided.decided_at, decided.resolved) == (120.0, True)


def test_the_deadline_of_a_wait_that_is_opened_again() -> None:
    assert deadline_again(wait(), at=1000.0) == 1060.0
    assert deadline_again(wait(kind="sleep"), at=1000.0) == 160.0
    assert deadline_again(wait(kind="signal", deadline_at=NO_DEADLINE), at=1000.0) == NO_DEADLINE


def test_the_names_of_signals_and_events() -> None:
    assert all(map(is_topic, ["paid", "order.paid", "a_b-c.D9", "x" * 100]))
    assert not any(map(is_topic, ["", ".", "a.", ".a", "a..b", "a b", "a*", "a>", "x" * 101, "a\n", "é"]))
