"""What a run leaves behind while it lasts: finished tasks go to its journal, printed lines to its log.

The flow never waits for either. What NATS does not take now is kept and sent when it is back; before the
run ends, or goes back to the queue, all of it is waited for.
"""

import asyncio
import logging
from collections.abc import Coroutine

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.journal import Journal
from pyoco_server.broker.run_logs import RunLogs
from pyoco_server.errors import Err, NatsUnavailable
from pyoco_server.models import JournalEntry, LogLine

log = logging.getLogger(__name__)

# Lines of this time go out as one message; a follower sees them that much later.
_GATHER_SEC = 0.02
_MESSAGE_CHARS = 128 * 1024
# What is kept while NATS is away; later lines are dropped.
_KEPT_CHARS = 1024 * 1024
_SETTLE_SEC = 5.0
_RETRY_SEC = 0.25


class RunRecorder:
    """The events of one run, stored in the background by tasks that this recorder owns."""

    def __init__(self, connection: Connection, journal: Journal, logs: RunLogs, run_id: str) -> None:
        self._connection = connection
        self._journal = journal
        self._logs = logs
        self._run_id = run_id
        self._storing: set[asyncio.Task[None]] = set()
        self._lines: list[LogLine] = []
        self._chars = 0
        self._dropped = 0
        self._gathering: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None

    def finished(self, entry: JournalEntry) -> None:
        self._own(self._store(entry))

    def printed(self, lines: list[LogLine]) -> None:
        for line in lines:
            if self._chars > _KEPT_CHARS and not self._connection.state.up:
                self._dropped += 1
            else:
                self._lines.append(line)
                self._chars += len(line.text)
        if self._gathering is None and (self._sending is None or self._sending.done()):
            self._gathering = asyncio.get_running_loop().call_later(_GATHER_SEC, self._send)

    async def settle(self) -> None:
        """Wait until all of it is stored, but not for ever."""
        if self._gathering is not None:
            self._send()
        if not self._storing:
            return
        _, late = await asyncio.wait(self._storing, timeout=_SETTLE_SEC)
        if late:
            log.warning("a run's journal or log is incomplete", extra={"run_id": self._run_id})

    async def close(self) -> None:
        """Nothing more is stored: the run is not ours any more, or over."""
        if self._gathering is not None:
            self._gathering.cancel()
        tasks = list(self._storing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _own(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"record:{self._run_id}")
        self._storing.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._storing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a record of a run was lost", exc_info=error, extra={"run_id": self._run_id})

    async def _store(self, entry: JournalEntry) -> None:
        while True:
            try:
                await self._journal.append(self._run_id, entry)
            except NatsUnavailable as error:
                log.warning(
                    "a finished task is not stored yet: %s",
                    error,
                    extra=Err.NATS_UNAVAILABLE.log_fields(run_id=self._run_id),
                )
                await asyncio.sleep(_RETRY_SEC)
                await self._connection.wait_ready()
            else:
                return

    def _send(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._sending = self._own(self._send_lines())

    async def _send_lines(self) -> None:
        while self._lines:
            batch, self._lines = _cut(self._lines)
            self._chars = sum(len(line.text) for line in self._lines)
            if self._dropped:
                batch.insert(0, _note(self._dropped, batch[0]))
                self._dropped = 0
            await self._store_lines(batch)

    async def _store_lines(self, batch: list[LogLine]) -> None:
        while True:
            try:
                # Acknowledged, so that nobody sees the end of a run before the end of its log.
                await self._logs.publish(self._run_id, batch)
            except NatsUnavailable as error:
                log.debug("lines are kept until NATS takes them: %s", error)
                await asyncio.sleep(_RETRY_SEC)
                await self._connection.wait_ready()
            else:
                return


def _cut(lines: list[LogLine]) -> tuple[list[LogLine], list[LogLine]]:
    """As many lines as fit into one message, and the others."""
    size = 0
    for index, line in enumerate(lines):
        size += len(line.text)
        if size > _MESSAGE_CHARS and index:
            return lines[:index], lines[index:]
    return lines, []


def _note(count: int, before: LogLine) -> LogLine:
    text = f"{count} lines were dropped while NATS was away"
    return LogLine(ts=before.ts, stream="note", text=text, attempt=before.attempt)
