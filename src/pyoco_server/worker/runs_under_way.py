"""The runs under way at a worker, each with its keeper: whom to wake, and whom to have begin.

Most runs are over before anybody needs to look after them. One timer for all of them is therefore enough: to
make and to cancel one for each would be a good part of what a short run costs.
"""

import asyncio
from typing import Protocol

# How long a run lasts before it is looked after.
_FIRST_LOOK_SEC = 0.1


class Keeper(Protocol):
    @property
    def run_id(self) -> str: ...

    def begin(self) -> None:
        """Look after the run from now on; it may do so already."""

    def wake(self) -> None:
        """Look at the run now."""


class RunsUnderWay:
    def __init__(self) -> None:
        # When each is due to begin; the order of their coming is that of these times.
        self._keepers: dict[Keeper, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._keepers)

    def add(self, keeper: Keeper) -> None:
        loop = asyncio.get_running_loop()
        due_at = loop.time() + _FIRST_LOOK_SEC
        self._keepers[keeper] = due_at
        if self._timer is None:
            self._timer = loop.call_at(due_at, self._look)

    def remove(self, keeper: Keeper) -> None:
        self._keepers.pop(keeper, None)

    def wake(self, run_id: str) -> None:
        """The snapshot of a run was changed elsewhere; a run that is not ours is none of our business."""
        for keeper in self._keepers:
            if keeper.run_id == run_id:
                keeper.wake()

    def _look(self) -> None:
        """Have those begin that are due, and look again when the next one is."""
        loop = asyncio.get_running_loop()
        self._timer = None
        for keeper, due_at in self._keepers.items():
            if due_at > loop.time():
                self._timer = loop.call_at(due_at, self._look)
                return
            keeper.begin()
