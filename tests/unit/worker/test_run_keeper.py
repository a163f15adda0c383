"""How often a run's AckWait is extended, by a clock of the test."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.worker.session import run_keeper as module
from pyoco_server.worker.session.run_keeper import RunKeeper
from tests.support.broker.stored_runs import snapshot

ACK_WAIT_SEC = 4.0


class Delivery:
    def __init__(self, clock: "Clock", failures: int) -> None:
        self._clock = clock
        self._failures = failures
        self.extended_at: list[float] = []

    async def in_progress(self) -> None:
        if self._failures:
            self._failures -= 1
            raise NatsUnavailable("the connection was lost")
        self.extended_at.append(self._clock.now)


class Clock:
    """Each tick of the keeper takes an eighth of a second, until the time is over."""

    def __init__(self, until: float) -> None:
        self.now = 0.0
        self._until = until

    def monotonic(self) -> float:
        return self.now

    async def tick(self) -> None:
        self.now += 0.125
        if self.now > self._until:
            raise asyncio.CancelledError


async def extensions(monkeypatch: pytest.MonkeyPatch, *, failures: int) -> list[float]:
    """When AckWait was extended within nine seconds."""
    clock = Clock(9.0)
    delivery = Delivery(clock, failures)
    config = NatsBackendConfig(consumer_ack_wait_sec=ACK_WAIT_SEC, ack_progress_interval_sec=3.0)
    services: Any = SimpleNamespace(connection=SimpleNamespace(config=config), ack_wait_sec=ACK_WAIT_SEC)
    owned: Any = SimpleNamespace(snapshot=snapshot())
    keeper = RunKeeper(
        services,
        cast(Any, delivery),
        owned,
        cast(Any, None),
        cast(Any, None),
        with_artifacts_and_version=lambda run: run,
    )
    keeper.stop_writing()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(keeper, "_next_tick", clock.tick)
    with pytest.raises(asyncio.CancelledError):
        await keeper._watch()
    return delivery.extended_at


async def test_ack_wait_is_extended_at_half_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await extensions(monkeypatch, failures=0) == [2.0, 4.0, 6.0, 8.0]


async def test_a_failed_extension_is_repeated_within_ack_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await extensions(monkeypatch, failures=2) == [3.0, 5.0, 7.0, 9.0]
