"""Which runs have a job in the queue, known by reading the queue from where the last read ended.

All jobs of a tag share its subject, so the job of one run cannot be requested. A message that was read
counts as queued until its run has ended, or until the queue of a tag has fewer messages than were read from
it: then some were removed, and everything is read again. A job belongs to one generation of its run: the
question is whether a run has a job of its present one.

After an interruption the queue may be truncated, and use the sequences of lost messages for others. So the
newest job is searched that is still stored with the same time: everything before it is of the same history.
The jobs that were read after it are forgotten, and the queue is read again from there.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyoco_server.aio.loop_batches import yielding_batches
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import (
    EVERYTHING,
    MessageInfo,
    StreamMessage,
    info_at,
    read_batch,
    stream_state,
    unix_ns,
)
from pyoco_server.broker.queue.work_queue import head_of

_BATCH_BYTES: Final = 4 * 1024 * 1024
# Few at a time: a submit waits for the replies that have arrived before its own.
_BATCH_MESSAGES: Final = 128
# How many of the newest jobs are compared at a time and in all; reading is quicker beyond that.
_CONCURRENT_REQUESTS: Final = 32
_MOST_COMPARED: Final = 1024


@dataclass(frozen=True, slots=True)
class QueueCount:
    """How many messages the queue had."""

    created: str
    by_subject: dict[str, int]
    # Of the oldest message.
    first_sequence: int


class _QueuedJob(NamedTuple):
    """What is held of a job. Many runs share one: a hundred thousand may be queued."""

    generation: int
    subject: str
    # False for one that this gateway published and has not read yet.
    is_read: bool


class _Position(NamedTuple):
    """Where a job was read."""

    sequence: int
    # When it was stored, by the server's clock.
    timestamp: str


_NOT_READ: Final = _Position(0, "")


class QueuedRuns:
    def __init__(self, connection: Connection, *, shared_id: Callable[[str], str] = str) -> None:
        """`shared_id` returns the string of a run id that others hold too: there may be very many."""
        self._connection = connection
        self._shared_id = shared_id
        config = connection.config
        self._stream = config.work_stream
        self._prefix = f"{config.work_subject_prefix}."
        self._after = 0
        self._created = ""
        # The connection's count of interruptions when the history was last compared.
        self._interruptions = 0
        # The newest job of each run.
        self._jobs: dict[str, _QueuedJob] = {}
        self._shared: dict[_QueuedJob, _QueuedJob] = {}
        # Of the newest jobs, in the order in which they were read.
        self._newest: dict[str, _Position] = {}
        self._count_by_subject: Counter[str] = Counter()

    def is_queued(self, run_id: str, *, min_generation: int) -> bool:
        """Whether there is a job of this generation, or a newer one, which its snapshot is about to show."""
        job = self._jobs.get(run_id)
        return job is not None and job.generation >= min_generation

    async def count(self) -> QueueCount:
        """Call it before reading which runs have ended: a run that has not ended had its job at that time."""
        state = await stream_state(self._connection, self._stream, subjects=f"{self._prefix}>")
        return QueueCount(state.created, state.subjects, state.first_sequence)

    async def compare(self, counted: QueueCount) -> None:
        """Forget everything when messages are missing, and what was read from a truncated queue."""
        missing = any(
            counted.by_subject.get(subject, 0) < known for subject, known in self._count_by_subject.items()
        )
        if missing or self._created != counted.created:
            self._created = counted.created
            self._forget_all()
        await self._compare_history()

    async def read(self) -> AsyncIterator[None]:
        """Read what was published since the last call; yields after each batch."""
        while batch := await self._next_batch():
            async for part in yielding_batches(batch):
                for message in part:
                    if not message.subject.startswith(self._prefix):
                        continue
                    head = head_of(message.data)
                    job = _QueuedJob(head.generation, message.subject, is_read=True)
                    self._add(head.run_id, job, _Position(message.sequence, message.timestamp))
            self._after = batch[-1].sequence
            yield
            await self._connection.urgent.give_way()

    def add(self, run_id: str, subject: str, *, generation: int) -> None:
        """A job was published for the run."""
        self._add(run_id, _QueuedJob(generation, subject, is_read=False), _NOT_READ)

    def forget(self, run_id: str) -> None:
        """The run has ended, and its job leaves the queue."""
        job = self._jobs.pop(run_id, None)
        self._newest.pop(run_id, None)
        if job is not None:
            self._count_by_subject[job.subject] -= 1

    def forget_before(self, run_id: str, generation: int) -> None:
        """The run waits in this generation: the job of an earlier one has left the queue."""
        if not self.is_queued(run_id, min_generation=generation):
            self.forget(run_id)

    def _add(self, run_id: str, job: _QueuedJob, position: _Position) -> None:
        known = self._jobs.get(run_id)
        if not run_id or (known is not None and not _replaces(job, known)):
            return
        # A job of an earlier generation has left the queue: its run was parked since.
        self.forget(run_id)
        run_id = self._shared_id(run_id)
        self._jobs[run_id] = self._shared.setdefault(job, job)
        self._count_by_subject[job.subject] += 1
        self._newest[run_id] = position
        if len(self._newest) > _MOST_COMPARED:
            del self._newest[next(iter(self._newest))]

    def _forget_all(self) -> None:
        self._after = 0
        self._jobs.clear()
        self._shared.clear()
        self._newest.clear()
        self._count_by_subject.clear()

    async def _next_batch(self) -> list[StreamMessage]:
        while True:
            await self._compare_history()
            batch = await read_batch(
                self._connection,
                self._stream,
                # With the pattern of its subjects, the server would visit thousands of jobs for each batch,
                # and nobody could publish meanwhile.
                EVERYTHING,
                after=self._after,
                limit=_BATCH_MESSAGES,
                max_bytes=_BATCH_BYTES,
            )
            if self._interruptions == self._connection.interruptions:
                return batch
            # The batch may be of another history than what was compared.

    async def _compare_history(self) -> None:
        """After an interruption, go back to the newest job that is still stored where it was read."""
        interruptions = self._connection.interruptions
        if interruptions == self._interruptions:
            return
        newest = list(reversed(self._newest.items()))
        for start in range(0, len(newest), _CONCURRENT_REQUESTS):
            if await self._go_back_to_one_of(newest[start : start + _CONCURRENT_REQUESTS]):
                break
        else:
            self._forget_all()
        self._interruptions = interruptions

    async def _go_back_to_one_of(self, jobs: list[tuple[str, _Position]]) -> bool:
        infos = await asyncio.gather(*(self._stored(position) for _, position in jobs))
        for (run_id, position), info in zip(jobs, infos, strict=True):
            if info is not None and info.stored_ns == unix_ns(position.timestamp):
                self._after = position.sequence
                return True
            # The run may have another job by now.
            if self._newest.get(run_id) is position:
                self.forget(run_id)
        return False

    async def _stored(self, position: _Position) -> MessageInfo | None:
        return await info_at(self._connection, self._stream, position.sequence) if position.sequence else None


def _replaces(job: _QueuedJob, known: _QueuedJob) -> bool:
    """Whether it is newer, or was only published before and is read now."""
    if job.generation != known.generation:
        return job.generation > known.generation
    return job.is_read and not known.is_read
