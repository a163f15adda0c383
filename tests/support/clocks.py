"""Clocks that a test sets, to reach time limits without waiting."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from pyoco_server.http_api.gateway import Gateway


class Clock:
    """A clock that only the test moves: as a callable, or in place of the module `time`."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class ShiftedTime:
    """The module `time` with a shifted time of day."""

    def __init__(self) -> None:
        self.by_sec = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return time.time() + self.by_sec


def shifted_time(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> ShiftedTime:
    """Replace `time` in a module that has imported it."""
    clock = ShiftedTime()
    monkeypatch.setattr(module, "time", clock)
    return clock


class ShiftedMonotonic:
    """The module `time` with a monotonic clock that is ahead."""

    def __init__(self) -> None:
        self.ahead_sec = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_sec


def shifted_monotonic(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> ShiftedMonotonic:
    """Replace `time` in modules that have imported it."""
    clock = ShiftedMonotonic()
    for module in modules:
        monkeypatch.setattr(module, "time", clock)
    return clock


@contextmanager
def machine_clock_shifted(by_sec: float) -> Iterator[None]:
    """Meanwhile the time of day of this process, as its machine says it, is shifted."""
    read = time.time
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: read() + by_sec)
        yield


@dataclass
class FakeTimer:
    due: float
    action: Callable[[], object]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeClockLoop:
    """The running loop with a clock and timers of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = 0.0
        self._timers: list[FakeTimer] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def time(self) -> float:
        return self._now

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> FakeTimer:
        return self.call_at(self._now + delay, callback, *args)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> FakeTimer:
        timer = FakeTimer(when, lambda: callback(*args))
        self._timers.append(timer)
        return timer

    def stall(self, seconds: float) -> None:
        """Let time pass as on a machine that is stopped meanwhile: due timers fire afterwards, late."""
        self._now += seconds
        self.advance(0.0)

    def advance(self, seconds: float) -> None:
        """Let time pass; due timers fire in order, at their time."""
        end = self._now + seconds
        while due := [timer for timer in self._timers if timer.due <= end]:
            timer = min(due, key=lambda each: each.due)
            self._timers.remove(timer)
            self._now = max(self._now, timer.due)
            if not timer.is_cancelled:
                timer.action()
        self._now = end


def advance_server_clock(gateway: Gateway, seconds: float) -> None:
    """Let the gateway take the server's clock for that much ahead, from now on; what is due then is done."""
    clock = gateway.clock

    async def measured() -> bool:
        return True

    vars(clock)["measure"] = measured
    clock._monotonic_zero = clock.now() + seconds - time.monotonic()
    gateway.timekeeper.wake()
