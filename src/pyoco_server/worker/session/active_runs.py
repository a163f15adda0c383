"""The active runs of a worker and their keepers, driven by one timer.

Most runs end before their keeper has to do anything. A timer for each would be a good part of the cost of a
short run.
"""

import asyncio
from collections import deque
from typing import Protocol

# How long a run lasts before its keeper begins.
_BEGIN_AFTER_SEC = 0.1
_REMEMBERED = 64


class Keeper(Protocol):
    @property
    def run_id(self) -> str: ...

    def begin(self) -> None:
        """Watch the run from now on; it may do so already."""

    def wake(self) -> None:
        """Check the run now."""


class ActiveRuns:
    def __init__(self) -> None:
        # When each keeper is due to begin, in the order of these times.
        self._keepers: dict[Keeper, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        # Wake-ups for runs that are not active yet: a hint may arrive before the run is claimed.
        self._early_wakeups: deque[str] = deque(maxlen=_REMEMBERED)

    def __len__(self) -> int:
        return len(self._keepers)

    def add(self, keeper: Keeper) -> None:
        loop = asyncio.get_running_loop()
        due_at = loop.time() + _BEGIN_AFTER_SEC
        self._keepers[keeper] = due_at
        if self._timer is None:
            self._timer = loop.call_at(due_at, self._begin_due)
        if self._early_wakeups and keeper.run_id in self._early_wakeups:
            keeper.wake()

    def remove(self, keeper: Keeper) -> None:
        self._keepers.pop(keeper, None)

    def wake(self, run_id: str) -> None:
        """The snapshot of a run was changed elsewhere."""
        found = [keeper for keeper in self._keepers if keeper.run_id == run_id]
        for keeper in found:
            keeper.wake()
        if not found:
            self._early_wakeups.append(run_id)

    def _begin_due(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        for keeper, due_at in self._keepers.items():
            if due_at > loop.time():
                self._timer = loop.call_at(due_at, self._begin_due)
                return
            keeper.begin()
