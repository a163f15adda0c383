"""Time that goes on when a test says so: for time limits, without waiting for them."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest


class LaterTime:
    """The module `time`, but for the time of day: that is so much later."""

    def __init__(self) -> None:
        self.by_sec = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return time.time() + self.by_sec


def later_time(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> LaterTime:
    """Have a module that has imported `time` go by it."""
    clock = LaterTime()
    monkeypatch.setattr(module, "time", clock)
    return clock


@dataclass
class SetTimer:
    due: float
    action: Callable[[], object]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class SetLoop:
    """The running loop, but for its clock and its timers."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = 0.0
        self._timers: list[SetTimer] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def time(self) -> float:
        return self._now

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> SetTimer:
        return self.call_at(self._now + delay, callback, *args)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> SetTimer:
        timer = SetTimer(when, lambda: callback(*args))
        self._timers.append(timer)
        return timer

    def stand_still(self, seconds: float) -> None:
        """Let time pass as on a machine that does not run meanwhile: what is due happens afterwards, late."""
        self._now += seconds
        self.advance(0.0)

    def advance(self, seconds: float) -> None:
        """Let time pass; what is due meanwhile happens in its order, at its time."""
        end = self._now + seconds
        while due := [timer for timer in self._timers if timer.due <= end]:
            timer = min(due, key=lambda each: each.due)
            self._timers.remove(timer)
            self._now = max(self._now, timer.due)
            if not timer.is_cancelled:
                timer.action()
        self._now = end
