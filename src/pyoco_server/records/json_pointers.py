"""JSON pointers (RFC 6901), and equality at them: which data of an event a wait or a hook accepts.

A match maps pointers to values, and all have to be equal: there are no expressions. Numbers are equal by
value (1 and 1.0), `true` is not 1, and texts are compared character by character. `null` is equal to a null
that is present, not to a missing member.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

# The value at a pointer that points to nothing; it equals no JSON value.
ABSENT: Final = object()
_POINTER: Final = re.compile(r"(/([^~/]|~[01])*)*")


def is_pointer(text: str) -> bool:
    """Whether it is valid; the empty one is the whole document."""
    return _POINTER.fullmatch(text) is not None


def matches(match: Mapping[str, Any], data: Any) -> bool:
    """Whether the data has all of these values; the pointers are valid."""
    return all(equal(value_at(pointer, data), value) for pointer, value in match.items())


def value_at(pointer: str, data: Any) -> Any:
    """The value at a pointer; ABSENT if there is none."""
    for token in pointer.split("/")[1:]:
        # In this order: ~01 is ~1.
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(data, dict):
            data = data.get(name, ABSENT)
        elif isinstance(data, list) and _is_index(name) and int(name) < len(data):
            data = data[int(name)]
        else:
            return ABSENT
    return data


def _is_index(text: str) -> bool:
    # int() would accept "+1", "1_0" and digits of other scripts; RFC 6901 forbids leading zeros.
    return text.isascii() and text.isdigit() and len(text) < 10 and (text == "0" or text[0] != "0")


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)
