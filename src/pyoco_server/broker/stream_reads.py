"""Reading what a stream holds, in order, without a consumer: batches of direct reads.

Any replica answers these, and one that lags knows less than was acknowledged. Who must not miss anything
asks the leader first how far there is to read (`last_sequence`).
"""

from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from pyoco_server.broker import jetstream_api
from pyoco_server.broker.connection import Connection
from pyoco_server.broker.message import Message
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


@dataclass(frozen=True, slots=True)
class StreamState:
    # When the stream was made: another one of the same name counts its messages anew.
    created: str
    # How many messages there are on each of the subjects that were asked for.
    subjects: dict[str, int]


class _Stored(msgspec.Struct):
    seq: int
    subject: str = ""
    data: str = ""


class _StoredReply(msgspec.Struct):
    message: _Stored | None = None
    error: ApiError | None = None


async def last_sequence(connection: Connection, stream: str, subject: str) -> int:
    """The sequence of the newest message on the subject as the leader knows it; 0 when there is none."""
    stored = await _stored(connection, stream, {"last_by_subj": subject})
    return 0 if stored is None else stored.seq


async def message_at(connection: Connection, stream: str, sequence: int) -> StreamMessage | None:
    """The message of this sequence as the leader knows it, without its headers; None if it is gone."""
    stored = await _stored(connection, stream, {"seq": sequence})
    return None if stored is None else StreamMessage(sequence, stored.subject, b64decode(stored.data), {})


async def stream_state(connection: Connection, stream: str, *, subjects: str = "") -> StreamState:
    """The stream as its leader knows it, with a count of the messages on matching subjects."""
    query = {"subjects_filter": subjects} if subjects else None
    try:
        info = await jetstream_api.call(connection, f"STREAM.INFO.{stream}", query)
    except jetstream_api.ApiRefused as refused:
        raise connection.unavailable(f"{stream}: {refused}") from refused
    return StreamState(info["created"], info["state"].get("subjects") or {})


async def _stored(connection: Connection, stream: str, query: dict[str, object]) -> _Stored | None:
    reply = await connection.request(f"$JS.API.STREAM.MSG.GET.{stream}", msgspec.json.encode(query))
    answer = msgspec.json.decode(reply.data, type=_StoredReply)
    if answer.error is not None and answer.error.err_code != _NO_MESSAGE:
        raise connection.unavailable(f"{stream}: {answer.error.description}")
    return answer.message


async def read_batch(
    connection: Connection,
    stream: str,
    subject: str,
    *,
    after: int = 0,
    limit: int = _BATCH,
    max_bytes: int = 0,
) -> list[StreamMessage]:
    """The next messages on the subject behind the sequence `after`; none when this is the end.

    With `max_bytes` the batch ends with the message that reaches them.
    """
    query: dict[str, object] = {"seq": after + 1, "next_by_subj": subject, "batch": limit}
    if max_bytes:
        query["max_bytes"] = max_bytes
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


def _message(answer: Message) -> StreamMessage:
    headers = answer.headers or {}
    return StreamMessage(int(headers["Nats-Sequence"]), headers["Nats-Subject"], answer.data, headers)
