"""Decoding of stored records: whatever is wrong with one, UnreadableRecord says what."""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.nesting import MAX_RECORD_NESTING, is_json_nested_deeper

T = TypeVar("T")

_PROBLEM_CHARS: Final = 200


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
    if is_json_nested_deeper(data, MAX_RECORD_NESTING):
        raise UnreadableRecord(f"nested more than {MAX_RECORD_NESTING} deep")


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
