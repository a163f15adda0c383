"""Publishing into a stream with an acknowledgement."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Final, TypeVar

import msgspec

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.errors import NatsUnavailable

T = TypeVar("T")

_WRONG_LAST_SEQUENCE = {10071, 10164}
_TOO_LARGE_FOR_STREAM = 10054
# Limits of the account, the server, its memory or disk, and of the stream.
_NO_SPACE = {10002, 10023, 10028, 10047, 10077}
# The caller has waited for a whole request timeout before.
_READ_BACK_SEC: Final = 0.3


class RevisionConflict(Exception):
    """The key was written since the revision that this write was based on."""


class ApiError(msgspec.Struct):
    err_code: int = 0
    description: str = ""


class _PublishAck(msgspec.Struct):
    seq: int = 0
    duplicate: bool = False
    error: ApiError | None = None


_decode_ack = msgspec.json.Decoder(_PublishAck).decode


async def publish_acked(
    connection: Connection,
    subject: str,
    payload: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    probing: bool = False,
) -> int:
    """Publish into a stream and return the sequence of the stored message.

    NatsCannotWrite at once when the stream is known not to store anything; `probing` tries it nevertheless.
    """
    if connection.writes.problem is not None and not probing:
        connection.writes.check((subject,))
    reply = await connection.request(subject, payload, headers)
    ack = _decode_ack(reply.data)
    if ack.error is not None:
        if ack.error.err_code in _WRONG_LAST_SEQUENCE:
            raise RevisionConflict(ack.error.description)
        if ack.error.err_code == _TOO_LARGE_FOR_STREAM:
            raise PayloadTooLarge(ack.error.description)
        if ack.error.err_code in _NO_SPACE:
            raise connection.writes.refused(subject, ack.error.description)
        raise connection.unavailable(f"JetStream refused the write: {ack.error.description}")
    return ack.seq


async def read_back(read: Awaitable[T], failure: NatsUnavailable) -> T:
    """Read after a write without an acknowledgement, which may be stored; raise `failure` if that fails."""
    try:
        async with asyncio.timeout(_READ_BACK_SEC):
            return await read
    except (NatsUnavailable, TimeoutError):
        raise failure from None
