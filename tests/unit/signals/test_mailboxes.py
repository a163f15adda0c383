"""Which wait receives which signal, and what a mailbox keeps."""

from typing import Any

import pytest
from msgspec import structs

from pyoco_server.errors import MailboxFull
from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.waits.signal_models import Mailbox, Signal, encode
from pyoco_server.records.waits.wait_models import WaitRecord
from pyoco_server.signals.mailboxes import (
    MAX_BYTES,
    MAX_PENDING,
    MAX_RECEIVED,
    assigned,
    deliveries,
    trimmed,
    with_signal,
)
from pyoco_server.waits.wait_transitions import expired, satisfied
from tests.support.broker.stored_waits import a_wait

RUN_ID = "00000000-0000-4000-8000-000000000001"


def signal(signal_id: str, name: str = "go", data: Any = None, **fields: Any) -> Signal:
    return Signal(signal_id=signal_id, name=name, at=1.0, data=data, **fields)


def mailbox(*signals: Signal) -> Mailbox:
    return Mailbox(run_id=RUN_ID, signals=list(signals))


def wait(name: str, topic: str = "go", **fields: Any) -> WaitRecord:
    given = {"kind": WaitKind.SIGNAL, "topic": topic, "created_at": 1.0, **fields}
    return a_wait(RUN_ID, name, **given)


def taken(box: Mailbox) -> dict[str, str | None]:
    return {each.signal_id: each.taken_by for each in box.signals}


def test_an_open_wait_takes_the_first_free_signal_of_its_name() -> None:
    first = wait("first")
    box = assigned(mailbox(signal("s1", "other"), signal("s2"), signal("s3")), [first])
    assert taken(box) == {"s1": None, "s2": first.wait_id, "s3": None}
    assert {wait_id: each.signal_id for wait_id, each in deliveries(box, [first]).items()} == {
        first.wait_id: "s2"
    }


def test_older_waits_come_first_and_each_takes_one() -> None:
    older, newer = wait("older", created_at=1.0), wait("newer", created_at=2.0)
    box = assigned(mailbox(signal("s1"), signal("s2"), signal("s3")), [newer, older])
    assert taken(box) == {"s1": older.wait_id, "s2": newer.wait_id, "s3": None}
    assert assigned(box, [newer, older]) is box, "nothing changes any more"


def test_waits_of_other_kinds_take_nothing() -> None:
    box = mailbox(signal("s1"))
    event = wait("event", kind=WaitKind.EVENT)
    human = a_wait(RUN_ID, "human")
    assert assigned(box, [event, human]) is box


def test_a_signal_of_a_wait_that_timed_out_is_free_for_the_next() -> None:
    late, next_ = wait("late"), wait("next")
    box = assigned(mailbox(signal("s1")), [late])
    timed_out = expired(late, at=2.0)
    assert taken(assigned(box, [timed_out])) == {"s1": None}
    assert taken(assigned(box, [timed_out, next_])) == {"s1": next_.wait_id}


def test_a_received_signal_is_never_free_again() -> None:
    first, second = wait("first"), wait("second")
    box = assigned(mailbox(signal("s1", data=1)), [first])
    answered = satisfied(first, payload=1, decision_id="s1", at=2.0)
    assert assigned(box, [answered, second]) is box
    assert deliveries(box, [answered, second]) == {}


def test_data_of_received_signals_is_left_out_with_the_next_write() -> None:
    first, second = wait("first"), wait("second")
    box = assigned(mailbox(signal("s1", data="x" * 100), signal("s2", data="y")), [first])
    answered = satisfied(first, payload="x" * 100, decision_id="s1", at=2.0)
    box = assigned(box, [answered, second])
    assert [(each.data, each.trimmed) for each in box.signals] == [(None, True), ("y", False)]


def test_only_the_last_received_signals_are_kept() -> None:
    waits = [wait(f"w{number}") for number in range(MAX_RECEIVED + 2)]
    signals = [signal(f"s{number}", taken_by=each.wait_id) for number, each in enumerate(waits)]
    answered = [
        satisfied(each, payload=None, decision_id=f"s{number}", at=2.0) for number, each in enumerate(waits)
    ]
    box = trimmed(mailbox(*signals, signal("new")), answered)
    assert (len(box.signals), box.removed) == (MAX_RECEIVED + 1, 2)
    assert (box.signals[0].signal_id, box.signals[-1].signal_id) == ("s2", "new")


def test_a_full_mailbox_takes_no_more() -> None:
    full = mailbox(*(signal(f"s{number}") for number in range(MAX_PENDING)))
    with pytest.raises(MailboxFull, match="1000 signals were not received yet"):
        with_signal(full, signal("one more"))
    received = structs.replace(full.signals[0], taken_by=wait("w").wait_id)
    with_room = mailbox(received, *full.signals[1:])
    assert len(with_signal(with_room, signal("one more")).signals) == MAX_PENDING + 1


def test_a_mailbox_stays_below_the_size_of_a_message() -> None:
    box = mailbox()
    for number in range(MAX_BYTES // 60_000):
        box = with_signal(box, signal(f"s{number}", data="x" * 59_000))
    with pytest.raises(MailboxFull, match="would take"):
        with_signal(box, signal("one more", data="x" * 59_000))
    assert len(encode(box)) <= MAX_BYTES
