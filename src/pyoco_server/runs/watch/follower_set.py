"""All who follow the same thing: woken together and, where they are many, not too often."""

import asyncio
from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

# A little more than what it takes to tell one of them: however many follow the same, and however often it
# changes, they get a share of the gateway's time and not all of it.
_REST_PER_FOLLOWER_SEC: Final = 0.000_15


class Wakeable(Protocol):
    def wake(self) -> None: ...


F = TypeVar("F", bound=Wakeable)


class Crowd(Generic[F]):
    def __init__(self) -> None:
        self._followers: set[F] = set()
        self._rests_until = 0.0
        self._waking: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._followers)

    def __iter__(self) -> Iterator[F]:
        return iter(self._followers)

    @property
    def is_waking(self) -> bool:
        """Whether they will be woken when they have rested."""
        return self._waking is not None

    def join(self, follower: F) -> None:
        self._followers.add(follower)

    def leave(self, follower: F) -> None:
        self._followers.discard(follower)
        if not self._followers and self._waking is not None:
            self._waking.cancel()

    def wake(self) -> None:
        """At once; or, if they were woken a moment ago, together with what comes until they have rested."""
        if self._waking is not None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= self._rests_until:
            self.wake_now()
        else:
            self._waking = loop.call_at(self._rests_until, self.wake_now)

    def wake_now(self) -> None:
        self._waking = None
        self._rests_until = asyncio.get_running_loop().time() + len(self) * _REST_PER_FOLLOWER_SEC
        for follower in self._followers:
            follower.wake()
