"""How journalled results are stored: what comes back is exactly what went in."""

import math
import pickle
from collections import OrderedDict
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.worker.engine.journal.journal_values import (
    dump_changes,
    dump_value,
    load_changes,
    load_value,
)
from pyoco_server.worker.engine.tasks.context_changes import Changes

PLAIN = b"\xc1"


class Color(IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


shared: list[int] = []
cyclic: list[Any] = []
cyclic.append(cyclic)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
values = st.recursive(
    scalars | st.tuples(scalars) | st.just(Color.RED) | st.builds(Text, st.text()),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner)
    ),
)


def same(one: Any, other: Any) -> bool:
    """The same value of the same types."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return [*map(type, one)] == [*map(type, other)] and same([*one.items()], [*other.items()])
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return math.copysign(1, one) == math.copysign(1, other) and (one == other or one != one)
    return bool(one == other)


@given(values)
def test_what_comes_back_is_the_same(value: Any) -> None:
    assert same(load_value(dump_value(value)), value)


@pytest.mark.parametrize(
    "value",
    [None, True, 1, -1.5, math.nan, "あ", b"\x00\xff", [], {}, {"a": [1, {"b": None}]}, [[], []], 2**64 - 1],
    ids=str,
)
def test_plain_data_is_no_pickle(value: Any) -> None:
    assert dump_value(value).startswith(PLAIN)


@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        {1: "a"},
        {1, 2},
        bytearray(b"x"),
        2**64,
        "\ud800",
        {"\ud800": 1},
        Color.RED,
        Text("x"),
        {Text("x"): 1},
        Decimal(1),
        OrderedDict(a=1),
        [shared, shared],
        {"a": shared, "b": [shared]},
        nested(100),
        list(range(20_000)),
    ],
    ids=lambda value: str(value)[:20].encode("ascii", "replace").decode(),
)
def test_what_msgpack_would_change_is_a_pickle(value: Any) -> None:
    stored = dump_value(value)
    assert not stored.startswith(PLAIN)
    assert same(load_value(stored), value)


def test_shared_and_cyclic_objects_stay_shared() -> None:
    one, other = load_value(dump_value([shared, shared]))
    assert one is other
    loaded = load_value(dump_value(cyclic))
    assert loaded[0] is loaded


def test_an_entry_of_an_earlier_version_is_loaded() -> None:
    assert load_value(pickle.dumps({"a": (1, 2)}, protocol=5)) == {"a": (1, 2)}
    changes: Changes = ({("scratch", "x"): 1}, [("params", "y")])
    assert load_changes(pickle.dumps(changes, protocol=5)) == changes


@pytest.mark.parametrize("stored", [b"", b"x", b"\xc1\xc1", b"\xc1"])
def test_what_is_neither_is_refused(stored: bytes) -> None:
    with pytest.raises(ValueError, match=r"unknown form|truncated|malformed"):
        load_value(stored)


@pytest.mark.parametrize(
    ("changes", "plain"),
    [
        (({("scratch", "x"): [1], ("params", None): {"a": 1}}, [("scratch", "y")]), True),
        (({("scratch", "x"): (1,)}, []), False),
        (({("scratch", 1): 1}, [("scratch", 2)]), False),
        (({("scratch", "x"): shared, ("scratch", "y"): shared}, []), False),
    ],
)
def test_changes_come_back_the_same(changes: Changes, plain: bool) -> None:
    stored = dump_changes(changes)
    assert stored.startswith(PLAIN) is plain
    values, removed = load_changes(stored)
    assert (values, removed) == changes
    assert all(type(name) is tuple for name in (*values, *removed))
    assert len({id(value) for value in values.values()}) == len({id(each) for each in changes[0].values()})
