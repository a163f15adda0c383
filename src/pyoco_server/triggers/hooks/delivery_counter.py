"""Counts deliveries that are not stored one by one.

The first of a minute is written at once; the count of the others when the minute ends.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyoco_server.broker.stores.triggers.delivery_store import HookInstance
from pyoco_server.records.triggers.hook_models import DeliveryStatus, DeliverySummary

_MINUTE_SEC: Final = 60.0
# Hooks whose refusals, or waiting messages, are being counted.
_MAX_COUNTED: Final = 1000


@dataclass(slots=True)
class _Minute:
    ends_at: float
    # The latest one after the first, with their number.
    rest: DeliverySummary | None = None


class DeliveryCounter:
    """Writes the counts of the minutes that are over when the timekeeper calls it."""

    name = "counted deliveries"

    def __init__(self, write: Callable[[HookInstance, DeliverySummary], None]) -> None:
        self._write = write
        self._wake: Callable[[], None] = lambda: None
        self._minutes: dict[tuple[HookInstance, DeliveryStatus], _Minute] = {}

    def on_counted(self, wake: Callable[[], None]) -> None:
        """Register a callback: called when `run_due` has something to do."""
        self._wake = wake

    def add(self, hook: HookInstance, summary: DeliverySummary) -> None:
        key = hook, summary.status
        minute = self._minutes.get(key)
        if minute is not None and summary.at < minute.ends_at:
            summary.count = 1 if minute.rest is None else minute.rest.count + 1
            minute.rest = summary
            return
        self._end(key)
        if len(self._minutes) >= _MAX_COUNTED:
            self._end(next(iter(self._minutes)))
        self._minutes[key] = _Minute(summary.at + _MINUTE_SEC)
        self._write(hook, summary)
        self._wake()

    async def run_due(self, now: float) -> float | None:
        """Write the numbers of the minutes that are over."""
        for key in [key for key, minute in self._minutes.items() if minute.ends_at <= now]:
            self._end(key)
        return min((minute.ends_at for minute in self._minutes.values()), default=None)

    def end_all(self) -> None:
        for key in list(self._minutes):
            self._end(key)

    def _end(self, key: tuple[HookInstance, DeliveryStatus]) -> None:
        minute = self._minutes.pop(key, None)
        if minute is not None and minute.rest is not None:
            self._write(key[0], minute.rest)
