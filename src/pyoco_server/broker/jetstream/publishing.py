"""Publishing into a stream, and knowing that it is stored."""

from collections.abc import Mapping

import msgspec

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge

_WRONG_LAST_SEQUENCE = {10071, 10164}
_TOO_LARGE_FOR_STREAM = 10054


class RevisionConflict(Exception):
    """Somebody else wrote the key since the revision that this write was based on."""


class ApiError(msgspec.Struct):
    err_code: int = 0
    description: str = ""


class _PublishAck(msgspec.Struct):
    seq: int = 0
    duplicate: bool = False
    error: ApiError | None = None


_decode_ack = msgspec.json.Decoder(_PublishAck).decode


async def publish_acked(
    connection: Connection, subject: str, payload: bytes, headers: Mapping[str, str] | None = None
) -> int:
    """Publish into a stream and return the sequence it was stored under."""
    reply = await connection.request(subject, payload, headers)
    ack = _decode_ack(reply.data)
    if ack.error is not None:
        if ack.error.err_code in _WRONG_LAST_SEQUENCE:
            raise RevisionConflict(ack.error.description)
        if ack.error.err_code == _TOO_LARGE_FOR_STREAM:
            raise PayloadTooLarge(ack.error.description)
        raise connection.unavailable(f"JetStream refused the write: {ack.error.description}")
    return ack.seq
