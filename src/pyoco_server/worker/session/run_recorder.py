"""What a run leaves behind while it lasts: finished tasks, printed lines, questions to people.

The flow never waits for either. What NATS does not take now is kept and sent when it is back; before the
run ends, or goes back to the queue, all of it is waited for. A run that is not ours any more gets nothing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress

import msgspec

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.broker.stores.run_log_store import RunLogs
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.models import JournalEntry, LogLine, value_digest
from pyoco_server.records.wait_models import Question
from pyoco_server.runs.lifecycle.ownership import NotOwner

log = logging.getLogger(__name__)

# Lines of this time go out as one message; a follower sees them that much later.
_GATHER_SEC = 0.02
_MESSAGE_BYTES = 128 * 1024
# What is kept while NATS is away; later lines are dropped.
_KEPT_BYTES = 4 * 1024 * 1024
_SETTLE_SEC = 5.0
# The journal surely stores as one message what is not larger, nor half of what NATS takes.
_ONE_MESSAGE_BYTES = 256 * 1024
_RETRY_SEC = 0.25

_encode = msgspec.json.Encoder().encode


class RunRecorder:
    """The events of one run, stored in the background by tasks that this recorder owns."""

    def __init__(
        self,
        connection: Connection,
        journal: Journal,
        logs: RunLogs,
        run_id: str,
        *,
        ask: Callable[[Question], Awaitable[object]],
        assure_ownership: Callable[[], Awaitable[None]],
    ) -> None:
        self._connection = connection
        self._journal = journal
        self._logs = logs
        self._run_id = run_id
        self._ask = ask
        self._assure_ownership = assure_ownership
        self._storing: set[asyncio.Task[None]] = set()
        # Those of them that others could overtake: what is sent as one message keeps its place by itself.
        self._slow: set[asyncio.Task[None]] = set()
        # Each with the bytes it takes in a message.
        self._lines: deque[tuple[LogLine, int]] = deque()
        self._bytes = 0
        self._dropped = 0
        self._gathering: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None
        # What NATS did not take when it was tried last, and was complained about.
        self._refused: set[str] = set()
        self._stopped = False

    def finished(self, entry: JournalEntry) -> None:
        if not self._stopped:
            storing = self._own(self._store(entry, behind=set(self._slow)))
            if not self._is_one_message(entry):
                self._slow.add(storing)

    def _is_one_message(self, entry: JournalEntry) -> bool:
        size = len(entry.output) + len(entry.changes) + len(entry.error or "")
        return size <= min(_ONE_MESSAGE_BYTES, self._connection.max_record_bytes // 2)

    def asked(self, question: Question) -> None:
        if not self._stopped:
            self._own(self._open(question, behind=self._storing - {self._sending}))

    def printed(self, lines: list[LogLine]) -> None:
        if self._stopped:
            return
        for line in lines:
            if self._bytes > _KEPT_BYTES and not self._connection.state.up:
                self._dropped += 1
            else:
                size = _size(line)
                self._lines.append((line, size))
                self._bytes += size
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

    @property
    def is_settled(self) -> bool:
        """Whether all of it is stored."""
        return not self._storing

    async def close(self) -> None:
        """Nothing more is stored: the run is not ours any more, or over."""
        self._stop()
        if self._storing:
            await asyncio.gather(*self._storing, return_exceptions=True)

    def _stop(self) -> None:
        self._stopped = True
        self._lines.clear()
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if self._storing:
            for task in self._storing - {asyncio.current_task()}:
                task.cancel()

    def _own(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"record:{self._run_id}")
        self._storing.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._storing.discard(task)
        self._slow.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a record of a run was lost", exc_info=error, extra={"run_id": self._run_id})

    async def _store(self, entry: JournalEntry, *, behind: set[asyncio.Task[None]]) -> None:
        # Else a crash could leave a task in the journal without the one whose result it was given.
        if behind:
            await asyncio.wait(behind)
        try:
            await self._append(entry)
        except PayloadTooLarge as error:
            log.warning(
                "task %s is not in the journal and would be executed again: %s",
                entry.task,
                error.detail,
                extra={"run_id": self._run_id},
            )
            # In its place, since nothing behind a missing number counts.
            with suppress(PayloadTooLarge):
                digest = value_digest(entry.output, entry.changes)
                await self._append(entry.without_value(f"its result is not stored: {error.detail}", digest))

    async def _append(self, entry: JournalEntry) -> None:
        await self._insist(
            "a finished task", lambda: self._journal.append(self._run_id, entry), in_order=True
        )

    async def _open(self, question: Question, *, behind: set[asyncio.Task[None]]) -> None:
        # A person must not be shown what the next owner of the run would make anew, and perhaps otherwise.
        if behind:
            await asyncio.wait(behind)
        # One that is too large for a message ends the run when nothing else of it can run.
        with suppress(PayloadTooLarge):
            await self._insist("a question to a person", lambda: self._ask(question))

    def _send(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._sending = self._own(self._send_lines())

    async def _send_lines(self) -> None:
        while self._lines:
            batch = self._next_batch()
            if self._dropped:
                batch.insert(0, _note(self._dropped, "while NATS was away", batch[0]))
                self._dropped = 0
            await self._store_lines(batch)

    def _next_batch(self) -> list[LogLine]:
        """As many lines as fit well into one message."""
        room = min(_MESSAGE_BYTES, self._connection.max_record_bytes // 2)
        batch: list[LogLine] = []
        while self._lines and (not batch or self._lines[0][1] <= room):
            line, size = self._lines.popleft()
            batch.append(line)
            room -= size
            self._bytes -= size
        return batch

    async def _store_lines(self, batch: list[LogLine]) -> None:
        try:
            # Acknowledged, so that nobody sees the end of a run before the end of its log.
            await self._insist("the log of a run", lambda: self._logs.publish(self._run_id, batch))
        except PayloadTooLarge as error:
            log.warning("lines of a run were dropped: %s", error.detail, extra={"run_id": self._run_id})
            # A note that is too large as well is not told of again.
            if count := sum(line.stream != "note" for line in batch):
                note = _note(count, f"because NATS takes no message that large ({error.detail})", batch[0])
                self._lines.appendleft((note, _size(note)))
                self._bytes += self._lines[0][1]

    async def _insist(
        self, what: str, publish: Callable[[], Awaitable[object]], *, in_order: bool = False
    ) -> None:
        """Publish, and again until NATS takes it or the run is not ours any more."""
        while not self._stopped:
            try:
                # Before every attempt: much time may have passed, also for a program that was halted.
                await self._assure_ownership()
                await publish()
            except NotOwner as why:
                log.info("nothing more is stored of a run: %s", why, extra={"run_id": self._run_id})
                self._stop()
            except PayloadTooLarge:
                # It never will take it.
                raise
            except NatsUnavailable as error:
                self._complain(what, error)
                if in_order and (task := asyncio.current_task()):
                    self._slow.add(task)
                await asyncio.sleep(_RETRY_SEC)
                await self._connection.wait_ready()
            else:
                self._refused.discard(what)
                return

    def _complain(self, what: str, error: NatsUnavailable) -> None:
        if what not in self._refused:
            self._refused.add(what)
            fields = Err.NATS_UNAVAILABLE.log_fields(run_id=self._run_id)
            log.warning("%s is not stored yet: %s", what, error, extra=fields)


def _size(line: LogLine) -> int:
    """What the line takes in a message, with the comma behind it."""
    return len(_encode(line)) + 1


def _note(count: int, why: str, before: LogLine) -> LogLine:
    text = f"{count} lines were dropped {why}"
    return LogLine(ts=before.ts, stream="note", text=text, attempt=before.attempt)
