"""What every reader of a feed says of itself, if it fills an index: how far it is, and what it knows."""

from typing import Protocol

from pyoco_server.broker.jetstream.feed_history import Checkpoint, KnownKey


class FedIndex(Protocol):
    """An index that a feed fills."""

    @property
    def checkpoint(self) -> Checkpoint: ...

    @property
    def ready(self) -> bool: ...

    async def others(
        self, after: int, upto: int, revisions: list[int], *, limit: int
    ) -> list[tuple[int, str]]: ...

    async def newest_below(self, revision: int, *, limit: int) -> list[KnownKey]: ...

    @property
    def marked(self) -> int: ...

    async def first_markers(self, *, after: int, limit: int) -> list[tuple[int, str]]: ...

    async def forget_markers(self, keys: list[str]) -> None: ...


class IndexReading:
    """The part of a `FeedReader` that its index answers."""

    def __init__(self, index: FedIndex) -> None:
        self._fed = index

    @property
    def checkpoint(self) -> Checkpoint:
        return self._fed.checkpoint

    @property
    def ready(self) -> bool:
        return self._fed.ready

    async def others(
        self, after: int, upto: int, revisions: list[int], *, limit: int
    ) -> list[tuple[int, str]]:
        return await self._fed.others(after, upto, revisions, limit=limit)

    async def newest_below(self, revision: int, *, limit: int) -> list[KnownKey]:
        return await self._fed.newest_below(revision, limit=limit)

    @property
    def markers(self) -> int:
        return self._fed.marked

    async def first_markers(self, *, after: int, limit: int) -> list[tuple[int, str]]:
        return await self._fed.first_markers(after=after, limit=limit)

    async def forget_markers(self, keys: list[str]) -> None:
        await self._fed.forget_markers(keys)
