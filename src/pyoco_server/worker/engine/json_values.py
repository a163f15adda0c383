"""Values of a user's tasks as JSON of bounded size; encoding them never fails."""

from typing import Any

import msgspec
from msgspec import Raw

from pyoco_server.records.decoding import is_nested_deeper
from pyoco_server.runs.lifecycle.compaction import cut_value

# One value may take this much of a record; more is replaced by its size and beginning.
VALUE_LIMIT_BYTES = 64 * 1024
_REPR_CHARS = 4096
# Deeper values are replaced too: a stored record has a limit (records/decoding.py).
_MAX_NESTING = 200


def to_json(value: Any) -> tuple[Raw, bool]:
    """The value as JSON, and whether it had to be cut."""
    try:
        encoded = _encode(value)
    except Exception:  # noqa: BLE001 - a key that is no string, a text that is no Unicode, a user's property
        encoded = msgspec.json.encode(describe(value))
    if len(encoded) <= VALUE_LIMIT_BYTES and not is_nested_deeper(encoded, _MAX_NESTING):
        return Raw(encoded), False
    return cut_value(encoded), True


def describe(value: Any) -> str:
    """The repr of a value that JSON cannot represent."""
    try:
        text = repr(value)
    except BaseException as error:  # noqa: BLE001 - a user's __repr__ may raise anything
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return escape_surrogates(text[:_REPR_CHARS])


_encode = msgspec.json.Encoder(enc_hook=describe).encode


def escape_surrogates(text: str) -> str:
    """The text as valid UTF-8: a lone surrogate, as in a file name, becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def error_message(error: BaseException) -> str:
    """The text of a user's exception, whose `__str__` may raise anything too."""
    try:
        return escape_surrogates(str(error))
    except Exception as broken:  # noqa: BLE001 - see above
        return f"<its message raised {type(broken).__name__}>"
