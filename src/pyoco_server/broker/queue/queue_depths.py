"""The depth of the queue of each tag, read with a number of requests that does not depend on the jobs."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.stream_reads import read_batch, unix_time
from pyoco_server.broker.queue.tag_consumers import consumers


@dataclass(slots=True)
class QueueDepth:
    tag: str
    # Jobs not delivered yet.
    waiting: int = 0
    # Jobs delivered and not acknowledged; of these, delivered more than once.
    in_work: int = 0
    redelivered: int = 0
    # The age of the oldest waiting job, by the server's clock.
    oldest_sec: float = 0.0
    # The sequence of the newest job that was ever delivered.
    delivered: int = 0


class QueueDepths:
    """Reads the `PYOCO_WORK` stream and its consumers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = connection.config.work_stream
        self._prefix = f"{connection.config.work_subject_prefix}."

    async def read(self, most: int, among: Collection[str] | None = None) -> list[QueueDepth]:
        """The `most` longest queues of all tags, or of those in `among`, that have jobs or had a worker."""
        try:
            info = await jetstream_api.call(
                self._connection, f"STREAM.INFO.{self._stream}", {"subjects_filter": f"{self._prefix}>"}
            )
            depths = {depth.tag: depth for depth in await self._served()}
        except jetstream_api.ApiRefused as refused:
            raise self._connection.unavailable(f"{self._stream}: {refused}") from refused
        for subject, jobs in (info["state"].get("subjects") or {}).items():
            tag = subject.removeprefix(self._prefix)
            # A tag has no dot: this is a test write (storage/write_probes.py).
            if tag not in depths and "." not in tag:
                # No worker has ever served this tag.
                depths[tag] = QueueDepth(tag, waiting=jobs)
        selected = [depth for depth in depths.values() if among is None or depth.tag in among]
        longest = sorted(selected, key=lambda depth: (-depth.waiting, -depth.in_work, depth.tag))[:most]
        try:
            async with asyncio.TaskGroup() as group:
                for depth in longest:
                    if depth.waiting:
                        group.create_task(self._find_oldest(depth, info["ts"]))
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        return longest

    async def _served(self) -> list[QueueDepth]:
        return [
            QueueDepth(
                tag=str(each["config"].get("filter_subject", "")).removeprefix(self._prefix),
                waiting=each["num_pending"],
                in_work=each["num_ack_pending"],
                redelivered=each["num_redelivered"],
                delivered=each["delivered"]["stream_seq"],
            )
            for each in await consumers(self._connection)
        ]

    async def _find_oldest(self, depth: QueueDepth, now: str) -> None:
        subject = f"{self._prefix}{depth.tag}"
        found = await read_batch(self._connection, self._stream, subject, after=depth.delivered, limit=1)
        if found:
            depth.oldest_sec = max(0.0, unix_time(now) - found[0].stored_at)
