"""Reading what a stream holds, in order, without a consumer: batches of direct reads.

Any replica answers these, and one that lags knows less than was acknowledged. Who must not miss anything
asks the leader first how far there is to read (`last_sequence`).
"""

import re
from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import DELETED
from pyoco_server.broker.jetstream.publishing import ApiError

# Every subject of a stream. A pattern that only happens to match them all is another matter: the server then
# counts, for each batch, what is left of each of a million subjects.
EVERYTHING = ">"

_OPERATION: Final = b"KV-Operation"

_BATCH = 512
_NO_MESSAGE = 10037
_SERVERS_OWN: Final = b"\r\nNats-Stream: "
_PLACE: Final = re.compile(rb"\r\nNats-Subject: ([^\r\n]+)\r\nNats-Sequence: ([0-9]+)\r\n")
_END_OF_BATCH = "204"
_NOTHING_THERE = "404"


class StreamMessage(Struct, frozen=True, gc=False):
    sequence: int
    subject: str
    data: bytes
    # The answer that it came in; None: without its headers.
    answer: Message | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Read when they are asked for, since most messages are not."""
        return {} if self.answer is None else self.answer.headers

    @property
    def is_marker(self) -> bool:
        """Whether it only says that a key of a bucket is gone."""
        may_be = self.answer is not None and _OPERATION in self.answer.head
        return may_be and self.headers.get("KV-Operation") in DELETED

    @property
    def stored_at(self) -> str:
        """The server's time, RFC 3339."""
        return self.headers.get("Nats-Time-Stamp", "")

    @property
    def stored_time(self) -> float:
        """The same in unix seconds."""
        return unix_time(self.stored_at)

    @property
    def stored_ns(self) -> int:
        """The same in nanoseconds since 1970: exact enough to tell one message from another."""
        return unix_ns(self.stored_at)

    @property
    def followed_by(self) -> int:
        """How many more messages there were behind this one on the subject that was read."""
        return int(self.headers.get("Nats-Num-Pending", 0))


@dataclass(frozen=True, slots=True)
class StreamState:
    # When the stream was made: another one of the same name counts its messages anew.
    created: str
    # How many messages there are on each of the subjects that were asked for.
    subjects: dict[str, int]
    first_sequence: int = 0
    last_sequence: int = 0
    messages: int = 0
    bytes: int = 0
    # When this was answered, in unix seconds by the clock that also dates messages. An age is told by it: the
    # clock of this machine may be wrong by days.
    server_time: float = 0.0


class StoredPlace(Struct, frozen=True):
    """Where a message is stored, and since when."""

    sequence: int
    subject: str
    stored_ns: int


class _Stored(Struct):
    seq: int
    subject: str = ""
    data: str = ""
    time: str = ""

    @property
    def place(self) -> StoredPlace:
        return StoredPlace(self.seq, self.subject, unix_ns(self.time))


class _StoredReply(Struct):
    message: _Stored | None = None
    error: ApiError | None = None


async def last_sequence(connection: Connection, stream: str, subject: str) -> int:
    """The sequence of the newest message on the subject as the leader knows it; 0 when there is none."""
    stored = await _stored(connection, stream, {"last_by_subj": subject})
    return 0 if stored is None else stored.seq


async def next_sequence(connection: Connection, stream: str, *, after: int) -> int:
    """The sequence of the first message behind this one as the leader knows it; 0 when there is none."""
    stored = await _stored(connection, stream, {"seq": after + 1, "next_by_subj": EVERYTHING})
    return 0 if stored is None else stored.seq


async def place_at(connection: Connection, stream: str, sequence: int) -> StoredPlace | None:
    """The message of this sequence as the leader knows it; None if it was removed."""
    stored = await _stored(connection, stream, {"seq": sequence})
    return None if stored is None else stored.place


async def next_place(connection: Connection, stream: str, *, after: int) -> StoredPlace | None:
    """The first message behind this sequence as the leader knows it."""
    stored = await _stored(connection, stream, {"seq": after + 1, "next_by_subj": EVERYTHING})
    return None if stored is None else stored.place


async def newest_place(connection: Connection, stream: str, subject: str) -> StoredPlace | None:
    """The newest message on the subject as the leader knows it."""
    stored = await _stored(connection, stream, {"last_by_subj": subject})
    return None if stored is None else stored.place


async def message_at(connection: Connection, stream: str, sequence: int) -> StreamMessage | None:
    """The message of this sequence as the leader knows it, without its headers; None if it is gone."""
    stored = await _stored(connection, stream, {"seq": sequence})
    return None if stored is None else StreamMessage(sequence, stored.subject, b64decode(stored.data))


async def next_message(
    connection: Connection, stream: str, subject: str, *, after: int
) -> StreamMessage | None:
    """The first message on the subject behind this sequence as the leader knows it, without its headers."""
    stored = await _stored(connection, stream, {"seq": after + 1, "next_by_subj": subject})
    return None if stored is None else StreamMessage(stored.seq, stored.subject, b64decode(stored.data))


async def newest_message(connection: Connection, stream: str, subject: str) -> StreamMessage | None:
    """The newest message on the subject, as any replica knows it; None when there is none."""
    answer = await connection.request(f"$JS.API.DIRECT.GET.{stream}.{subject}")
    return None if answer.status is not None else _message(answer)


async def stream_state(connection: Connection, stream: str, *, subjects: str = "") -> StreamState:
    """The stream as its leader knows it, with a count of the messages on matching subjects."""
    query = {"subjects_filter": subjects} if subjects else None
    try:
        info = await jetstream_api.call(connection, f"STREAM.INFO.{stream}", query)
    except jetstream_api.ApiRefused as refused:
        # Its leader is away, or the stream itself: it may come back with fewer messages.
        connection.interruptions += 1
        raise connection.unavailable(f"{stream}: {refused}") from refused
    state = info["state"]
    return StreamState(
        info["created"],
        state.get("subjects") or {},
        first_sequence=state.get("first_seq", 0),
        last_sequence=state.get("last_seq", 0),
        messages=state.get("messages", 0),
        bytes=state.get("bytes", 0),
        server_time=unix_time(info["ts"]),
    )


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
    since: str = "",
) -> list[StreamMessage]:
    """The next messages on the subject behind the sequence `after`; none when this is the end.

    With `max_bytes` the batch ends with the message that reaches them. With `since` (RFC 3339) it begins
    with the first one that was stored then or later, in place of `after`.
    """
    query: dict[str, object] = {"next_by_subj": subject, "batch": limit}
    query |= {"start_time": since} if since else {"seq": after + 1}
    if max_bytes:
        query["max_bytes"] = max_bytes
    batch: list[StreamMessage] = []
    async for answer in connection.request_many(f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(query)):
        status = answer.status
        if status in (_END_OF_BATCH, _NOTHING_THERE):
            return batch
        if status is not None:
            raise connection.unavailable(f"{stream}: {status} {answer.headers['Description']}")
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


def unix_time(rfc3339: str) -> float:
    """A time of the server in unix seconds."""
    return datetime.fromisoformat(rfc3339).timestamp()


def unix_ns(rfc3339: str) -> int:
    """A server's time in nanoseconds since 1970; datetime itself knows microseconds only."""
    if not rfc3339:
        return 0
    whole, _, fraction = rfc3339.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 1_000_000_000 + int(fraction.ljust(9, "0"))


def _message(answer: Message) -> StreamMessage:
    # Behind the message's own headers come the server's, and these two of them follow each other.
    found = _PLACE.search(answer.head, max(0, answer.head.rfind(_SERVERS_OWN)))
    if found is None:
        headers = answer.headers
        return StreamMessage(int(headers["Nats-Sequence"]), headers["Nats-Subject"], answer.data, answer)
    return StreamMessage(int(found[2]), found[1].decode(), answer.data, answer)
