"""Equality at JSON pointers (RFC 6901): which data of an event a wait accepts.

A match maps pointers to values, and all have to be equal: there are no expressions. Numbers are equal by
value (1 and 1.0), `true` is not 1, and texts are compared character by character. `null` is equal to a null
that is present, not to a missing member.
"""

from collections.abc import Mapping
from typing import Any, Final

_ABSENT: Final = object()


def matches(match: Mapping[str, Any], data: Any) -> bool:
    """Whether the data has all of these values; the pointers are valid."""
    return all(_equal(_value_at(pointer, data), value) for pointer, value in match.items())


def _value_at(pointer: str, data: Any) -> Any:
    """The value at a pointer; of a missing one an object that equals no JSON value."""
    for token in pointer.split("/")[1:]:
        # In this order: ~01 is ~1.
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(data, dict):
            data = data.get(name, _ABSENT)
        elif isinstance(data, list) and _is_index(name) and int(name) < len(data):
            data = data[int(name)]
        else:
            return _ABSENT
    return data


def _is_index(text: str) -> bool:
    # int() would accept "+1", "1_0" and digits of other scripts; RFC 6901 forbids leading zeros.
    return text.isascii() and text.isdigit() and len(text) < 10 and (text == "0" or text[0] != "0")


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
