"""Many deadlines, one timer: a queue of items with the same timeout, and a cheap `asyncio.timeout`."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Generic, TypeVar

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

# A timer that fires this late shows that the process was paused (suspended laptop, paused VM).
_LATE_TIMER_SEC: Final = 1.0
# Expiry is postponed once by this much then, so that replies that have arrived are read first.
_POSTPONED_SEC: Final = 0.5


class DeadlineQueue(Generic[K, V]):
    """Values by key. One that is not removed within the timeout is removed and passed to `on_expired`."""

    def __init__(
        self, timeout_sec: float, on_expired: Callable[[V], None], *, postpone_when_late: bool = True
    ) -> None:
        self._timeout_sec = timeout_sec
        self._on_expired = on_expired
        self._postpone_when_late = postpone_when_late
        # All have the same timeout, so the insertion order is the order of the deadlines.
        self._items: dict[K, tuple[float, V]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._postponed = False
        # Looked up once, since that takes a system call.
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, key: K, value: V) -> None:
        """Add a key that is not in the queue."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_sec
        self._items[key] = (deadline, value)
        if self._timer is None:
            self._set_timer(deadline, loop)

    def get(self, key: K) -> V | None:
        item = self._items.get(key)
        return None if item is None else item[1]

    def remove(self, key: K) -> None:
        """Remove the value, unless it has expired."""
        self._items.pop(key, None)

    def values(self) -> Iterator[V]:
        return (value for _, value in self._items.values())

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, due: float, loop: asyncio.AbstractEventLoop) -> None:
        self._timer_due = due
        self._timer = loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        assert self._loop is not None
        self._timer = None
        now = self._loop.time()
        is_late = self._postpone_when_late and now - self._timer_due > _LATE_TIMER_SEC
        self._postponed = is_late and not self._postponed
        if self._postponed:
            self._set_timer(now + _POSTPONED_SEC, self._loop)
            return
        self._expire(now)

    def _expire(self, now: float) -> None:
        expired = []
        for key, (deadline, _) in self._items.items():
            if deadline > now:
                assert self._loop is not None
                self._set_timer(deadline, self._loop)
                break
            expired.append(key)
        for key in expired:
            try:
                self._on_expired(self._items.pop(key)[1])
            except Exception:
                # The others must expire as well: there may be no further timer.
                log.exception("the expiry callback failed")


class BlockTimeouts:
    """`asyncio.timeout` for blocks that are entered thousands of times a second: `with timeouts.limit():`.

    Each block has the full timeout for itself, however many there are.
    """

    def __init__(self, seconds: float) -> None:
        self._blocks: DeadlineQueue[_Block, _Block] = DeadlineQueue(seconds, _Block.expire)

    def limit(self) -> "_Block":
        """To be entered inside a task; raises TimeoutError when the time is up before its end."""
        return _Block(self._blocks)

    def close(self) -> None:
        self._blocks.close()


class _Block:
    __slots__ = ("_blocks", "_cancelled_before", "_expired", "_task")

    def __init__(self, blocks: "DeadlineQueue[_Block, _Block]") -> None:
        self._blocks = blocks
        self._expired = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "expected to be inside a task"
        self._task = task
        self._cancelled_before = task.cancelling()
        self._blocks.add(self, self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._blocks.remove(self)
        # As in asyncio.timeout: a cancellation by somebody else stays one.
        is_ours = self._expired and self._task.uncancel() <= self._cancelled_before
        if is_ours and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        self._expired = True
        self._task.cancel()
