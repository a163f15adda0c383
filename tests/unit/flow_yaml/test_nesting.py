"""Nesting is measured without recursion."""

import pytest

from pyoco_server.runs.flow_yaml.nesting import check_nesting


def nested(levels: int) -> object:
    value: object = 1
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    return value


@pytest.mark.parametrize("levels", [0, 1, 2, 32, 100_000])
def test_the_limit_is_the_last_accepted_depth(levels: int) -> None:
    value = nested(levels)
    assert check_nesting(value, levels)
    assert check_nesting(value, levels + 1)
    assert not levels or not check_nesting(value, levels - 1)
    _taken_apart(value)


def _taken_apart(value: object) -> None:
    """Piece by piece: Python frees a deep value by recursion."""
    while isinstance(value, (dict, list)):
        value = value.popitem()[1] if isinstance(value, dict) else value.pop()


def test_an_empty_collection_is_a_level_and_text_is_not() -> None:
    assert check_nesting("text", 0)
    assert not check_nesting([], 0)
    assert not check_nesting({}, 0)
    assert check_nesting([], 1)
    assert not check_nesting([[]], 1)


def test_the_deepest_branch_counts() -> None:
    assert not check_nesting({"a": 1, "b": [1, {"c": []}], "d": [[]]}, 3)
    assert check_nesting({"a": 1, "b": [1, {"c": []}], "d": [[]]}, 4)


def test_a_value_that_contains_itself_is_too_deep() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert not check_nesting(loop, 32)


def test_a_shared_value_is_measured_once() -> None:
    """Counted out, this would be 2 to the power of 100 lists."""
    value: object = []
    for _ in range(99):
        value = [value, value]
    assert check_nesting(value, 100)
    assert not check_nesting(value, 99)
