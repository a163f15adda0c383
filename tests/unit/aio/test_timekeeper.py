"""The timekeeper: each source is called when it is due, and one that fails delays no other."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from pyoco_server.aio import timekeeper
from pyoco_server.aio.timekeeper import Timekeeper
from pyoco_server.errors import NatsUnavailable
from tests.support.clocks import Clock
from tests.support.waiting import NEVER_SEC, eventually


@dataclass
class Source:
    """Is due at its times; a call removes those that are due."""

    name: str
    times: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)

    async def run_due(self, now: float) -> float | None:
        self.calls.append(now)
        if self.failures:
            raise self.failures.pop(0)
        self.times = [at for at in self.times if at > now]
        return min(self.times, default=None)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timekeeper, "_LONGEST_PAUSE_SEC", 0.01)
    monkeypatch.setattr(timekeeper, "_FIRST_RETRY_SEC", 0.01)
    monkeypatch.setattr(timekeeper, "_LONGEST_RETRY_SEC", 0.01)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def keeper(clock: Clock) -> AsyncIterator[Timekeeper]:
    async def ready() -> None: ...

    made = Timekeeper(ready, clock)
    yield made
    await made.close()


async def called(source: Source, times: int) -> None:
    await eventually(lambda: len(source.calls) >= times, describe=f"{source.name} is called {times} times")


async def test_a_source_is_called_at_the_start_and_when_it_is_due(keeper: Timekeeper, clock: Clock) -> None:
    source = Source("starts", times=[1005.0])
    keeper.add(source)
    await keeper.start()
    await called(source, 1)
    # Several pauses of the loop pass without a call.
    await asyncio.sleep(0.1)
    assert source.calls == [1000.0]
    # Also when the clock was set.
    clock.now = 1005.0
    await called(source, 2)
    await asyncio.sleep(0.1)
    assert source.calls == [1000.0, 1005.0]


async def test_a_wake_calls_one_source_or_all(keeper: Timekeeper) -> None:
    one, other = Source("one"), Source("other")
    keeper.add(one)
    await keeper.start()
    # Also one that is added later.
    keeper.add(other)
    await called(one, 1)
    await called(other, 1)
    keeper.wake("one")
    await called(one, 2)
    assert len(other.calls) == 1
    keeper.wake()
    await called(one, 3)
    await called(other, 2)


async def test_a_source_that_fails_is_retried_and_stops_no_other(
    keeper: Timekeeper, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Source("failing", failures=[ValueError("first"), NatsUnavailable("a"), NatsUnavailable("b")])
    healthy = Source("healthy", times=[1001.0])
    keeper.add(failing)
    keeper.add(healthy)
    with caplog.at_level(logging.WARNING, timekeeper.__name__):
        await keeper.start()
        await called(healthy, 1)
        clock.now = 1001.0
        await called(healthy, 2)
        await called(failing, 4)
    # An outage is reported once.
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "a" in caplog.records[1].message


async def test_a_source_that_takes_long_delays_no_other(keeper: Timekeeper, clock: Clock) -> None:
    class Hanging(Source):
        async def run_due(self, now: float) -> float | None:
            await super().run_due(now)
            await asyncio.sleep(NEVER_SEC)
            return None

    hanging, healthy = Hanging("hanging"), Source("healthy", times=[1001.0])
    keeper.add(hanging)
    keeper.add(healthy)
    await keeper.start()
    await called(hanging, 1)
    await called(healthy, 1)
    clock.now = 1001.0
    await called(healthy, 2)


async def test_nothing_is_called_before_the_connection_is_ready() -> None:
    connected = asyncio.Event()
    keeper = Timekeeper(connected.wait)
    source = Source("starts")
    keeper.add(source)
    await keeper.start()
    await asyncio.sleep(0.05)
    assert source.calls == []
    connected.set()
    await called(source, 1)
    await keeper.close()
