"""Refreshes for unknown keys: shared, paced and bounded."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pyoco_server.auth import paced_refresh
from pyoco_server.auth.paced_refresh import PacedRefresh
from pyoco_server.errors import NatsUnavailable
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually


class Store:
    """What is refreshed: each refresh ends when the test says so."""

    def __init__(self) -> None:
        self.begun = 0
        self.running = 0
        self.most_running = 0
        self.failures = 0
        self._may_end = asyncio.Event()

    async def refresh(self) -> None:
        self.begun += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await self._may_end.wait()
        finally:
            self.running -= 1
        if self.failures:
            self.failures -= 1
            raise NatsUnavailable("it does not reply")

    def hang(self) -> None:
        self._may_end.clear()

    def reply(self) -> None:
        self._may_end.set()

    async def has_begun(self, count: int) -> None:
        await eventually(lambda: self.begun == count, describe=f"{count} refreshes have begun")


@asynccontextmanager
async def paced(store: Store, *, timeout_sec: float = LIMIT_SEC) -> AsyncIterator[PacedRefresh]:
    refresh = PacedRefresh(store.refresh, timeout_sec=timeout_sec)
    try:
        yield refresh
    finally:
        await refresh.close()


@pytest.fixture
async def store() -> Store:
    store = Store()
    store.reply()
    return store


async def test_all_who_wait_share_one_refresh(store: Store) -> None:
    async with paced(store) as refresh:
        assert await asyncio.gather(*(refresh.wait_for_refresh() for _ in range(500))) == [True] * 500
    assert store.begun == 1


async def test_a_refresh_that_has_begun_is_not_shared(store: Store) -> None:
    """It may have asked before the key was written."""
    store.hang()
    async with paced(store) as refresh, asyncio.TaskGroup() as group:
        first = group.create_task(refresh.wait_for_refresh())
        await store.has_begun(1)
        later = [group.create_task(refresh.wait_for_refresh()) for _ in range(500)]
        store.reply()
        assert await first
        assert [await each for each in later] == [True] * 500
    assert (store.begun, store.most_running) == (2, 1)


async def test_the_next_refresh_waits_for_the_pace(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paced_refresh, "PACE_SEC", NEVER_SEC)
    async with paced(store) as refresh:
        first = await refresh.wait_for_refresh()
        refresh._timeout_sec = 0.05
        assert await asyncio.gather(*(refresh.wait_for_refresh() for _ in range(50))) == [False] * 50
    assert (first, store.begun) == (True, 1)


async def test_too_many_are_answered_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paced_refresh, "MAX_WAITING", 2)
    store.hang()
    async with paced(store) as refresh, asyncio.TaskGroup() as group:
        waiting = [group.create_task(refresh.wait_for_refresh()) for _ in range(2)]
        await store.has_begun(1)
        assert not await refresh.wait_for_refresh()
        store.reply()
        assert [await each for each in waiting] == [True, True]
        assert await refresh.wait_for_refresh(), "the places are free again"


async def test_a_hanging_refresh_ends_the_wait_and_collects_no_tasks(store: Store) -> None:
    store.hang()
    async with paced(store, timeout_sec=0.01) as refresh:
        for _ in range(5):
            assert await asyncio.gather(*(refresh.wait_for_refresh() for _ in range(100))) == [False] * 100
        assert (store.begun, store.running, len(refresh._tasks), refresh._waiting) == (1, 1, 2, 0)


async def test_a_cancelled_request_does_not_cancel_the_refresh_of_others(store: Store) -> None:
    store.hang()
    async with paced(store) as refresh, asyncio.TaskGroup() as group:
        gone, other = (
            group.create_task(refresh.wait_for_refresh()),
            group.create_task(refresh.wait_for_refresh()),
        )
        await store.has_begun(1)
        gone.cancel()
        await asyncio.wait([gone])
        store.reply()
        assert await other
        assert refresh._waiting == 0
    assert (gone.cancelled(), store.begun) == (True, 1)


@pytest.mark.parametrize(("failures", "succeeds"), [(1, True), (2, False)])
async def test_a_failure_is_retried_once(store: Store, failures: int, succeeds: bool) -> None:
    store.failures = failures
    async with paced(store) as refresh:
        assert await refresh.wait_for_refresh() is succeeds
    assert store.begun == 2


async def test_nobody_waits_after_the_end(store: Store) -> None:
    store.hang()
    async with asyncio.TaskGroup() as group:
        async with paced(store) as refresh:
            running = group.create_task(refresh.wait_for_refresh())
            await store.has_begun(1)
            following = group.create_task(refresh.wait_for_refresh())
            await eventually(lambda: len(refresh._tasks) == 2, describe="both wait")
        assert [await running, await following, await refresh.wait_for_refresh()] == [False] * 3
    assert (store.begun, refresh._tasks) == (1, set())
