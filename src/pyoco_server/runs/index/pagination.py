"""Sort orders, sort keys and signed cursors of lists."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

_SIGNATURE_BYTES: Final = 16
_DIGEST_BYTES: Final = 8


class SortField(StrEnum):
    UPDATED_AT = "updated_at"
    SUBMITTED_AT = "submitted_at"
    START_TIME = "start_time"
    END_TIME = "end_time"
    DURATION = "duration"
    FLOW_NAME = "flow_name"
    STATUS = "status"

    @property
    def group_column(self) -> str | None:
        """The column of `groups`, for a field that all runs of a group share."""
        return {SortField.FLOW_NAME: "flow", SortField.STATUS: "status"}.get(self)

    @property
    def time(self) -> str:
        """The column that orders the runs of one group."""
        return SortField.UPDATED_AT if self.group_column else self.value


@dataclass(frozen=True, slots=True)
class Sort:
    field: SortField = SortField.UPDATED_AT
    descending: bool = True

    @property
    def beyond(self) -> str:
        return "<" if self.descending else ">"

    def clause(self, table: str) -> str:
        direction = "DESC" if self.descending else "ASC"
        return f"ORDER BY {table}.{self.field.time} {direction}, {table}.revision {direction}"


class SortKey(NamedTuple):
    """Where an entry stands in a list; a page continues after one.

    It changes only when the entry is written: a client that pages through a list sees each unchanged entry
    exactly once. A tuple, because many are created and compared.
    """

    # Of a list sorted by flow name or status; otherwise the same for all.
    name: str
    time: float
    revision: int


class BadCursor(Exception):
    """The cursor was not issued here, or for another query; the text says which."""


class _Payload(msgspec.Struct, array_like=True):
    query: bytes
    name: str
    time: float
    revision: int


class Cursors:
    """Encodes sort keys as signed cursors; gateways with the same key read each other's."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def write(self, after: SortKey, *query: object) -> str:
        body = msgspec.msgpack.encode(_Payload(_digest(query), *after))
        return urlsafe_b64encode(self._signature(body) + body).rstrip(b"=").decode()

    def read(self, text: str, *query: object) -> SortKey:
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            raise BadCursor("expected a next_cursor exactly as it was returned") from None
        signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(body)):
            raise BadCursor("expected a next_cursor exactly as it was returned")
        payload = msgspec.msgpack.decode(body, type=_Payload)
        if payload.query != _digest(query):
            raise BadCursor("it belongs to another query; repeat the filters, sort and order it came from")
        return SortKey(payload.name, payload.time, payload.revision)

    def _signature(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")[:_SIGNATURE_BYTES]


def _digest(query: tuple[object, ...]) -> bytes:
    return sha256(msgspec.json.encode(query, order="sorted")).digest()[:_DIGEST_BYTES]
