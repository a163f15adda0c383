"""The clock of the NATS server: which time it is for everything that is due at a time.

Gateways with wrong clocks agree by it. It is measured before a new connection is used and then regularly,
and runs on by the monotonic clock in between: setting the clock of this machine makes nothing due.

The server's time is known only to within the duration of the request. If that was short and this machine's
clock lies within that range, it is used as it is, so that all processes on a machine agree exactly. Otherwise
the earliest possible time is used, so that nothing is due early, and no run is submitted after an event that
was stored later.
"""

import logging
import time
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from pyoco_server.aio.background import Backoff
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.errors.error_table import Err

log = logging.getLogger(__name__)

# More differs: a warning, and in the health.
TOLERATED_SEC: Final = 2.0
_INTERVAL_SEC: Final = 30.0
# A reply that took longer does not show whether this machine's clock is right: the server is asked again.
_SHORT_REPLY_SEC: Final = 0.05
# How often the server is asked at most in one measurement, until a reply is short.
_REQUESTS: Final = 4
# The pause before the next measurement when no reply was short; it doubles up to the interval.
_RETRY_SEC: Final = 2.0
# A reply that took longer is used only if no time is known.
_LONGEST_REPLY_SEC: Final = 1.0
# This process may be stopped between the readings of two clocks: the closest of these pairs counts.
_READINGS: Final = 5


@dataclass(frozen=True, slots=True)
class _Reply:
    """The server's time when our monotonic clock was 0: not before `earliest`, not after `latest`."""

    earliest: float
    latest: float

    @property
    def took_sec(self) -> float:
        return self.latest - self.earliest

    @property
    def is_short(self) -> bool:
        return self.took_sec <= _SHORT_REPLY_SEC

    def allows(self, monotonic_zero: float) -> bool:
        return self.earliest <= monotonic_zero <= self.latest


class ServerClock:
    """A source of the timekeeper, which measures; `now` is the server's time as far as it is known."""

    name = "clock"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = f"KV_{connection.config.runs_kv_bucket}"
        # The server's time when our monotonic clock was 0.
        self._monotonic_zero: float | None = None
        self._warned = False
        self._backoff = Backoff(_RETRY_SEC, _INTERVAL_SEC)
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
        """For `on_connect` of the connection: nothing is decided by the clock of this machine."""
        await self.measure()

    async def run_due(self, now: float) -> float:
        is_exact = await self.measure()
        self._warn()
        if not is_exact:
            return self.now() + self._backoff.next_sec()
        self._backoff.reset()
        return self.now() + _INTERVAL_SEC

    async def measure(self) -> bool:
        """Whether a reply came soon enough. A longer one counts if it contradicts what is known."""
        reply = await self._shortest_reply()
        machine = _machine_monotonic_zero()
        if reply.is_short and reply.allows(machine):
            self._monotonic_zero = machine
        elif reply.is_short or self._contradicts(reply):
            self._monotonic_zero = reply.earliest
        else:
            return False
        self.offset_sec = self._monotonic_zero - machine
        return reply.is_short

    async def _shortest_reply(self) -> _Reply:
        """The first short one, or the shortest of a few."""
        shortest = await self._ask()
        spent_sec = shortest.took_sec
        for _ in range(_REQUESTS - 1):
            if shortest.is_short or spent_sec > _LONGEST_REPLY_SEC:
                break
            reply = await self._ask()
            spent_sec += reply.took_sec
            shortest = min(shortest, reply, key=attrgetter("took_sec"))
        return shortest

    async def _ask(self) -> _Reply:
        sent_at = time.monotonic()
        server_time = (await stream_state(self._connection, self._stream)).server_time
        return _Reply(earliest=server_time - time.monotonic(), latest=server_time - sent_at)

    def _contradicts(self, reply: _Reply) -> bool:
        """Whether it shows another time than the one that is known."""
        if self._monotonic_zero is None:
            return True
        return reply.took_sec <= _LONGEST_REPLY_SEC and not reply.allows(self._monotonic_zero)

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
