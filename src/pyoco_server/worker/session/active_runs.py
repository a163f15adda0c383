"""The runs under way at a worker, each with its keeper: whom to wake, and whom to have begin.

Most runs are over before anybody needs to look after them. One timer for all of them is therefore enough: to
make and to cancel one for each would be a good part of what a short run costs.
"""

import asyncio
from collections import deque
from typing import Protocol

# How long a run lasts before it is looked after.
_FIRST_LOOK_SEC = 0.1
_REMEMBERED = 64


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
        # Runs that were to be woken and are not here: a claim may be heard of before it is acted upon.
        self._asked_for: deque[str] = deque(maxlen=_REMEMBERED)

    def __len__(self) -> int:
        return len(self._keepers)

    def add(self, keeper: Keeper) -> None:
        loop = asyncio.get_running_loop()
        due_at = loop.time() + _FIRST_LOOK_SEC
        self._keepers[keeper] = due_at
        if self._timer is None:
            self._timer = loop.call_at(due_at, self._look)
        if self._asked_for and keeper.run_id in self._asked_for:
            keeper.wake()

    def remove(self, keeper: Keeper) -> None:
        self._keepers.pop(keeper, None)

    def wake(self, run_id: str) -> None:
        """The snapshot of a run was changed elsewhere; of one that is not here, it is remembered."""
        found = [keeper for keeper in self._keepers if keeper.run_id == run_id]
        for keeper in found:
            keeper.wake()
        if not found:
            self._asked_for.append(run_id)

    def _look(self) -> None:
        """Have those begin that are due, and look again when the next one is."""
        loop = asyncio.get_running_loop()
        self._timer = None
        for keeper, due_at in self._keepers.items():
            if due_at > loop.time():
                self._timer = loop.call_at(due_at, self._look)
                return
            keeper.begin()
