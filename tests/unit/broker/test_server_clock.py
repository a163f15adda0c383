"""What a reply says about the server's time, and when this machine's own clock is taken for it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import server_clock
from pyoco_server.broker.jetstream.server_clock import ServerClock

# The time of the server when the monotonic clock of the machine is 0.
SERVER_ZERO = 1_800_000_000.0
# Exact as binary fractions, and together a short reply.
TO_SERVER_SEC, FROM_SERVER_SEC = 1 / 32, 1 / 64


class Machine:
    """In place of the module `time`: its clocks move with `monotonic_time` only."""

    def __init__(self) -> None:
        self.monotonic_time = 1024.0
        # How much its time of day is ahead of the server's.
        self.ahead_sec = 0.0
        # How far the server's clock was set.
        self.server_set_by_sec = 0.0
        # How long the process is stopped before each of the next readings of the time of day.
        self.stops_sec: list[float] = []

    def monotonic(self) -> float:
        return self.monotonic_time

    def time(self) -> float:
        if self.stops_sec:
            self.monotonic_time += self.stops_sec.pop(0)
        return SERVER_ZERO + self.monotonic_time + self.ahead_sec

    @property
    def server_time(self) -> float:
        return SERVER_ZERO + self.monotonic_time + self.server_set_by_sec


class Server:
    """Replies with its time; `while_it_replies` is called between sending and receiving."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.to_server_sec, self.from_server_sec = TO_SERVER_SEC, FROM_SERVER_SEC
        self.while_it_replies: Callable[[], None] = lambda: None
        # How much longer each of the next replies takes until it arrives.
        self.delays_sec: list[float] = []
        self.asked = 0

    async def stream_state(self, connection: object, stream: str) -> Any:
        self.asked += 1
        self._machine.monotonic_time += self.to_server_sec
        at = self._machine.server_time
        self.while_it_replies()
        self._machine.monotonic_time += self.from_server_sec + (self.delays_sec or [0.0]).pop(0)
        return SimpleNamespace(server_time=at)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(server_clock, "time", made)
    return made


@pytest.fixture
def server(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server(machine)
    monkeypatch.setattr(server_clock, "stream_state", made.stream_state)
    return made


@pytest.fixture
def clock(server: Server) -> ServerClock:
    connection = SimpleNamespace(config=SimpleNamespace(runs_kv_bucket="runs"))
    return ServerClock(cast(Connection, connection))


@pytest.mark.parametrize("ahead_sec", [0.0, TO_SERVER_SEC, -FROM_SERVER_SEC, 1 / 128, -1 / 128])
async def test_a_machine_whose_clock_may_be_right_is_exactly_on_time(
    clock: ServerClock, machine: Machine, ahead_sec: float
) -> None:
    machine.ahead_sec = ahead_sec
    assert await clock.measure()
    assert clock.offset_sec == 0.0
    assert clock.now() == machine.time()
    machine.monotonic_time += 7
    assert clock.now() == machine.time()


@pytest.mark.parametrize("ahead_sec", [TO_SERVER_SEC + 0.01, 3600.0, -FROM_SERVER_SEC - 0.01, -3600.0])
async def test_with_a_wrong_clock_nothing_is_due_before_the_time_of_the_server(
    clock: ServerClock, machine: Machine, ahead_sec: float
) -> None:
    machine.ahead_sec = ahead_sec
    assert await clock.measure()
    late_sec = machine.server_time - clock.now()
    assert late_sec == FROM_SERVER_SEC
    assert clock.offset_sec == pytest.approx(-ahead_sec - late_sec)
    assert clock.differs == (abs(ahead_sec) == 3600.0)


async def test_a_reply_that_took_long_is_used_only_if_there_is_no_other(
    clock: ServerClock, machine: Machine, server: Server
) -> None:
    machine.ahead_sec = 3600.0
    server.from_server_sec = 10.0
    assert not await clock.measure()
    assert machine.server_time - clock.now() == 10.0
    server.from_server_sec = FROM_SERVER_SEC
    assert await clock.measure()
    server.from_server_sec = 10.0
    assert not await clock.measure()
    assert machine.server_time - clock.now() == FROM_SERVER_SEC


async def test_a_wrong_clock_is_not_taken_for_right_because_the_replies_are_slow(
    clock: ServerClock, machine: Machine, server: Server
) -> None:
    """It lies within a long reply: a run submitted now would miss the events of the next half second."""
    machine.ahead_sec = 0.5
    server.to_server_sec = 0.75
    assert not await clock.measure()
    assert clock.now() <= machine.server_time
    # It is asked again soon, and less and less often while no reply is short.
    assert await clock.run_due(clock.now()) == clock.now() + 2
    assert await clock.run_due(clock.now()) == clock.now() + 4
    server.to_server_sec = TO_SERVER_SEC
    assert await clock.run_due(clock.now()) == clock.now() + 30
    assert machine.server_time - clock.now() == FROM_SERVER_SEC


async def test_after_a_slow_reply_the_server_is_asked_again(
    clock: ServerClock, machine: Machine, server: Server
) -> None:
    server.delays_sec = [0.25, 0.125]
    assert await clock.measure()
    assert clock.now() == machine.time()
    assert server.asked == 3


async def test_the_server_is_not_asked_for_ever(clock: ServerClock, machine: Machine, server: Server) -> None:
    """Over a slow network, the shortest of a few replies counts."""
    server.delays_sec = [0.25, 0.125, 0.25, 0.25, 0.25]
    assert not await clock.measure()
    assert server.asked == 4
    assert clock.now() == pytest.approx(machine.server_time - 0.125 - FROM_SERVER_SEC)


async def test_a_slow_reply_that_agrees_changes_nothing(
    clock: ServerClock, machine: Machine, server: Server
) -> None:
    assert await clock.measure()
    server.to_server_sec = server.from_server_sec = 0.25
    assert not await clock.measure()
    assert clock.now() == machine.time()


async def test_a_slow_reply_that_disagrees_counts(
    clock: ServerClock, machine: Machine, server: Server
) -> None:
    """The clock of the server was set."""
    assert await clock.measure()
    machine.monotonic_time += 3600
    machine.server_set_by_sec = -3600.0
    server.to_server_sec = server.from_server_sec = 0.25
    assert not await clock.measure()
    assert machine.server_time - clock.now() == 0.25


async def test_the_clock_of_the_machine_counts_as_it_is_after_the_reply(
    clock: ServerClock, machine: Machine, server: Server
) -> None:
    """The time of the server lies between both readings, before and after the clock is set."""

    def step(ahead_sec: float) -> Callable[[], None]:
        return lambda: setattr(machine, "ahead_sec", ahead_sec)

    server.while_it_replies = step(3600.0)
    assert await clock.measure()
    assert machine.server_time - clock.now() == FROM_SERVER_SEC
    assert clock.differs
    server.while_it_replies = step(0.0)
    assert await clock.measure()
    assert clock.offset_sec == 0.0
    assert clock.now() == machine.time()


async def test_setting_the_clock_of_the_machine_makes_nothing_due(
    clock: ServerClock, machine: Machine
) -> None:
    await clock.measure()
    machine.ahead_sec = 3600.0
    assert clock.now() == machine.server_time


async def test_a_stop_of_the_process_between_two_readings_does_not_shift_the_clock(
    clock: ServerClock, machine: Machine
) -> None:
    machine.stops_sec = [0.125, 0.0, 0.125]
    assert await clock.measure()
    assert clock.now() == machine.time()
