"""The dead-letter stream: one message for each failed run or unusable job, for diagnosis."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Entry
from pyoco_server.broker.jetstream.publishing import publish_acked, read_back
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import (
    StreamMessage,
    message_at,
    next_message,
    read_batch,
    stream_state,
)
from pyoco_server.errors import NatsUnavailable, UnreadableRecord
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.run_models import encode
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.telemetry.key_redaction import redact_keys_in

# How many sequences a window spans: few at first, for a short page; many where letters are sparse.
_NARROW = 128
_WIDE = 8192
_BATCH = 512
_DIGEST_CHARS = 16
# The reason of a message that is not a dead letter.
UNREADABLE = "unreadable"

_decode = record_decoder(DeadLetter)


@dataclass(frozen=True, slots=True)
class StoredLetter:
    seq: int
    letter: DeadLetter
    # Of its content. A sequence alone does not identify it: a stream that is created again counts from 1.
    digest: str


@dataclass(frozen=True, slots=True)
class LetterWindow:
    """Letters with sequences from `lowest` on, the newest first; there are none below the `last` window."""

    lowest: int
    letters: list[StoredLetter]
    last: bool


class DeadLetters:
    """The `PYOCO_DLQ` stream."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = connection.config.dlq_stream
        self._prefix = connection.config.dlq_subject_prefix
        self._reader = RecordReader(connection, RecordKind.DEAD_LETTER, _decode)

    async def publish(self, letter: DeadLetter, *, tag: str) -> None:
        await publish_acked(self._connection, f"{self._prefix}.{tag}", redact_keys_in(encode(letter)))

    async def get(self, seq: int) -> StoredLetter | None:
        """The letter of this sequence as the leader knows it; None if there is none."""
        message = await message_at(self._connection, self._stream, seq) if seq > 0 else None
        return None if message is None else self._letter(message)

    async def delete(self, seq: int) -> None:
        """Remove one letter, if it exists."""
        await jetstream_api.delete_message(self._connection, self._stream, seq)

    async def remove(self, seq: int) -> None:
        """Remove one letter; NatsUnavailable means that it still exists, or that this is unknown."""
        try:
            await self.delete(seq)
        except NatsUnavailable as failure:
            if await read_back(self.get(seq), failure) is not None:
                raise

    async def newest_first(
        self, *, tag: str | None = None, before: int | None = None
    ) -> AsyncIterator[LetterWindow]:
        """All letters, of one tag or of all, below the sequence `before`, in windows.

        A stream can only be read forwards. So a window of sequences is read, then the one before it; new
        letters are above all of them, and removed ones leave a gap.
        """
        subject = f"{self._prefix}.{tag or '>'}"
        state = await stream_state(self._connection, self._stream)
        highest = state.last_sequence if before is None else min(before - 1, state.last_sequence)
        lowest_of_all = max(1, state.first_sequence)
        width = _NARROW
        while highest >= lowest_of_all:
            lowest = max(lowest_of_all, highest - width + 1)
            letters = [self._letter(each) async for each in self._between(subject, lowest, highest)]
            yield LetterWindow(lowest, letters[::-1], last=lowest == lowest_of_all)
            highest = lowest - 1
            width = min(2 * width, _WIDE if len(letters) < width // 2 else _BATCH)

    async def between(self, lowest: int, highest: int) -> AsyncIterator[StoredLetter]:
        """All letters of these sequences, the oldest first."""
        async for message in self._between(f"{self._prefix}.>", lowest, highest):
            yield self._letter(message)

    async def _between(self, subject: str, lowest: int, highest: int) -> AsyncIterator[StreamMessage]:
        after = lowest - 1
        while after < highest:
            limit = min(_BATCH, highest - after)
            batch = await read_batch(self._connection, self._stream, subject, after=after, limit=limit)
            for message in batch:
                if message.sequence > highest:
                    return
                yield message
                after = message.sequence
            if len(batch) < limit:
                break
        # A replica may lag: the leader has the rest.
        while after < highest:
            last = await next_message(self._connection, self._stream, subject, after=after)
            if last is None or last.sequence > highest:
                return
            yield last
            after = last.sequence

    def _letter(self, message: StreamMessage) -> StoredLetter:
        tag = message.subject.removeprefix(f"{self._prefix}.")
        try:
            # One that was published by an earlier version.
            entry = Entry(redact_keys_in(message.data), message.sequence)
            letter = self._reader.read(str(message.sequence), entry)
        except UnreadableRecord as error:
            stored_at = message.stored_at if message.timestamp else 0.0
            text = f"this is no dead letter: {error.detail}"
            letter = DeadLetter(timestamp=stored_at, reason=UNREADABLE, error=text)
        if letter.tag is None:
            letter.tag = tag
        return StoredLetter(message.sequence, letter, sha256(message.data).hexdigest()[:_DIGEST_CHARS])
