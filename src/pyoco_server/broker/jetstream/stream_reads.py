"""Reading a stream in order without a consumer, in batches of direct reads.

Any replica replies to these, and one that lags has less than was acknowledged. A caller that must not miss
anything first asks the leader how far there is to read (`last_sequence`).
"""

import re
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import ANY_BYTES, Message
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import ApiError

# Every subject of a stream. With a pattern that only happens to match them all, the server counts for each
# batch what is left of each of a million subjects.
EVERYTHING = ">"
# The values of the header `KV-Operation` of a marker, the message that a deleted key leaves.
DELETED: Final = frozenset({"DEL", "PURGE"})

_OPERATION: Final = b"KV-Operation"
_BATCH = 512
# Of messages that are read together: a submit waits for the replies that have arrived before its own.
_TOGETHER_BYTES: Final = 1024 * 1024
_NO_MESSAGE = 10037
_SERVER_HEADERS: Final = b"\r\nNats-Stream: "
_POSITION: Final = re.compile(rb"\r\nNats-Subject: ([^\r\n]+)\r\nNats-Sequence: ([0-9]+)\r\n")
_END_OF_BATCH = "204"
_NOT_FOUND = "404"


class StreamMessage(Struct, frozen=True, gc=False):
    sequence: int
    subject: str
    data: bytes
    # The reply that it came in; None for a message without its headers.
    reply: Message | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.reply is None else self.reply.headers

    @property
    def is_marker(self) -> bool:
        """Whether it says that a key of a bucket was deleted."""
        may_be = self.reply is not None and _OPERATION in self.reply.head
        return may_be and self.headers.get("KV-Operation") in DELETED

    @property
    def timestamp(self) -> str:
        """When it was stored, by the server's clock, RFC 3339."""
        return self.headers.get("Nats-Time-Stamp", "")

    @property
    def stored_at(self) -> float:
        """The same in unix seconds."""
        return unix_time(self.timestamp)

    @property
    def stored_ns(self) -> int:
        """The same in unix nanoseconds: exact enough to distinguish messages."""
        return unix_ns(self.timestamp)

    @property
    def num_pending(self) -> int:
        """How many more messages there were after this one on the subject that was read."""
        return int(self.headers.get("Nats-Num-Pending", 0))


@dataclass(frozen=True, slots=True)
class StreamState:
    # When the stream was created: another one of the same name counts its messages from 1.
    created: str
    # How many messages there are on each of the requested subjects.
    subjects: dict[str, int]
    first_sequence: int = 0
    last_sequence: int = 0
    messages: int = 0
    bytes: int = 0
    # When the server sent this, in unix seconds by the clock that also dates messages. Ages are computed
    # with it: the clock of this machine may be wrong by days.
    server_time: float = 0.0


class MessageInfo(Struct, frozen=True):
    sequence: int
    subject: str
    stored_ns: int


class StoredMessage(Struct):
    """A message as the leader returns it."""

    seq: int
    subject: str = ""
    data: str = ""
    hdrs: str = ""
    time: str = ""

    @property
    def info(self) -> MessageInfo:
        return MessageInfo(self.seq, self.subject, unix_ns(self.time))

    @property
    def is_marker(self) -> bool:
        headers = b64decode(self.hdrs).decode("utf-8", ANY_BYTES)
        return any(f"KV-Operation: {operation}" in headers for operation in DELETED)


class _StoredReply(Struct):
    message: StoredMessage | None = None
    error: ApiError | None = None


_decode_stored = msgspec.json.Decoder(_StoredReply).decode


# As the leader knows it: never older than the last acknowledged write.


async def stored_message(
    connection: Connection, stream: str, query: dict[str, object]
) -> StoredMessage | None:
    reply = await connection.request(f"$JS.API.STREAM.MSG.GET.{stream}", msgspec.json.encode(query))
    stored = _decode_stored(reply.data)
    if stored.error is not None and stored.error.err_code != _NO_MESSAGE:
        raise connection.unavailable(f"{stream}: {stored.error.description}")
    return stored.message


async def last_sequence(connection: Connection, stream: str, subject: str) -> int:
    """The sequence of the newest message on the subject; 0 when there is none."""
    stored = await stored_message(connection, stream, {"last_by_subj": subject})
    return 0 if stored is None else stored.seq


async def require_end(connection: Connection, stream: str, *, after: int) -> None:
    """Raise NatsUnavailable if there is a message after this one, which a replica did not return."""
    if missed := await next_info(connection, stream, after=after):
        raise connection.unavailable(f"{stream}: a replica has not received {missed.sequence} yet")


async def info_at(connection: Connection, stream: str, sequence: int) -> MessageInfo | None:
    """The message of this sequence; None if it was removed."""
    stored = await stored_message(connection, stream, {"seq": sequence})
    return None if stored is None else stored.info


async def next_info(connection: Connection, stream: str, *, after: int) -> MessageInfo | None:
    """The first message after this sequence."""
    stored = await stored_message(connection, stream, {"seq": after + 1, "next_by_subj": EVERYTHING})
    return None if stored is None else stored.info


async def newest_info(connection: Connection, stream: str, subject: str) -> MessageInfo | None:
    """The newest message on the subject."""
    stored = await stored_message(connection, stream, {"last_by_subj": subject})
    return None if stored is None else stored.info


async def message_at(connection: Connection, stream: str, sequence: int) -> StreamMessage | None:
    """The message of this sequence, without its headers; None if it was removed."""
    stored = await stored_message(connection, stream, {"seq": sequence})
    return None if stored is None else StreamMessage(sequence, stored.subject, b64decode(stored.data))


async def newest_from_leader(connection: Connection, stream: str, subject: str) -> StreamMessage | None:
    """The newest message on the subject, without its headers, as the leader knows it."""
    stored = await stored_message(connection, stream, {"last_by_subj": subject})
    return None if stored is None else StreamMessage(stored.seq, stored.subject, b64decode(stored.data))


async def next_message(
    connection: Connection, stream: str, subject: str, *, after: int
) -> StreamMessage | None:
    """The first message on the subject after this sequence, without its headers."""
    stored = await stored_message(connection, stream, {"seq": after + 1, "next_by_subj": subject})
    return None if stored is None else StreamMessage(stored.seq, stored.subject, b64decode(stored.data))


async def stream_state(connection: Connection, stream: str, *, subjects: str = "") -> StreamState:
    """The state of the stream, with a count of the messages on matching subjects."""
    query = {"subjects_filter": subjects} if subjects else None
    try:
        info = await jetstream_api.call(connection, f"STREAM.INFO.{stream}", query)
    except jetstream_api.ApiRefused as refused:
        # There is no leader, or no stream: it may come back with fewer messages.
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


# As any replica knows it.


async def newest_message(connection: Connection, stream: str, subject: str) -> StreamMessage | None:
    """The newest message on the subject, as any replica knows it; None when there is none."""
    reply = await connection.request(f"$JS.API.DIRECT.GET.{stream}.{subject}")
    return None if reply.status is not None else _message(reply)


async def message_after(connection: Connection, stream: str, sequence: int) -> StreamMessage | None:
    """The first message after this sequence; None at the end.

    Unlike a batch, it costs the same at every position. For a batch that begins in the first half of a
    stream, the server counts all subjects of the stream, and nothing can be written until it has.
    """
    query = msgspec.json.encode({"seq": sequence + 1, "next_by_subj": EVERYTHING})
    reply = await connection.request(f"$JS.API.DIRECT.GET.{stream}", query)
    if reply.status not in (None, _NOT_FOUND):
        raise connection.unavailable(f"{stream}: {reply.status} {reply.headers['Description']}")
    return None if reply.status is not None else _message(reply)


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
    """The next messages on the subject after the sequence `after`; none at the end.

    With `max_bytes` the batch ends with the message that reaches them. With `since` (RFC 3339) it begins
    with the first one that was stored then or later, instead of `after`.
    """
    query: dict[str, object] = {"next_by_subj": subject, "batch": limit}
    query |= {"start_time": since} if since else {"seq": after + 1}
    if max_bytes:
        query["max_bytes"] = max_bytes
    return await _batch(connection, stream, query)


async def newest_messages(
    connection: Connection, stream: str, subjects: Sequence[str]
) -> list[StreamMessage]:
    """The newest message on each of these subjects, at least one; a subject without any is left out.

    One request for many keys of a bucket costs both sides a fraction of one for each. Of large messages,
    those after the first megabyte are left out too.
    """
    query: dict[str, object] = {"multi_last": subjects, "batch": len(subjects), "max_bytes": _TOGETHER_BYTES}
    return await _batch(connection, stream, query)


async def _batch(connection: Connection, stream: str, query: dict[str, object]) -> list[StreamMessage]:
    batch: list[StreamMessage] = []
    async for reply in connection.request_many(f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(query)):
        status = reply.status
        if status in (_END_OF_BATCH, _NOT_FOUND):
            return batch
        if status is not None:
            raise connection.unavailable(f"{stream}: {status} {reply.headers['Description']}")
        batch.append(_message(reply))
    return batch


async def read_all(
    connection: Connection, stream: str, subject: str, *, after: int = 0
) -> AsyncIterator[StreamMessage]:
    """Every message on the subject after this sequence."""
    while batch := await read_batch(connection, stream, subject, after=after):
        for message in batch:
            yield message
        if not batch[-1].num_pending:
            return
        after = batch[-1].sequence


async def read_to(
    connection: Connection, stream: str, subject: str, last: int, *, after: int = 0
) -> AsyncIterator[StreamMessage]:
    """Every message on the subject after `after`, up to the sequence `last`."""
    while after < last:
        batch = await read_batch(connection, stream, subject, after=after)
        if not batch:
            raise connection.unavailable(f"{stream}: a replica has not received message {last} yet")
        for message in batch:
            yield message
        after = batch[-1].sequence


def unix_time(rfc3339: str) -> float:
    return datetime.fromisoformat(rfc3339).timestamp()


def unix_ns(rfc3339: str) -> int:
    """Unix nanoseconds; datetime has microseconds only."""
    if not rfc3339:
        return 0
    whole, _, fraction = rfc3339.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 1_000_000_000 + int(fraction.ljust(9, "0"))


def _message(reply: Message) -> StreamMessage:
    # The server's headers come after the message's own, and these two are adjacent.
    found = _POSITION.search(reply.head, max(0, reply.head.rfind(_SERVER_HEADERS)))
    if found is None:
        headers = reply.headers
        return StreamMessage(int(headers["Nats-Sequence"]), headers["Nats-Subject"], reply.data, reply)
    return StreamMessage(int(found[2]), found[1].decode("utf-8", ANY_BYTES), reply.data, reply)
