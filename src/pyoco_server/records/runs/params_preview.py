"""The beginning of params that are too large for a snapshot; the run's journal has all of them.

The same on gateway and worker: both build the first snapshot of a run from its job.
"""

from typing import Any, Final

import msgspec

_PREVIEW_CHARS: Final = 1024
_VALUE_BYTES: Final = 2048
_NAME_CHARS: Final = 200
_TOTAL_BYTES: Final = 8192

_encode = msgspec.json.Encoder().encode


def preview_of(encoded: bytes) -> dict[str, Any]:
    """A replacement for a long JSON value: its size and its beginning."""
    preview = encoded[:_PREVIEW_CHARS].decode("utf-8", "ignore")
    return {"truncated": True, "bytes": len(encoded), "preview": preview}


def params_preview(params: dict[str, Any]) -> dict[str, Any]:
    """The first params; of long values their size and beginning."""
    shown: dict[str, Any] = {}
    room = _TOTAL_BYTES
    for name, value in params.items():
        encoded = _encode(value)
        if len(encoded) > _VALUE_BYTES:
            value = preview_of(encoded)  # noqa: PLW2901 - shown in its place
            encoded = _encode(value)
        room -= len(name.encode()) + len(encoded)
        if room < 0 or len(name) > _NAME_CHARS:
            break
        shown[name] = value
    return shown
