"""What is cut of a value that is too large for an agent, and what is kept."""

from typing import Any

import pytest

from pyoco_server.mcp_tools.bounded_values import ValueTooLarge, bounded, cut_text, size_of

LIMIT = 10_000


def nested(depth: int, width: int) -> Any:
    return {f"key_{n}": nested(depth - 1, width) for n in range(width)} if depth else 1


@pytest.mark.parametrize("value", [{}, {"text": "é" * 1000}, {"items": list(range(100))}, {"x": None}])
def test_a_small_value_is_kept_as_it_is(value: Any) -> None:
    assert bounded(value, LIMIT) == (value, False)


@pytest.mark.parametrize(
    "value",
    [
        {"text": "x" * 100_000},
        {"items": list(range(10_000))},
        {"items": [{"text": "é" * 1000}] * 100},
        {"params": {str(n): "x" for n in range(10_000)}},
        {"params": nested(12, 2)},
        {"emoji": "\\ud83d" * 50_000},
    ],
    ids=["text", "array", "texts in an array", "keys", "depth", "surrogates"],
)
def test_a_large_value_is_cut_to_the_limit(value: Any) -> None:
    cut, is_cut = bounded(value, LIMIT)
    assert is_cut
    assert size_of(cut) <= LIMIT
    assert list(cut) == list(value)


def test_a_record_keeps_all_its_fields() -> None:
    record = {f"field_{n}": "x" * 1000 for n in range(60)}
    cut, is_cut = bounded(record, LIMIT)
    assert is_cut
    assert list(cut) == list(record)


def test_a_value_with_too_many_parts_is_refused() -> None:
    with pytest.raises(ValueTooLarge):
        bounded(nested(3, 50), LIMIT)


def test_a_cut_text_says_how_much_is_missing() -> None:
    assert cut_text("abcdef", 6) == "abcdef"
    assert cut_text("abcdef", 2) == "ab… [cut: 4 more characters]"
