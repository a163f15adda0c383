"""The active runs of a worker and their keepers, driven by one timer.

Most runs end before their keeper has to do anything. A timer for each would be a large part of the cost of
a short run.
"""

from collections import deque
from typing import Protocol

from pyoco_server.aio.deadlines import DeadlineQueue

# How long a run lasts before its keeper starts to watch it.
_WATCH_AFTER_SEC = 0.1
_REMEMBERED = 64


class Keeper(Protocol):
    @property
    def run_id(self) -> str: ...

    def start_watching(self) -> None:
        """Watch the run from now on; no effect if it is watched already."""

    def wake(self) -> None:
        """Check the run now."""


class ActiveRuns:
    def __init__(self) -> None:
        self._keepers: set[Keeper] = set()
        # A pause of the process must not delay the keepers further.
        self._idle_keepers: DeadlineQueue[Keeper, Keeper] = DeadlineQueue(
            _WATCH_AFTER_SEC, lambda keeper: keeper.start_watching(), postpone_when_late=False
        )
        # Wake-ups for runs that are not active yet: a hint may arrive before the run is claimed.
        self._early_wakeups: deque[str] = deque(maxlen=_REMEMBERED)

    def __len__(self) -> int:
        return len(self._keepers)

    def add(self, keeper: Keeper) -> None:
        self._keepers.add(keeper)
        self._idle_keepers.add(keeper, keeper)
        if self._early_wakeups and keeper.run_id in self._early_wakeups:
            keeper.wake()

    def remove(self, keeper: Keeper) -> None:
        self._keepers.discard(keeper)
        self._idle_keepers.remove(keeper)

    def wake(self, run_id: str) -> None:
        found = [keeper for keeper in self._keepers if keeper.run_id == run_id]
        for keeper in found:
            keeper.wake()
        if not found:
            self._early_wakeups.append(run_id)
