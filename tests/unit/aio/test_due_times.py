"""When something is due next: order, changes, limits, and the size of the heap."""

from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.aio import due_times
from pyoco_server.aio.due_times import DueTimes

KEYS = st.sampled_from("abc")
TIMES = st.integers(0, 5).map(float)


def times_of(**times: float) -> DueTimes:
    due = DueTimes()
    for key, at in times.items():
        due.schedule(key, at)
    return due


def test_the_earliest_is_taken_first() -> None:
    due = times_of(late=3.0, early=1.0, middle=2.0)
    assert due.next_at() == 1.0
    assert due.take_due(2.0, limit=10) == ["early", "middle"]
    assert due.next_at() == 3.0


def test_what_is_taken_is_not_due_again() -> None:
    due = times_of(a=1.0)
    assert due.take_due(1.0, limit=10) == ["a"]
    assert "a" not in due
    assert due.take_due(9.0, limit=10) == []
    assert due.next_at() is None


def test_no_more_are_taken_than_the_limit() -> None:
    due = times_of(a=1.0, b=2.0)
    assert due.take_due(9.0, limit=1) == ["a"]
    assert due.take_due(9.0, limit=1) == ["b"]


def test_a_new_time_replaces_the_earlier_one() -> None:
    due = times_of(a=1.0)
    due.schedule("a", 5.0)
    assert (due.time_of("a"), due.next_at()) == (5.0, 5.0)
    assert due.take_due(4.0, limit=10) == []
    due.schedule("a", 1.0)
    assert due.take_due(9.0, limit=10) == ["a"]
    assert due.next_at() is None


def test_a_discarded_key_is_not_due() -> None:
    due = times_of(a=1.0, b=2.0)
    due.discard("a")
    due.discard("unknown")
    assert due.time_of("a") is None
    assert due.next_at() == 2.0
    assert due.take_due(9.0, limit=10) == ["b"]


def test_the_same_time_adds_no_entry() -> None:
    due = times_of(a=1.0)
    for _ in range(10):
        due.schedule("a", 1.0)
    assert len(due._heap) == 1


def test_outdated_entries_are_removed_in_the_end() -> None:
    due = times_of(b=0.5)
    for at in range(10 * due_times._MAX_OUTDATED):
        due.schedule("a", 1.0 + at)
    assert len(due._heap) <= due_times._MAX_OUTDATED + 4
    assert due.take_due(1e9, limit=10) == ["b", "a"]


@given(st.lists(st.tuples(KEYS, TIMES | st.none())), TIMES)
def test_it_is_as_a_sorted_list(changes: list[tuple[str, float | None]], now: float) -> None:
    due, expected = DueTimes(), dict[str, float]()
    for key, at in changes:
        if at is None:
            due.discard(key)
            expected.pop(key, None)
        else:
            due.schedule(key, at)
            expected[key] = at
    assert due.next_at() == min(expected.values(), default=None)
    by_time = sorted((at, key) for key, at in expected.items() if at <= now)
    assert due.take_due(now, limit=10) == [key for _, key in by_time]
