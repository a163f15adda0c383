"""Fan-out of changes to followers: the common part of the hubs of runs and of the inbox."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

# A little more than it takes to notify one follower: however many there are, and however often something
# changes, they get a share of the gateway's time and not all of it.
_PAUSE_PER_FOLLOWER_SEC: Final = 0.000_15

T = TypeVar("T")


class ResyncRequired(Exception):
    """The changes since the follower's position are not known any more: it has to read the list again."""


class CachedEncodings:
    """Encoded once for all followers: keeps the results of functions applied to the object."""

    __slots__ = ("_encodings",)
    _encodings: dict[Callable[[Any], Any], Any]

    def encoded(self, encode: Callable[[Any], T]) -> T:
        try:
            encodings = self._encodings
        except AttributeError:
            encodings = {}
            # The object may be a frozen dataclass.
            object.__setattr__(self, "_encodings", encodings)
        if encode not in encodings:
            encodings[encode] = encode(self)
        result: T = encodings[encode]
        return result


class Follower:
    """One subscriber; it holds its position and nothing that grows."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def wake(self) -> None:
        self._changed.set()

    async def _wait(self, within: float) -> bool:
        """Whether something changed within that time."""
        if self._changed.is_set():
            return True
        try:
            async with asyncio.timeout(within):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True


F = TypeVar("F", bound=Follower)


class FollowerSet(Generic[F]):
    """The followers of one thing: woken together and, where they are many, not too often."""

    def __init__(self) -> None:
        self._followers: set[F] = set()
        self._pause_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._followers)

    def __iter__(self) -> Iterator[F]:
        return iter(self._followers)

    @property
    def wake_scheduled(self) -> bool:
        return self._timer is not None

    def add(self, follower: F) -> None:
        self._followers.add(follower)

    def discard(self, follower: F) -> None:
        self._followers.discard(follower)
        if not self._followers and self._timer is not None:
            self._timer.cancel()

    def wake(self) -> None:
        """Wake all now or, if they were woken a moment ago, once after the pause."""
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= self._pause_until:
            self.wake_now()
        else:
            self._timer = loop.call_at(self._pause_until, self.wake_now)

    def wake_now(self) -> None:
        self._timer = None
        self._pause_until = asyncio.get_running_loop().time() + len(self) * _PAUSE_PER_FOLLOWER_SEC
        for follower in self._followers:
            follower.wake()


K = TypeVar("K")
S = TypeVar("S", bound=FollowerSet[Any])


class Subscriptions(dict[K, S], Generic[K, S]):
    """Follower sets by what they follow; a set exists while it has followers."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._changed = changed

    @property
    def followers(self) -> int:
        return sum(map(len, self.values()))

    @contextmanager
    def following(self, key: K, new_set: Callable[[], S], new_follower: Callable[[S], F]) -> Iterator[F]:
        followers = self.get(key)
        if followers is None:
            followers = self[key] = new_set()
        follower = new_follower(followers)
        followers.add(follower)
        self._changed()
        try:
            yield follower
        finally:
            followers.discard(follower)
            if not followers:
                del self[key]
            self._changed()
