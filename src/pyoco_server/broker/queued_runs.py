"""Which runs have a job in the queue, found out by reading each message of the queue once.

Jobs share the subject of their tag, so that nobody can be asked for the job of one run. A message that was
seen is believed to be there until its run has ended, or until the queue of a tag holds fewer messages than
were seen in it: then somebody has removed some, and all is read again. It is read again after an interruption
as well: the queue may have lost its newest jobs, and got as many others. A job is of one generation of its
run: what is asked is whether a run has one that it can go on with.
"""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.stream_reads import read_batch, stream_state
from pyoco_server.broker.work_queue import head_of

_BATCH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class QueueCount:
    """How many messages the queue held at a moment."""

    created: str
    by_subject: dict[str, int]
    # The connection's count of interruptions before.
    interruptions: int = 0


@dataclass(frozen=True, slots=True)
class _QueuedJob:
    generation: int
    subject: str


class QueuedRuns:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        config = connection.config
        self._stream = config.work_stream
        self._all = f"{config.work_subject_prefix}.>"
        self._after = 0
        self._created = ""
        self._interruptions = 0
        # Of each run the newest job that was seen.
        self._jobs: dict[str, _QueuedJob] = {}
        self._seen_by_subject: Counter[str] = Counter()

    def has_job(self, run_id: str, generation: int) -> bool:
        """Whether a job of this generation was seen, or a newer one, which its snapshot is about to show."""
        job = self._jobs.get(run_id)
        return job is not None and job.generation >= generation

    async def count(self) -> QueueCount:
        """To be taken before it is learnt which runs have ended: a run that has not had its job then."""
        interruptions = self._connection.interruptions
        state = await stream_state(self._connection, self._stream, subjects=self._all)
        return QueueCount(state.created, state.subjects, interruptions)

    def compare(self, counted: QueueCount) -> None:
        """Forget everything when messages are missing or may be others, or when this is another stream."""
        missing = any(
            counted.by_subject.get(subject, 0) < seen for subject, seen in self._seen_by_subject.items()
        )
        known = (self._created, self._interruptions)
        if missing or known != (counted.created, counted.interruptions):
            self._created, self._interruptions = counted.created, counted.interruptions
            self._after = 0
            self._jobs.clear()
            self._seen_by_subject.clear()

    async def look(self) -> AsyncIterator[None]:
        """Read what has been published since the last look; yields after each batch."""
        while batch := await read_batch(
            self._connection, self._stream, self._all, after=self._after, max_bytes=_BATCH_BYTES
        ):
            for message in batch:
                head = head_of(message.data)
                self.add(head.run_id, message.subject, generation=head.generation)
            self._after = batch[-1].sequence
            yield

    def add(self, run_id: str, subject: str, *, generation: int) -> None:
        if not run_id or self.has_job(run_id, generation):
            return
        # The job of the generation before has left the queue: its run has waited for people since.
        self.forget(run_id)
        self._jobs[run_id] = _QueuedJob(generation, subject)
        self._seen_by_subject[subject] += 1

    def forget(self, run_id: str) -> None:
        """The run has ended, and its job leaves the queue."""
        job = self._jobs.pop(run_id, None)
        if job is not None:
            self._seen_by_subject[job.subject] -= 1

    def forget_before(self, run_id: str, generation: int) -> None:
        """The run waits in this generation: the job of an earlier one has left the queue."""
        if not self.has_job(run_id, generation):
            self.forget(run_id)
