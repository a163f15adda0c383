"""Reading what a stream holds, in order, without a consumer: batches of direct reads.

Any replica answers these, and one that lags knows less than was acknowledged. Who must not miss anything
asks the leader first how far there is to read (`last_sequence`).
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
from nats.aio.msg import Msg

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.publishing import ApiError

_BATCH = 512
_NO_MESSAGE = 10037
_STATUS = "Status"
_END_OF_BATCH = "204"
_NOTHING_THERE = "404"


@dataclass(frozen=True, slots=True)
class StreamMessage:
    sequence: int
    subject: str
    data: bytes
    headers: dict[str, str]

    @property
    def stored_at(self) -> str:
        """The server's time, RFC 3339."""
        return self.headers.get("Nats-Time-Stamp", "")


class _LastMessage(msgspec.Struct):
    seq: int


class _LastReply(msgspec.Struct):
    message: _LastMessage | None = None
    error: ApiError | None = None


async def last_sequence(connection: Connection, stream: str, subject: str) -> int:
    """The sequence of the newest message on the subject as the leader knows it; 0 when there is none."""
    query = msgspec.json.encode({"last_by_subj": subject})
    reply = await connection.request(f"$JS.API.STREAM.MSG.GET.{stream}", query)
    answer = msgspec.json.decode(reply.data, type=_LastReply)
    if answer.error is not None and answer.error.err_code != _NO_MESSAGE:
        raise connection.unavailable(f"{stream}: {answer.error.description}")
    return 0 if answer.message is None else answer.message.seq


async def read_batch(
    connection: Connection, stream: str, subject: str, *, after: int = 0, limit: int = _BATCH
) -> list[StreamMessage]:
    """The next messages on the subject behind the sequence `after`; none when this is the end."""
    query = {"seq": after + 1, "next_by_subj": subject, "batch": limit}
    batch: list[StreamMessage] = []
    async for answer in connection.request_many(f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(query)):
        status = (answer.headers or {}).get(_STATUS)
        if status in (_END_OF_BATCH, _NOTHING_THERE):
            return batch
        if status is not None:
            raise connection.unavailable(
                f"{stream}: {status} {(answer.headers or {}).get('Description', '')}"
            )
        batch.append(_message(answer))
    return batch


async def read_to(
    connection: Connection, stream: str, subject: str, last: int, *, after: int = 0
) -> AsyncIterator[StreamMessage]:
    """Every message on the subject behind `after`, up to the sequence `last`."""
    while after < last:
        batch = await read_batch(connection, stream, subject, after=after)
        if not batch:
            raise connection.unavailable(f"{stream}: a replica has not received message {last} yet")
        for message in batch:
            yield message
        after = batch[-1].sequence


def _message(answer: Msg) -> StreamMessage:
    headers = answer.headers or {}
    return StreamMessage(int(headers["Nats-Sequence"]), headers["Nats-Subject"], answer.data, headers)
