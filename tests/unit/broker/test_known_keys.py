"""What a feed asks a reader that keeps the keys of its bucket in memory."""

import pytest

from pyoco_server.broker.jetstream.feed_history import KnownKey
from pyoco_server.broker.jetstream.known_keys import KnownKeys
from pyoco_server.broker.jetstream.stream_reads import StreamMessage


class _Marker(StreamMessage, frozen=True):
    @property
    def is_marker(self) -> bool:
        return True


def _write(sequence: int, key: str) -> StreamMessage:
    return StreamMessage(sequence, f"$KV.things.{key}", b"{}")


def _marker(sequence: int, key: str) -> StreamMessage:
    return _Marker(sequence, f"$KV.things.{key}", b"")


@pytest.fixture
def keys() -> KnownKeys:
    known = KnownKeys("things")
    known.begin("made-1")
    known.add([_write(1, "a"), _write(2, "b"), _marker(3, "c"), _write(4, "d"), _marker(5, "e")])
    return known


def test_keys_and_markers_are_counted(keys: KnownKeys) -> None:
    assert (keys.entries, keys.markers) == (3, 2)
    assert (keys.checkpoint.created, keys.checkpoint.revision) == ("made-1", 5)
    # Written again, and deleted.
    keys.add([_write(6, "c"), _marker(7, "a")])
    assert (keys.entries, keys.markers) == (3, 2)


def test_the_newest_are_first(keys: KnownKeys) -> None:
    assert keys.newest_below(5, limit=2) == [KnownKey(4, "d"), KnownKey(3, "c", deleted=True)]


def test_markers_are_in_their_order(keys: KnownKeys) -> None:
    assert keys.first_markers(after=0, limit=1) == [(3, "c")]
    assert keys.first_markers(after=3, limit=9) == [(5, "e")]
    keys.forget_markers(["c", "a", "unknown"])
    assert (keys.entries, keys.markers) == (3, 1)


def test_others_are_what_was_not_found(keys: KnownKeys) -> None:
    assert keys.others(0, 4, [2], limit=9) == [(1, "a"), (4, "d")]
    assert keys.others(1, 3, [], limit=9) == [(2, "b")]
    assert keys.drop([1, 4, 99]) == ["a", "d"]
    assert keys.entries == 1


def test_another_bucket_begins_empty(keys: KnownKeys) -> None:
    keys.begin("made-2")
    assert (keys.entries, keys.markers, keys.checkpoint.revision) == (0, 0, 0)
