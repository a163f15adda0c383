"""Jobs that are stored although their consumer never delivers them again.

NATS records an acknowledgement and then removes the message; if its disk is full in between, the message
stays. Such a job is at or below the ack floor of its tag's consumer, as nothing is that waits for a delivery
or an acknowledgement. A consumer that was created again starts with a floor of 0, and delivers it once more.
A job whose deliveries are exhausted is below the floor, too.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, next_message
from pyoco_server.broker.queue.queued_runs import QueueCount
from pyoco_server.broker.queue.tag_consumers import consumers, problem_with, subjects_of
from pyoco_server.config import NatsBackendConfig


def ack_floors(
    config: NatsBackendConfig, counted: QueueCount, infos: Iterable[Mapping[str, Any]]
) -> dict[str, int]:
    """The ack floor of each subject that may have messages at or below it."""
    floors: dict[str, int] = {}
    for info in infos:
        if problem_with(config, info):
            continue
        [subject] = subjects_of(info)
        floor = int(info["ack_floor"]["stream_seq"])
        if not info["num_ack_pending"]:
            # After a power failure the floor may be behind what was delivered and acknowledged.
            floor = max(floor, int(info["delivered"]["stream_seq"]))
        if counted.by_subject.get(subject) and floor >= counted.first_sequence:
            floors[subject] = floor
    return floors


class AckedJobs:
    """Reads the `PYOCO_WORK` stream and its consumers, as their leaders know them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # The sequences that the last call found.
        self._found: set[int] = set()

    async def found_twice(self, counted: QueueCount) -> AsyncIterator[StreamMessage]:
        """Those that the last call has found already: NATS may be about to remove the others.

        Without any, it is one request for each tag that has jobs and a consumer that is ahead of the oldest
        job of all tags.
        """
        before, self._found = self._found, set()
        config = self._connection.config
        infos = await consumers(self._connection) if counted.by_subject else []
        for subject, floor in ack_floors(config, counted, infos).items():
            after = counted.first_sequence - 1
            while message := await next_message(self._connection, config.work_stream, subject, after=after):
                after = message.sequence
                if after > floor:
                    break
                self._found.add(after)
                if after in before:
                    yield message
