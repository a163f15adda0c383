"""Whether NATS stores what is published, and how much space it has left.

A publish that is not answered, or is refused for lack of space, makes its stream suspect. A suspect stream
gets a test write (write_probes.py) until one is stored; meanwhile other writes to it fail at once, with the
cause. A stream that every submit needs gets one also when nobody has written to it for a while.
"""

import asyncio
import logging
import math
import time
from pathlib import Path
from typing import Final

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.write_state import WriteCause, WriteProblem
from pyoco_server.broker.embedded.data_folder import ENOUGH_BYTES, free_bytes
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.storage.free_space import FreeSpace, free_space, in_units, local_data_folder
from pyoco_server.broker.storage.write_probes import WriteProbe, write_probes
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err

log = logging.getLogger(__name__)

_ROUND_SEC: Final = 5.0
_ROUND_WHILE_FAILING_SEC: Final = 1.0
# A stream that did not grow for this long gets a test write.
_IDLE_SEC: Final = 10.0
_SPACE_SEC: Final = 10.0


class WriteHealth:
    """Keeps `connection.writes` up to date, and logs each change once."""

    def __init__(self, connection: Connection, *, idle_sec: float = _IDLE_SEC) -> None:
        self._connection = connection
        self._idle_sec = idle_sec
        self._probes = {probe.stream: probe for probe in write_probes(connection.config)}
        self._suspects: set[str] = set()
        # By stream; why the server has refused its last write.
        self._refusals: dict[str, str] = {}
        self._failing_since: dict[str, float] = {}
        # By stream: its last sequence, and when it was seen first.
        self._grown: dict[str, tuple[int, float]] = {}
        self._space_read_at = -math.inf
        self._reported_low: set[str] = set()
        self.space: list[FreeSpace] = []
        self._loop = BackgroundLoop("write-health", self._round)
        connection.writes.listen(self._on_failure)
        connection.on_connect(self._on_connected)

    async def start(self) -> None:
        self._loop.start()

    async def close(self) -> None:
        await self._loop.close()

    @property
    def problem(self) -> WriteProblem | None:
        return self._connection.writes.problem

    @property
    def low_space(self) -> list[FreeSpace]:
        """What is about to be full."""
        return [space for space in self.space if space.is_low(self._connection.config)]

    async def _on_connected(self) -> None:
        # A server that was restarted can write again.
        self._loop.wake()

    def _on_failure(self, subject: str, refusal: str) -> None:
        probe = next((each for each in self._probes.values() if subject.startswith(each.prefix)), None)
        if probe is None:
            return
        if refusal:
            self._refusals[probe.stream] = refusal
        if refusal or self._full_folder() is not None:
            # No need to ask: the first caller already gets the cause.
            self._failing_since.setdefault(probe.stream, time.time())
            self._update()
        if probe.stream not in self._suspects:
            self._suspects.add(probe.stream)
            if probe.stream not in self._failing_since:
                self._loop.wake()

    async def _round(self) -> None:
        await self._connection.wait_ready()
        try:
            suspects = self._suspects | set(self._failing_since) | set(await self._idle_streams())
            await asyncio.gather(*(self._check(self._probes[stream]) for stream in suspects))
            self._update()
            await self._read_space()
        except NatsUnavailable as error:
            log.debug("the space of NATS is not known: %s", error)
        failing = bool(self._suspects or self._failing_since)
        await self._loop.pause(_ROUND_WHILE_FAILING_SEC if failing else _ROUND_SEC)

    async def _idle_streams(self) -> list[str]:
        idle = []
        for stream, probe in self._probes.items():
            if not probe.essential:
                continue
            last, now = (await stream_state(self._connection, stream)).last_sequence, time.monotonic()
            seen, since = self._grown.get(stream, (-1, now))
            if last != seen:
                self._grown[stream] = (last, now)
            elif now - since >= self._idle_sec:
                idle.append(stream)
        return idle

    async def _check(self, probe: WriteProbe) -> None:
        """Find out whether the stream can be written to; unknown when the server does not answer at all."""
        self._refusals.pop(probe.stream, None)
        times_connected = self._connection.times_connected
        try:
            await probe.write(self._connection)
        except NatsUnavailable:
            if self._connection.times_connected != times_connected:
                # The write was lost with its connection: that says nothing about the server that answers now.
                return
            if probe.stream not in self._refusals and not await self._has_leader(probe.stream):
                return
            self._failing_since.setdefault(probe.stream, time.time())
        else:
            self._suspects.discard(probe.stream)
            self._failing_since.pop(probe.stream, None)

    async def _has_leader(self, stream: str) -> bool:
        """Whether the stream is served: otherwise its missing answer says nothing about its store."""
        try:
            await stream_state(self._connection, stream)
        except NatsUnavailable:
            return False
        return True

    def _update(self) -> None:
        before = self.problem
        problem = self._connection.writes.problem = self._find_problem()
        if (before and before.cause) == (problem and problem.cause):
            return
        self._space_read_at = -math.inf
        if problem is None:
            log.info("NATS can write again")
        else:
            log.error(
                "%s to %s: %s",
                Err.NATS_CANNOT_WRITE.en,
                ", ".join(problem.streams),
                problem.detail,
                extra=Err.NATS_CANNOT_WRITE.log_fields(),
            )

    def _find_problem(self) -> WriteProblem | None:
        if not self._failing_since:
            return None
        cause, detail = self._cause()
        streams = tuple(sorted(self._failing_since))
        return WriteProblem(
            cause=cause,
            detail=detail,
            since=min(self._failing_since.values()),
            streams=streams,
            subjects=tuple(self._probes[stream].prefix for stream in streams),
        )

    def _cause(self) -> tuple[WriteCause, str]:
        refusals = [why for stream, why in self._refusals.items() if stream in self._failing_since]
        if refusals:
            return WriteCause.LIMIT_REACHED, f"its storage limit is reached ({refusals[0]})"
        folder = local_data_folder(self._connection.config)
        if folder is None:
            return (
                WriteCause.NOT_STORED,
                "its disk is full, or was full and the NATS server has not been restarted since",
            )
        free = in_units(free_bytes(folder))
        if self._full_folder() is not None:
            return WriteCause.DISK_FULL, f"its disk is full ({free} free)"
        return (
            WriteCause.STORE_STOPPED,
            f"its store stopped when a write failed; there is space again ({free} free), "
            "and the embedded server is restarted",
        )

    def _full_folder(self) -> Path | None:
        """The data folder of the embedded server, if its disk is full."""
        folder = local_data_folder(self._connection.config)
        return folder if folder is not None and free_bytes(folder) < ENOUGH_BYTES else None

    async def _read_space(self) -> None:
        now = time.monotonic()
        if now - self._space_read_at < _SPACE_SEC:
            return
        self._space_read_at = now
        self.space = await free_space(self._connection)
        low = {space.of: space for space in self.low_space}
        for name, space in low.items():
            if name not in self._reported_low:
                log.warning("NATS is running out of space: %s", space)
        self._reported_low = set(low)
