"""Stores the events of a run while it lasts: finished tasks, printed lines, waits that tasks open.

The flow never waits for this. During an outage the events are kept and stored later; before the run ends or
returns to the queue, all of them are flushed. Nothing is stored for a run that has another owner.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress

import msgspec

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_log_store import RunLogs
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.journal_models import JournalEntry, value_digest
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.waits.wait_models import Question
from pyoco_server.runs.lifecycle.ownership import NotOwner

log = logging.getLogger(__name__)

# Lines within this time are sent as one message, which delays them for followers.
_GATHER_SEC = 0.02
_MESSAGE_BYTES = 128 * 1024
# The limit while nothing is stored; later lines are dropped.
_KEPT_BYTES = 4 * 1024 * 1024
_FLUSH_SEC = 5.0
# An entry of at most this size, and half of the limit of NATS, is stored as one message.
_ONE_MESSAGE_BYTES = 256 * 1024
_RETRY_SEC = 0.25
_LOG = "the log of a run"

_encode = msgspec.json.Encoder().encode


class RunRecorder:
    def __init__(
        self,
        connection: Connection,
        journal: Journal,
        logs: RunLogs,
        run_id: str,
        *,
        tag: str,
        ask: Callable[[Question], Awaitable[object]],
        verify_ownership: Callable[[], Awaitable[None]],
    ) -> None:
        self._connection = connection
        self._journal = journal
        self._logs = logs
        self._run_id = run_id
        self._tag = tag
        self._ask = ask
        self._verify_ownership = verify_ownership
        self._storing: set[asyncio.Task[None]] = set()
        # Those that later ones could overtake: entries of one message keep their order by themselves.
        self._overtakable: set[asyncio.Task[None]] = set()
        # Each with its encoded size.
        self._lines: deque[tuple[LogLine, int]] = deque()
        self._bytes = 0
        self._dropped = 0
        self._gather_timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None
        # Kinds of records whose last store has failed, which was logged.
        self._unstored_kinds: set[str] = set()
        # Why the last record is not stored yet.
        self.failure: NatsUnavailable | None = None
        self._stopped = False

    def finished(self, entry: JournalEntry) -> None:
        if not self._stopped:
            storing = self._spawn(self._store(entry, after=set(self._overtakable)))
            if not self._is_one_message(entry):
                self._overtakable.add(storing)

    def _is_one_message(self, entry: JournalEntry) -> bool:
        size = len(entry.output) + len(entry.changes) + len(entry.error or "")
        return size <= min(_ONE_MESSAGE_BYTES, self._connection.max_record_bytes // 2)

    def asked(self, question: Question) -> None:
        if not self._stopped:
            self._spawn(self._open(question, after=self._storing - {self._sending}))

    def printed(self, lines: list[LogLine]) -> None:
        if self._stopped:
            return
        for line in lines:
            if self._bytes > _KEPT_BYTES and self._stores_no_lines:
                self._dropped += 1
            else:
                size = _encoded_size(line)
                self._lines.append((line, size))
                self._bytes += size
        if self._gather_timer is None and (self._sending is None or self._sending.done()):
            self._gather_timer = asyncio.get_running_loop().call_later(_GATHER_SEC, self._send)

    @property
    def _stores_no_lines(self) -> bool:
        """Whether NATS is away, or does not store them."""
        return not self._connection.state.up or _LOG in self._unstored_kinds

    async def flush(self) -> None:
        """Wait until everything is stored, for a limited time."""
        if self._gather_timer is not None:
            self._send()
        if not self._storing:
            return
        _, late = await asyncio.wait(self._storing, timeout=_FLUSH_SEC)
        if late:
            log.warning("a run's journal or log is incomplete", extra={"run_id": self._run_id})

    @property
    def is_flushed(self) -> bool:
        return not self._storing

    async def close(self) -> None:
        """Store nothing more: the run has ended or has another owner."""
        self._stop()
        if self._storing:
            await asyncio.gather(*self._storing, return_exceptions=True)

    def _stop(self) -> None:
        self._stopped = True
        self._lines.clear()
        if self._gather_timer is not None:
            self._gather_timer.cancel()
            self._gather_timer = None
        if self._storing:
            for task in self._storing - {asyncio.current_task()}:
                task.cancel()

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"record:{self._run_id}")
        self._storing.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._storing.discard(task)
        self._overtakable.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a record of a run was lost", exc_info=error, extra={"run_id": self._run_id})

    async def _store(self, entry: JournalEntry, *, after: set[asyncio.Task[None]]) -> None:
        # Otherwise a crash could leave a task in the journal without the one that it depends on.
        if after:
            await asyncio.wait(after)
        try:
            await self._append(entry)
        except PayloadTooLarge as error:
            log.warning(
                "task %s is not in the journal and would be executed again: %s",
                entry.task,
                error.detail,
                extra={"run_id": self._run_id},
            )
            # In its place, since entries after a missing number are ignored.
            with suppress(PayloadTooLarge):
                digest = value_digest(entry.output, entry.changes)
                await self._append(entry.without_value(f"its result is not stored: {error.detail}", digest))

    async def _append(self, entry: JournalEntry) -> None:
        await self._retry(
            "a finished task", lambda: self._journal.append(self._tag, self._run_id, entry), in_order=True
        )

    async def _open(self, question: Question, *, after: set[asyncio.Task[None]]) -> None:
        # A person must not see a question whose inputs the next owner might compute differently.
        if after:
            await asyncio.wait(after)
        # A question that is too large fails the run when nothing else can run.
        with suppress(PayloadTooLarge):
            await self._retry("a question to a person", lambda: self._ask(question))

    def _send(self) -> None:
        if self._gather_timer is not None:
            self._gather_timer.cancel()
            self._gather_timer = None
        self._sending = self._spawn(self._send_lines())

    async def _send_lines(self) -> None:
        while self._lines:
            batch = self._next_batch()
            if self._dropped:
                batch.insert(0, _note(self._dropped, "while NATS did not store them", batch[0]))
                self._dropped = 0
            await self._store_lines(batch)

    def _next_batch(self) -> list[LogLine]:
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
            # Acknowledged, so that the end of a run is never visible before the end of its log.
            await self._retry(_LOG, lambda: self._logs.publish(self._run_id, batch))
        except PayloadTooLarge as error:
            log.warning("lines of a run were dropped: %s", error.detail, extra={"run_id": self._run_id})
            # Not for a note that is too large itself.
            if count := sum(line.stream != "note" for line in batch):
                note = _note(count, f"because NATS takes no message that large ({error.detail})", batch[0])
                self._lines.appendleft((note, _encoded_size(note)))
                self._bytes += self._lines[0][1]

    async def _retry(
        self, what: str, publish: Callable[[], Awaitable[object]], *, in_order: bool = False
    ) -> None:
        """Publish, with retries until NATS accepts it or the run has another owner."""
        while not self._stopped:
            try:
                # Before every attempt: this process may have been paused.
                await self._verify_ownership()
                await publish()
            except NotOwner as why:
                log.info("nothing more is stored for a run: %s", why, extra={"run_id": self._run_id})
                self._stop()
            except PayloadTooLarge:
                raise
            except NatsUnavailable as error:
                self.failure = error
                self._log_unstored(what, error)
                if in_order and (task := asyncio.current_task()):
                    self._overtakable.add(task)
                await asyncio.sleep(_RETRY_SEC)
                await self._connection.wait_ready()
            else:
                self._unstored_kinds.discard(what)
                return

    def _log_unstored(self, what: str, error: NatsUnavailable) -> None:
        if what not in self._unstored_kinds:
            self._unstored_kinds.add(what)
            fields = Err.NATS_UNAVAILABLE.log_fields(run_id=self._run_id)
            log.warning("%s is not stored yet: %s", what, error, extra=fields)


def _encoded_size(line: LogLine) -> int:
    """The size in a message, with its comma."""
    return len(_encode(line)) + 1


def _note(count: int, why: str, before: LogLine) -> LogLine:
    text = f"{count} lines were dropped {why}"
    return LogLine(ts=before.ts, stream="note", text=text, attempt=before.attempt)
