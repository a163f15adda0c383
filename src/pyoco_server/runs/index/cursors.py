"""Where a list goes on, as a word that clients hand back: signed, and good for one query only."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Final

import msgspec

from pyoco_server.runs.index.sorting import Place

_SIGNATURE_BYTES: Final = 16
_DIGEST_BYTES: Final = 8


class BadCursor(Exception):
    """It was not made here, or for another query; the text says which."""


class _Told(msgspec.Struct, array_like=True):
    query: bytes
    name: str
    time: float
    revision: int


class Cursors:
    """Makes and reads cursors. Every gateway with the same key reads those of the others."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def write(self, place: Place, *query: object) -> str:
        told = _Told(_digest(query), place.name, place.time, place.revision)
        body = msgspec.msgpack.encode(told)
        return urlsafe_b64encode(self._signature(body) + body).rstrip(b"=").decode()

    def read(self, text: str, *query: object) -> Place:
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            raise BadCursor("wanted a next_cursor exactly as it was answered") from None
        signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(body)):
            raise BadCursor("wanted a next_cursor exactly as it was answered")
        told = msgspec.msgpack.decode(body, type=_Told)
        if told.query != _digest(query):
            raise BadCursor("it belongs to another query; repeat the filters, sort and order it came from")
        return Place(told.name, told.time, told.revision)

    def _signature(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")[:_SIGNATURE_BYTES]


def _digest(query: tuple[object, ...]) -> bytes:
    """A short word for the query: for what is wanted, and in which order."""
    return sha256(msgspec.json.encode(query, order="sorted")).digest()[:_DIGEST_BYTES]
