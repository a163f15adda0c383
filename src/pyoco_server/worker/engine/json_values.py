"""Values of a user's tasks as JSON of bounded size; encoding them never fails."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from pyoco_server.records.decoding import is_nested_deeper
from pyoco_server.runs.lifecycle.compaction import cut_bytes, cut_value

# One value may take this much of a record; more is replaced by its size and beginning.
VALUE_LIMIT_BYTES = 64 * 1024
_BYTES_TYPES = frozenset({bytes, bytearray, memoryview})
_REPR_CHARS = 4096
# Deeper values are replaced too: a stored record has a limit (records/decoding.py).
_MAX_NESTING = 200
# Which values are looked through for numbers that JSON does not have, and how many are named.
_SEARCHED_BYTES = 1024 * 1024
_MARKS = 20
_PATH_CHARS = 120


class JsonValue(NamedTuple):
    json: Raw
    is_cut: bool = False
    # Where a number was that JSON does not have.
    not_json: Sequence[str] = ()
    # All of a value that was cut: JSON, or bytes as they are.
    whole: memoryview = memoryview(b"")


def to_json(name: str, value: Any, limit: int = VALUE_LIMIT_BYTES) -> JsonValue:
    """The value as JSON; `name` is the field of the record that it is stored in.

    One that takes more than `limit` bytes is cut.
    """
    if is_bytes(value) and (size := memoryview(value).nbytes) * 4 // 3 > limit:
        # Without its base64, which would be another copy.
        return JsonValue(cut_bytes(value, size), is_cut=True, whole=_flat(value))
    not_json: Sequence[str] = ()
    try:
        encoded = _encode(value)
        not_json = _non_finite(name, value, encoded)
    except Exception:  # noqa: BLE001 - a key that is no string, a text that is no Unicode, a user's property
        encoded = msgspec.json.encode(describe(value))
    if len(encoded) <= limit and not is_nested_deeper(encoded, _MAX_NESTING):
        return JsonValue(Raw(encoded), not_json=not_json)
    return JsonValue(cut_value(encoded), is_cut=True, not_json=not_json, whole=memoryview(encoded))


def is_bytes(value: Any) -> bool:
    """Whether JSON has it as base64."""
    return type(value) in _BYTES_TYPES


def _flat(value: Any) -> memoryview:
    view = memoryview(value)
    return view.cast("B") if view.contiguous else memoryview(view.tobytes())


def _non_finite(name: str, value: Any, encoded: bytes) -> list[str]:
    """Where the value has a NaN or an infinity, which JSON stores as null: `output.rows[3]: NaN`."""
    if b"null" not in encoded or len(encoded) > _SEARCHED_BYTES:
        return []
    found = list(islice(_search(name, msgspec.to_builtins(value, enc_hook=describe)), _MARKS + 1))
    return found if len(found) <= _MARKS else [*found[:_MARKS], "…"]


def _search(path: str, value: Any) -> Iterator[str]:
    """Iteratively: a value may be nested more deeply than calls can be."""
    pending = [(path, value)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{path}: {'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}"
        elif isinstance(value, dict):
            pending += [(_shortened(f"{path}.{key}"), each) for key, each in reversed(value.items())]
        elif isinstance(value, list | tuple):
            pending += [(f"{path}[{index}]", each) for index, each in reversed(list(enumerate(value)))]


def _shortened(path: str) -> str:
    return escape_surrogates(path if len(path) <= _PATH_CHARS else f"…{path[-_PATH_CHARS:]}")


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
