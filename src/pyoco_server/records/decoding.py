"""Decoding of stored records: whatever is wrong with one, UnreadableRecord says what."""

from collections.abc import Callable
from itertools import accumulate
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from pyoco_server.errors import UnreadableRecord

T = TypeVar("T")

# Deeper values cannot be encoded again everywhere: Python's stack has 1,000 frames. Inputs: at most 100.
MAX_NESTING: Final = 500

_PROBLEM_CHARS: Final = 200
_OTHERS: Final = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_STEPS: Final = {ord("["): 1, ord("]"): -1}
_FLAT: Final = 8


def record_decoder(kind: type[T], *, whole: bool = True) -> Callable[[bytes], T]:
    """A decoder of JSON records of this type; not `whole`: of a few fields, and the rest may be anything."""
    decode = msgspec.json.Decoder(kind).decode

    def decoded(data: bytes) -> T:
        try:
            if whole:
                check_text(data)
            return decode(data)
        except Exception as error:
            raise unreadable(error) from error

    return decoded


def check_text(data: bytes) -> None:
    """What a JSON decoder does not check in parts that it skips: the encoding, and the depth."""
    if not data.isascii():
        data.decode()
    if is_nested_deeper(data, MAX_NESTING):
        raise UnreadableRecord(f"nested more than {MAX_NESTING} deep")


def is_nested_deeper(data: bytes, limit: int) -> bool:
    """Whether the lists and objects of a JSON text are nested more than `limit` deep."""
    # Nearly all records have fewer brackets than that.
    if data.count(b"{") + data.count(b"[") <= limit:
        return False
    brackets = _brackets(data)
    levels = 0
    # Most are flat: a few passes that remove the innermost level leave nothing.
    while brackets and levels < _FLAT:
        brackets = brackets.replace(b"[]", b"")
        levels += 1
    return levels + max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > limit


def _brackets(data: bytes) -> bytes:
    """The brackets of a JSON text that are not in strings, all as square ones."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two adjacent quotes cancel out: what is before and after them is both inside or both outside of strings.
    left = data.translate(_SQUARE, _OTHERS).replace(b'""', b"")
    return left if b'"' not in left else b"".join(left.split(b'"')[::2])


def unreadable(error: Exception) -> UnreadableRecord:
    """The same problem as an UnreadableRecord."""
    if isinstance(error, UnreadableRecord):
        return error
    if isinstance(error, RecursionError):
        return UnreadableRecord("nested too deeply")
    text = str(error) or type(error).__name__
    return UnreadableRecord(text if len(text) <= _PROBLEM_CHARS else f"{text[:_PROBLEM_CHARS]}…")


class _Owner(Struct):
    tenant_id: str | None = None


_decode_owner = msgspec.json.Decoder(_Owner).decode


def owner_in(data: bytes) -> str | None:
    """The tenant of a record of which perhaps nothing else can be read."""
    try:
        return _decode_owner(data).tenant_id
    except Exception:  # noqa: BLE001 - the record is unreadable, and so is its tenant
        return None
