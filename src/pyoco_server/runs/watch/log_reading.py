"""Reading what a run printed: page by page, from any line on, filtered.

A line's id is where it is stored: the sequence of its message, and its index in it. A page that looks for
few lines among many ends after a fair amount of reading, and tells how far it looked.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, Self

from pyoco_server.broker.stores.run_log_store import LogBatch, RunLogs
from pyoco_server.errors import FieldProblem, InvalidRequest, NatsUnavailable, shortened
from pyoco_server.records.models import LogLine
from pyoco_server.runs.index.text_folding import folded

# What one page may read at most, whatever it is looking for.
MOST_BATCHES: Final = 2000
MOST_BYTES: Final = 4 * 1024 * 1024
# What is asked of the server at once.
_BATCHES_AT_ONCE: Final = 200
_BYTES_AT_ONCE: Final = 512 * 1024

_POSITION: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,9})")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the log of a run; places compare in the order of the log."""

    sequence: int
    index: int

    def __str__(self) -> str:
        return f"{self.sequence}-{self.index}"

    @classmethod
    def parse(cls, text: str, *, field: str) -> Self:
        """The place that the id of a line names."""
        found = _POSITION.fullmatch(text)
        if found is None:
            wanted = "wanted the id of a line, such as 12-0"
            raise InvalidRequest(problems=[FieldProblem(field, wanted, value=shortened(text))])
        return cls(int(found[1]), int(found[2]))


START: Final = Position(0, 0)


@dataclass(frozen=True, kw_only=True)
class LogFilter:
    """Which lines are wanted; what is empty wants all of them."""

    tasks: frozenset[str] = frozenset()
    streams: frozenset[str] = frozenset()
    search: str = ""

    @cached_property
    def _needle(self) -> str:
        return folded(self.search)

    def takes(self, line: LogLine) -> bool:
        return (
            (not self.tasks or line.task in self.tasks)
            and (not self.streams or line.stream in self.streams)
            and (not self.search or self._needle in folded(line.text))
        )


class PlacedLine(NamedTuple):
    position: Position
    line: LogLine


@dataclass(frozen=True, slots=True)
class LogPage:
    lines: list[PlacedLine]
    # How far was looked: the next page begins behind it.
    position: Position
    # Whether anything was read at all, wanted or not.
    moved: bool
    # The run has ended, and nothing is left behind this page.
    complete: bool


class LogReader:
    """The log of one run from a place on, each page going on where the one before it ended."""

    def __init__(
        self, logs: RunLogs, run_id: str, *, after: Position = START, wanted: LogFilter | None = None
    ) -> None:
        self._logs = logs
        self._run_id = run_id
        self._wanted = wanted or LogFilter()
        self._position = after
        # Every batch up to this one was looked at to its end; of the next one, perhaps a part.
        self._done = max(after.sequence - 1, 0)
        # When that batch was stored; 0 where it was not read here.
        self._done_ns = 0
        # Batches that were stored before this, or then, were looked at.
        self._skip_to_ns = 0

    async def find_place(self) -> None:
        """Go on by time where the log has lost its newest batches, and uses their sequences for others."""
        if self._done_ns and not await self._logs.holds(self._run_id, self._done, self._done_ns):
            self._skip_to_ns, self._done_ns = self._done_ns, 0
            self._done, self._position = 0, START

    async def page(self, limit: int, *, ended: bool) -> LogPage:
        """The next lines, at most `limit`; `ended`: the run is known to print no more."""
        before, done, done_ns = self._position, self._done, self._done_ns
        try:
            # Only the leader knows all that was printed before the end; a replica may lag behind it.
            last = await self._logs.last_sequence(self._run_id) if ended else None
            lines = await self._read(limit)
        except NatsUnavailable:
            # What was read so far was given to nobody.
            self._position, self._done, self._done_ns = before, done, done_ns
            raise
        complete = last is not None and self._done >= last
        return LogPage(lines, self._position, moved=self._position != before, complete=complete)

    async def _read(self, limit: int) -> list[PlacedLine]:
        lines: list[PlacedLine] = []
        begun_in = self._position.sequence
        batches = size = 0
        while len(lines) < limit and batches < MOST_BATCHES and size < MOST_BYTES:
            read = await self._logs.read(
                self._run_id, after=self._done, limit=_BATCHES_AT_ONCE, max_bytes=_BYTES_AT_ONCE
            )
            if not read:
                break
            for batch in read:
                if batch.sequence > begun_in:  # of the other one, a part was read before: each page moves on
                    batches += 1
                    size += batch.size
                if not self._take(batch, lines, limit):
                    break
        return lines

    def _take(self, batch: LogBatch, lines: list[PlacedLine], limit: int) -> bool:
        """Add what is wanted of the batch; whether all of it could be looked at."""
        was_seen = self._skip_to_ns and batch.stored_ns <= self._skip_to_ns
        if not was_seen and not self._take_lines(batch, lines, limit):
            return False
        self._position = max(self._position, Position(batch.sequence, 0))
        self._done, self._done_ns = batch.sequence, batch.stored_ns
        return True

    def _take_lines(self, batch: LogBatch, lines: list[PlacedLine], limit: int) -> bool:
        for index, line in enumerate(batch.lines):
            position = Position(batch.sequence, index)
            if position <= self._position:
                continue
            if len(lines) == limit:
                return False
            self._position = position
            if self._wanted.takes(line):
                lines.append(PlacedLine(position, line))
        return True
