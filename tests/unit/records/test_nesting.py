"""Nesting is measured without recursion, of values and of JSON texts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.records.nesting import is_json_nested_deeper, is_nested_deeper

TEXTS = st.text(st.sampled_from('[]{}"\\ab\n'), max_size=6)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=30,
)


def nested(levels: int) -> object:
    value: object = 1
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    return value


@pytest.mark.parametrize("levels", [0, 1, 2, 32, 100_000])
def test_the_limit_is_the_last_accepted_depth(levels: int) -> None:
    value = nested(levels)
    assert not is_nested_deeper(value, levels)
    assert not is_nested_deeper(value, levels + 1)
    assert not levels or is_nested_deeper(value, levels - 1)
    _taken_apart(value)


def _taken_apart(value: object) -> None:
    """Piece by piece: Python frees a deep value by recursion."""
    while isinstance(value, (dict, list)):
        value = value.popitem()[1] if isinstance(value, dict) else value.pop()


def test_an_empty_collection_is_a_level_and_text_is_not() -> None:
    assert not is_nested_deeper("text", 0)
    assert is_nested_deeper([], 0)
    assert is_nested_deeper({}, 0)
    assert not is_nested_deeper([], 1)
    assert is_nested_deeper([[]], 1)


def test_the_deepest_branch_counts() -> None:
    assert is_nested_deeper({"a": 1, "b": [1, {"c": []}], "d": [[]]}, 3)
    assert not is_nested_deeper({"a": 1, "b": [1, {"c": []}], "d": [[]]}, 4)


def test_a_value_that_contains_itself_is_too_deep() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert is_nested_deeper(loop, 32)


def test_a_shared_value_is_measured_once() -> None:
    """Counted out, this would be 2 to the power of 100 lists."""
    value: object = []
    for _ in range(99):
        value = [value, value]
    assert not is_nested_deeper(value, 100)
    assert is_nested_deeper(value, 99)


@given(value=VALUES, limit=st.integers(0, 12))
def test_the_depth_of_a_text_is_that_of_its_value(value: Any, limit: int) -> None:
    assert is_json_nested_deeper(json.dumps(value).encode(), limit) is is_nested_deeper(value, limit)


@pytest.mark.parametrize("depth", [1, 8, 9, 100, 5_000])
def test_brackets_in_strings_do_not_hide_the_depth(depth: int) -> None:
    hidden = b'["]\\"]\\\\",' * depth + b"1" + b',"["]' * depth
    assert is_json_nested_deeper(hidden, depth - 1)
    assert not is_json_nested_deeper(hidden, depth)
