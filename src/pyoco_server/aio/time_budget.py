"""`asyncio.timeout` for a block that is entered thousands of times a second: all of them share one timer."""

import asyncio
from types import TracebackType

from pyoco_server.aio.deadline_timer import DeadlineTimer


class TimeBudget:
    """So much time has each block that is entered with `with budget.block():`, inside a task."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        # The order of their beginning is that of their deadlines.
        self._blocks: dict[_Block, None] = {}
        self._timer = DeadlineTimer(self._expire)

    def block(self) -> "_Block":
        """TimeoutError when its time is up before its end."""
        return _Block(self)

    def close(self) -> None:
        self._timer.close()

    def begin(self, block: "_Block") -> None:
        block.deadline = self._timer.add(self.seconds)
        self._blocks[block] = None

    def end(self, block: "_Block") -> None:
        del self._blocks[block]

    def _expire(self, now: float) -> float | None:
        """End the blocks past their deadline."""
        for block in self._blocks:
            if block.deadline > now:
                return block.deadline
            block.expire()
        return None


class _Block:
    __slots__ = ("_budget", "_cancelled_before", "_expired", "_task", "deadline")

    def __init__(self, budget: TimeBudget) -> None:
        self._budget = budget
        self._expired = False
        self.deadline = 0.0

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "wanted inside a task"
        self._task = task
        self._cancelled_before = task.cancelling()
        self._budget.begin(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._budget.end(self)
        # As in asyncio.timeout: a cancellation by somebody else stays one.
        is_ours = self._expired and self._task.uncancel() <= self._cancelled_before
        if is_ours and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        if not self._expired:
            self._expired = True
            self._task.cancel()
