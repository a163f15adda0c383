"""The history of every run: each write to the runs bucket, kept by the server itself.

The bucket of a scenario is made beforehand, without a limit of one value per key; the product leaves an
existing bucket as it is. So no write is ever missed, however late it is read.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, last_sequence, read_batch, read_to
from pyoco_server.broker.streams_and_buckets import resources
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import TERMINAL, RunStatus
from tests.support.waiting import eventually

T = TypeVar("T")

DELETED = "DELETED"
_DELETIONS = {"DEL", "PURGE"}
# The ids of runs that the fault injector writes, and that cannot be read.
UNREADABLE_RUNS = "00000000-0000-4000-8000-"
_READ_EVERY_SEC = 0.1


class _Snapshot(msgspec.Struct):
    status: str
    flow_name: str
    params: dict[str, object]
    attempt: int = 0
    worker_id: str | None = None
    reason: str | None = None
    error: str | None = None
    cancel_requested_at: float | None = None
    handed_over_at: float | None = None


_decode = msgspec.json.Decoder(_Snapshot).decode


@dataclass(frozen=True, slots=True)
class Write:
    """One write to a run's key."""

    sequence: int
    at: float
    status: str
    attempt: int = 0
    worker: str | None = None
    reason: str | None = None
    error: str | None = None
    cancel_requested: bool = False
    handed_over: bool = False

    @property
    def terminal(self) -> bool:
        return self.status in TERMINAL

    def __str__(self) -> str:
        wish = ", cancel requested" if self.cancel_requested else ""
        wish += ", handed over" if self.handed_over else ""
        why = f" ({self.reason}: {self.error})" if self.reason or self.error else ""
        owner = f" attempt {self.attempt} at {self.worker}" if self.worker else ""
        return f"{self.at:.3f} #{self.sequence} {self.status}{owner}{wish}{why}"


@dataclass(slots=True)
class RunHistory:
    run_id: str
    flow: str = ""
    # Of the submission that it came from.
    number: int = -1
    writes: list[Write] = field(default_factory=list)

    @property
    def last(self) -> Write:
        return self.writes[-1]

    @property
    def end(self) -> Write | None:
        """The first terminal state."""
        return next((write for write in self.writes if write.terminal), None)

    @property
    def deleted(self) -> bool:
        return self.last.status == DELETED

    @property
    def claims(self) -> dict[int, Write]:
        """The first write of each attempt; one that was handed back before it began is not counted."""
        claims: dict[int, Write] = {}
        for write in self.writes:
            if write.status == RunStatus.PENDING:
                claims.pop(write.attempt + 1, None)
            if write.attempt:
                claims.setdefault(write.attempt, write)
        return claims

    def last_sign(self, attempt: int) -> float:
        """When the owner of that attempt wrote last; gateways write cancel requests and handovers."""
        known = cancel_requested = False
        last = 0.0
        for write in self.writes:
            cancel_requested, known = write.cancel_requested and not known, write.cancel_requested
            if write.attempt == attempt and not cancel_requested and not write.handed_over:
                last = write.at
        return last

    def __str__(self) -> str:
        return "\n".join([f"run {self.run_id} ({self.flow})", *(f"    {write}" for write in self.writes)])


async def read_everything(connection: Connection, stream: str, subject: str) -> list[StreamMessage]:
    """All that a stream holds on matching subjects; a replica that lags behind its leader is waited for."""

    async def read() -> list[StreamMessage]:
        last = await last_sequence(connection, stream, subject)
        return [message async for message in read_to(connection, stream, subject, last)]

    return await _when_served(read, f"{stream} can be read")


async def _last_sequence(connection: Connection, stream: str, subject: str) -> int:
    return await _when_served(
        lambda: last_sequence(connection, stream, subject), f"the last message of {stream} is known"
    )


async def _when_served(read: Callable[[], Awaitable[T]], describe: str) -> T:
    """What is read, as soon as NATS can be asked."""

    async def attempt() -> tuple[T] | None:
        try:
            return (await read(),)
        except NatsUnavailable:
            return None

    [answer] = await eventually(attempt, describe=describe)
    return answer


class History:
    """Reads the runs bucket as it is written, or all of it at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        bucket = connection.config.runs_kv_bucket
        self._stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}."
        self._after = 0
        self._grown = asyncio.Condition()
        self.runs: dict[str, RunHistory] = {}
        # Runs that have neither ended nor were deleted.
        self.open: dict[str, RunHistory] = {}

    async def keep_everything(self) -> None:
        """Create the bucket so that it keeps every write."""
        bucket = next(each for each in resources(self._connection.config) if each.name == self._stream)
        await jetstream_api.ensure_stream(self._connection, bucket.evolve(max_msgs_per_subject=-1))

    async def follow(self) -> None:
        """Read on until cancelled; an outage is waited out."""
        while True:
            try:
                while batch := await read_batch(
                    self._connection, self._stream, f"{self._prefix}*", after=self._after
                ):
                    await self._take(batch)
            except NatsUnavailable:
                await self._connection.wait_ready()
            await asyncio.sleep(_READ_EVERY_SEC)

    async def until(self, probe: Callable[[], T | None], *, within: float) -> T | None:
        """The probe's first truthy answer, asked whenever there is something new; None after that time."""
        try:
            async with asyncio.timeout(within), self._grown:
                while not (answer := probe()):
                    await self._grown.wait()
                return answer
        except TimeoutError:
            return None

    async def until_all_ended(self, *, within: float) -> bool:
        """Whether every run that is stored by now has ended in that time.

        That no open run is known says nothing by itself: after an outage who follows may be behind.
        """
        stored = await _last_sequence(self._connection, self._stream, f"{self._prefix}*")
        ended = await self.until(lambda: self._after >= stored and not self.open, within=within)
        return ended is not None

    async def read_all(self) -> None:
        """Everything up to now, as the leader knows it."""
        await self._take(await read_everything(self._connection, self._stream, f"{self._prefix}*"))

    async def _take(self, batch: list[StreamMessage]) -> None:
        for message in batch:
            self._add(message)
            self._after = message.sequence
        async with self._grown:
            self._grown.notify_all()

    def _add(self, message: StreamMessage) -> None:
        run_id = message.subject.removeprefix(self._prefix)
        if run_id.startswith(UNREADABLE_RUNS):
            return
        run = self.runs.setdefault(run_id, RunHistory(run_id))
        at = datetime.fromisoformat(message.timestamp).timestamp()
        if message.headers.get("KV-Operation") in _DELETIONS:
            run.writes.append(Write(message.sequence, at, DELETED))
        else:
            snapshot = _decode(message.data)
            run.flow, number = snapshot.flow_name, snapshot.params["number"]
            assert isinstance(number, int)
            run.number = number
            run.writes.append(
                Write(
                    message.sequence,
                    at,
                    snapshot.status,
                    snapshot.attempt,
                    snapshot.worker_id,
                    snapshot.reason,
                    snapshot.error,
                    snapshot.cancel_requested_at is not None,
                    snapshot.handed_over_at is not None,
                )
            )
        if run.last.terminal or run.deleted:
            self.open.pop(run_id, None)
        else:
            self.open[run_id] = run
