"""The faults of a schedule: which, and before or after which message.

They are drawn per message rather than per second: most defects are between two writes, which are a
millisecond apart. Writes and acknowledgements are hit four times as often as reads. Some are aimed: at the
next writes of a gateway that a user calls, or of a worker that begins a task.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.simulation.choices import Weights
from tests.simulation.loop import Process
from tests.simulation.network import MessageFault, SimulatedClient

if TYPE_CHECKING:
    from tests.simulation.world import World


class WorldFault(StrEnum):
    """What happens to a process or to the server, when a message is sent."""

    CLOCK_JUMP = "the clock of the process jumps"
    SERVER_RESTART = "the server is restarted"
    POWER_FAILURE = "the server loses its power, and with it its newest messages"
    LAGGING_REPLICA = "a replica lags"


Fault = MessageFault | WorldFault
Mix = Mapping[Fault, float]


class Happened(NamedTuple):
    at: float
    fault: Fault
    # The name of the process whose message was hit.
    process: str


# How likely each fault is, relative to the others.
USUAL: Final[Mix] = {
    MessageFault.CRASH_BEFORE: 4,
    MessageFault.CRASH_AFTER: 4,
    MessageFault.CUT_BEFORE: 2,
    MessageFault.CUT_AFTER: 3,
    MessageFault.LOSE_REPLY: 3,
    MessageFault.LATE: 2,
    MessageFault.LATE_REPLY: 2,
    MessageFault.PAUSE: 2,
    WorldFault.CLOCK_JUMP: 1,
    WorldFault.LAGGING_REPLICA: 2,
    WorldFault.SERVER_RESTART: 1,
}

_WRITE: Final = 4
_READ: Final = 1
# Requests that only ask, as opposed to those that change something.
_READS: Final = (
    "$JS.API.STREAM.INFO",
    "$JS.API.STREAM.MSG.GET",
    "$JS.API.DIRECT",
    "$JS.API.CONSUMER",
    "$JS.API.INFO",
)
# Some are longer than AckWait, or than a worker is waited for.
_RESTART_SEC: Final = (1.0, 0.3, 2.0, 7.0)
_PAUSE_SEC: Final = (2.0, 0.5, 6.0, 10.0)
_JUMP_SEC: Final = (30.0, -30.0, 2.0, -2.0, 3600.0, -3600.0)
_DOWN_SEC: Final = (0.5, 2.0)
_LAG_SEC: Final = (1.0, 3.0)
_LAG: Final = 6
# How late a late message is: in time for its request, or not.
_LATE_SEC: Final = (1.0, 0.2, 2.0)
# Of an aimed fault: among how many writes, and that this is one of so many occasions.
_NEAR: Final = 3
_OCCASIONS: Final = 3


class Faults:
    """At most `most` faults, `mean_gap` writes apart on average; none before `start` and after `stop`."""

    def __init__(self, world: "World", *, most: int = 3, mean_gap: int = 12, mix: Mix = USUAL) -> None:
        self._world = world
        # The first is none: a fault that is left out when a schedule is shortened.
        self._kinds: list[Fault | None] = [None, *mix]
        self._weights = Weights(0.0, *mix.values())
        self._range = 2 * mean_gap * _WRITE
        self._left = most
        self._countdown: int | None = None
        self._is_active = False
        # Processes that a fault is aimed at, and at which of their next writes.
        self._aimed: dict[Process, int] = {}
        self.log: list[Happened] = []

    def start(self) -> None:
        self._world.network.fault_of = self._next
        self._is_active = True
        self._draw_gap()

    def stop(self) -> None:
        self._is_active = False

    def aim(self, process: Process | None) -> None:
        """Perhaps let one of the next writes of this process be hit."""
        if self._is_active and self._left > 0 and process is not None:
            write = self._world.choices.below("aim", _NEAR * _OCCASIONS)
            if 0 < write <= _NEAR:
                self._left -= 1
                self._aimed[process] = write

    def _draw_gap(self) -> None:
        # 0: no more faults.
        gap = self._world.choices.below("gap", self._range) if self._left > 0 else 0
        self._left -= 1
        self._countdown = gap or None

    def _next(self, client: SimulatedClient, subject: str) -> MessageFault | None:
        if not self._is_active or not self._world.is_node(client.process):
            return None
        if not self._is_hit(client.process, subject) and not self._is_over(subject):
            return None
        kind = self._kinds[self._world.choices.weighted("fault", self._weights)]
        if kind is None:
            return None
        self.log.append(Happened(self._world.now, kind, client.process.name))
        if isinstance(kind, MessageFault):
            return kind
        self._happen(kind, client)
        return None

    def _is_hit(self, process: Process, subject: str) -> bool:
        """Whether a fault is aimed at this message."""
        if subject.startswith(_READS):
            return False
        if (left := self._aimed.pop(process, 0)) > 1:
            self._aimed[process] = left - 1
        return left == 1

    def _is_over(self, subject: str) -> bool:
        """Whether the gap after the last fault ends with this message."""
        if self._countdown is None:
            return False
        self._countdown -= _READ if subject.startswith(_READS) else _WRITE
        if self._countdown > 0:
            return False
        self._draw_gap()
        return True

    def _happen(self, kind: WorldFault, client: SimulatedClient) -> None:
        world = self._world
        if kind is WorldFault.CLOCK_JUMP:
            world.jump_clock(world.node_of(client.process), self._one_of("jump", _JUMP_SEC))
        elif kind is WorldFault.LAGGING_REPLICA:
            world.lag_replicas(self._one_of("lag", _LAG_SEC), 1 + world.choices.below("lag", _LAG))
        else:
            lost = 1 + world.choices.below("lost", 3) if kind is WorldFault.POWER_FAILURE else 0
            world.restart_server(self._one_of("down", _DOWN_SEC), lost_messages=lost)

    def restart_sec(self) -> float:
        """How long until a crashed node is started again."""
        return self._one_of("restart", _RESTART_SEC)

    def late_sec(self) -> float:
        return self._one_of("late", _LATE_SEC)

    def pause_sec(self) -> float:
        return self._one_of("pause", _PAUSE_SEC)

    def _one_of(self, kind: str, values: tuple[float, ...]) -> float:
        return values[self._world.choices.below(kind, len(values))]
