"""The clock of the NATS server: which time it is for everything that is due at a time.

Gateways with wrong clocks agree by it. It is measured before a new connection is used and then regularly,
and runs on by the monotonic clock in between: setting the clock of this machine makes nothing due.

A reply gives the server's time only to within its own duration. If the clock of this machine lies within
that range, it is used as it is, and all processes of a machine agree exactly. Otherwise the earliest possible
time is used, so that nothing is due before its time.
"""

import logging
import time
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.errors.error_table import Err

log = logging.getLogger(__name__)

# More differs: a warning, and in the health.
TOLERATED_SEC: Final = 2.0
_INTERVAL_SEC: Final = 30.0
# A reply that took longer says too little about the time at which it was sent.
_LONGEST_REPLY_SEC: Final = 1.0
_RETRY_SEC: Final = 2.0
# This process may be stopped between the readings of two clocks: the closest of these pairs counts.
_READINGS: Final = 5


class ServerClock:
    """A source of the timekeeper, which measures; `now` is the server's time as far as it is known."""

    name = "clock"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = f"KV_{connection.config.runs_kv_bucket}"
        # The server's time when our monotonic clock was 0.
        self._monotonic_zero: float | None = None
        self._warned = False
        # How much the server's clock is ahead of this machine's; None: not known yet.
        self.offset_sec: float | None = None

    def now(self) -> float:
        if self._monotonic_zero is None:
            return time.time()
        return self._monotonic_zero + time.monotonic()

    @property
    def differs(self) -> bool:
        return self.offset_sec is not None and abs(self.offset_sec) > TOLERATED_SEC

    async def on_connect(self) -> None:
        """A hook of the connection: nothing is decided by the clock of this machine."""
        await self.measure()

    async def run_due(self, now: float) -> float:
        if not await self.measure():
            return now + _RETRY_SEC
        self._warn()
        return self.now() + _INTERVAL_SEC

    async def measure(self) -> bool:
        """Whether the reply came soon enough. The first one counts in any case: no other time is known."""
        sent_at = time.monotonic()
        server_time = (await stream_state(self._connection, self._stream)).server_time
        received_at = time.monotonic()
        if received_at - sent_at > _LONGEST_REPLY_SEC and self._monotonic_zero is not None:
            return False
        earliest, latest = server_time - received_at, server_time - sent_at
        machine = _machine_monotonic_zero()
        self._monotonic_zero = machine if earliest <= machine <= latest else earliest
        self.offset_sec = self._monotonic_zero - machine
        return True

    def _warn(self) -> None:
        offset_sec = self.offset_sec or 0.0
        if self.differs and not self._warned:
            ahead = "ahead of" if offset_sec > 0 else "behind"
            log.warning(
                "the clock of the NATS server is %.1f s %s this machine's: set the clocks by NTP. Starts, "
                "schedules and deadlines follow the server's clock",
                abs(offset_sec),
                ahead,
                extra=Err.CLOCK_DIFFERS.log_fields(),
            )
        self._warned = self.differs


def _machine_monotonic_zero() -> float:
    """The time of this machine when its monotonic clock was 0."""
    readings = ((time.monotonic(), time.time(), time.monotonic()) for _ in range(_READINGS))
    before, machine_time, _ = min(readings, key=lambda reading: reading[2] - reading[0])
    return machine_time - before
