"""Reading the log of a run: page by page, from any line on, filtered.

A page with a filter ends after a bounded amount of reading, and says how far it read.
"""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, Self

from pyoco_server.broker.stores.runs.run_log_store import LogBatch, RunLogs
from pyoco_server.errors import FieldProblem, InvalidRequest, NatsUnavailable, shortened
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.runs.index.run_summary import folded

# What one page reads at most, whatever the filter.
MAX_BATCHES: Final = 2000
MAX_BYTES: Final = 4 * 1024 * 1024
# Per request to the server.
_BATCHES_AT_ONCE: Final = 200
_BYTES_AT_ONCE: Final = 512 * 1024

# How many sequences, of all runs, the first step backwards covers. Each further one covers twice as many.
_FIRST_STEP: Final = 32
# The largest index that `parse` takes.
_BEHIND_EVERY_LINE: Final = 10**9 - 1

_POSITION: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,9})")


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """The id of a line: the sequence of its message, and its index in it."""

    sequence: int
    index: int

    def __str__(self) -> str:
        return f"{self.sequence}-{self.index}"

    @property
    def just_before(self) -> "LogPosition":
        """The line with this id is the first after it."""
        if self.index > 0:
            return LogPosition(self.sequence, self.index - 1)
        return LogPosition(self.sequence - 1, _BEHIND_EVERY_LINE) if self.sequence > 1 else START

    @classmethod
    def parse(cls, text: str, *, field: str) -> Self:
        found = _POSITION.fullmatch(text)
        if found is None:
            expected = "expected the id of a line, such as 12-0"
            raise InvalidRequest(problems=[FieldProblem(field, expected, value=shortened(text))])
        return cls(int(found[1]), int(found[2]))


START: Final = LogPosition(0, 0)


@dataclass(frozen=True, kw_only=True)
class LogFilter:
    """Empty fields match every line."""

    tasks: frozenset[str] = frozenset()
    streams: frozenset[str] = frozenset()
    search: str = ""

    @cached_property
    def _needle(self) -> str:
        return folded(self.search)

    def matches(self, line: LogLine) -> bool:
        return (
            (not self.tasks or line.task in self.tasks)
            and (not self.streams or line.stream in self.streams)
            and (not self.search or self._needle in folded(line.text))
        )


class PlacedLine(NamedTuple):
    position: LogPosition
    line: LogLine


@dataclass(frozen=True, slots=True)
class LogPage:
    lines: list[PlacedLine]
    # How far was read: the next page begins after it.
    position: LogPosition
    # Whether anything was read at all, matching or not.
    moved: bool
    # The run has ended, and this is its last page.
    complete: bool


class LogReader:
    """Reads the log of one run page by page, from a position on."""

    def __init__(
        self, logs: RunLogs, run_id: str, *, after: LogPosition = START, line_filter: LogFilter | None = None
    ) -> None:
        self._logs = logs
        self._run_id = run_id
        self._filter = line_filter or LogFilter()
        self._position = after
        # Every batch up to this one was read to its end.
        self._done = max(after.sequence - 1, 0)
        # When that batch was stored; 0 if it was not read here.
        self._done_ns = 0
        # Batches that were stored up to then were read.
        self._skip_to_ns = 0

    async def check_truncated(self) -> None:
        """Continue by time if the stream was truncated and its sequences are used again."""
        if self._done_ns and not await self._logs.has_batch(self._run_id, self._done, self._done_ns):
            self._skip_to_ns, self._done_ns = self._done_ns, 0
            self._done, self._position = 0, START

    async def page(self, limit: int, *, ended: bool) -> LogPage:
        """The next lines, at most `limit`; `ended`: the run prints no more."""
        before, done, done_ns = self._position, self._done, self._done_ns
        try:
            # From the leader: a replica may lag behind.
            last = await self._logs.last_sequence(self._run_id) if ended else None
            lines = await self._read(limit)
        except NatsUnavailable:
            # What was read so far was not returned.
            self._position, self._done, self._done_ns = before, done, done_ns
            raise
        complete = last is not None and self._done >= last
        return LogPage(lines, self._position, moved=self._position != before, complete=complete)

    async def _read(self, limit: int) -> list[PlacedLine]:
        lines: list[PlacedLine] = []
        first = self._position.sequence
        batches = size = 0
        while len(lines) < limit and batches < MAX_BATCHES and size < MAX_BYTES:
            read = await self._logs.read(
                self._run_id, after=self._done, limit=_BATCHES_AT_ONCE, max_bytes=_BYTES_AT_ONCE
            )
            if not read:
                break
            for batch in read:
                # Not the batch that an earlier page read in part: every page must make progress.
                if batch.sequence > first:
                    batches += 1
                    size += batch.size
                if not self._take(batch, lines, limit):
                    break
        return lines

    def _take(self, batch: LogBatch, lines: list[PlacedLine], limit: int) -> bool:
        """Add the matching lines of the batch; whether all of it was read."""
        was_seen = self._skip_to_ns and batch.stored_ns <= self._skip_to_ns
        if not was_seen and not self._take_lines(batch, lines, limit):
            return False
        self._position = max(self._position, LogPosition(batch.sequence, 0))
        self._done, self._done_ns = batch.sequence, batch.stored_ns
        return True

    def _take_lines(self, batch: LogBatch, lines: list[PlacedLine], limit: int) -> bool:
        for index, line in enumerate(batch.lines):
            position = LogPosition(batch.sequence, index)
            if position <= self._position:
                continue
            if len(lines) == limit:
                return False
            self._position = position
            if self._filter.matches(line):
                lines.append(PlacedLine(position, line))
        return True


@dataclass(frozen=True, slots=True)
class EarlierLines:
    lines: list[PlacedLine]
    # The page before ends before this position; None: there is no line before these.
    start: LogPosition | None


async def lines_before(
    logs: RunLogs, run_id: str, before: LogPosition, limit: int, line_filter: LogFilter
) -> EarlierLines:
    """The last lines before a position, in order.

    A stream is read forwards only. So steps backwards, each twice as long as the one after it, are read from
    their beginnings, until there are enough lines or too much was read.
    """
    first = await logs.read(run_id, after=0, limit=1, max_bytes=_BYTES_AT_ONCE)
    if not first or LogPosition(first[0].sequence, 0) >= before or limit == 0:
        return EarlierLines([], before if first and limit == 0 else None)
    lines: list[PlacedLine] = []
    # Steps from far behind the last line would be so long that one of them has the whole log.
    end = min(before.sequence, await logs.last_sequence(run_id))
    step, batches, size = _FIRST_STEP, 0, 0
    while len(lines) < limit and end >= first[0].sequence and batches < MAX_BATCHES and size < MAX_BYTES:
        begin = max(end - step, first[0].sequence - 1)
        read = [batch async for batch in _batches_between(logs, run_id, begin, end)]
        batches, size = batches + len(read), size + sum(batch.size for batch in read)
        lines[:0] = [
            placed
            for placed in _lines_of(read)
            if placed.position < before and line_filter.matches(placed.line)
        ]
        end, step = begin, 2 * step
    if len(lines) > limit:
        return EarlierLines(lines[-limit:], lines[-limit].position)
    return EarlierLines(lines, LogPosition(end + 1, 0) if end >= first[0].sequence else None)


async def _batches_between(logs: RunLogs, run_id: str, after: int, last: int) -> AsyncIterator[LogBatch]:
    while True:
        read = await logs.read(run_id, after=after, limit=_BATCHES_AT_ONCE, max_bytes=_BYTES_AT_ONCE)
        for batch in read:
            if batch.sequence > last:
                return
            yield batch
        if not read or read[-1].sequence >= last:
            return
        after = read[-1].sequence


def _lines_of(batches: list[LogBatch]) -> Iterator[PlacedLine]:
    for batch in batches:
        for index, line in enumerate(batch.lines):
            yield PlacedLine(LogPosition(batch.sequence, index), line)
