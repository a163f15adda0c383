"""A lease on a real bucket: one holder at a time, the next one when it dies or leaves."""

import asyncio

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import lease as lease_module
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.lease import Lease
from tests.support.clocks import Clock

TTL_SEC = 1.0


def lease(connection: Connection, holder: str, ttl_sec: float = TTL_SEC) -> Lease:
    return Lease(connection, "sweep", ttl_sec=ttl_sec, holder=holder)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def connection(empty_connection: Connection) -> Connection:
    return empty_connection


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(lease_module, "time", clock)
    return clock


async def test_one_of_two_holds_it_and_renews_it(connection: Connection, clock: Clock) -> None:
    first, second = lease(connection, "first"), lease(connection, "second")
    for _ in range(10):
        assert await first.hold()
        assert not await second.hold()
        clock.now += 0.9 * TTL_SEC
    assert (first.held, second.held) == (True, False)


async def test_the_lease_of_a_dead_holder_is_taken_after_its_ttl_and_not_before(
    connection: Connection, clock: Clock
) -> None:
    dead, second, third = (lease(connection, name) for name in ("dead", "second", "third"))
    assert await dead.hold()
    assert not await second.hold()
    clock.now += 0.99 * TTL_SEC
    assert not await second.hold()
    clock.now += 0.02 * TTL_SEC
    assert await second.hold()
    assert not await third.hold()


async def test_a_slow_read_does_not_count_against_the_holder(
    connection: Connection, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, watcher = lease(connection, "holder"), lease(connection, "watcher")
    read = Bucket.get_from_leader
    looking, renewed = asyncio.Event(), asyncio.Event()

    async def slow_read(self: Bucket, key: str) -> Entry | None:
        looking.set()
        await renewed.wait()
        return await read(self, key)

    assert await holder.hold()
    monkeypatch.setattr(Bucket, "get_from_leader", slow_read)
    async with asyncio.TaskGroup() as tasks:
        first_look = tasks.create_task(watcher.hold())
        await looking.wait()
        # The lease has run out while the watcher waits for its answer, and is renewed only then.
        clock.now += 2 * TTL_SEC
        assert await holder.hold()
        renewed.set()
    assert not first_look.result()
    assert not await watcher.hold()
    clock.now += 1.1 * TTL_SEC
    assert await watcher.hold()


async def test_the_ttl_of_the_holder_applies(connection: Connection, clock: Clock) -> None:
    assert await lease(connection, "slow", ttl_sec=600).hold()
    hasty = lease(connection, "hasty", ttl_sec=0.1)
    assert not await hasty.hold()
    clock.now += 599
    assert not await hasty.hold()
    clock.now += 2
    assert await hasty.hold()


async def test_a_holder_that_was_paused_beyond_its_ttl_has_lost_the_lease(
    connection: Connection, clock: Clock
) -> None:
    sleeper, second = lease(connection, "sleeper"), lease(connection, "second")
    assert await sleeper.hold()
    assert not await second.hold()
    clock.now += 2 * TTL_SEC
    assert await second.hold()
    assert not await sleeper.hold()
    assert await second.hold()


async def test_a_released_lease_is_taken_at_once_by_one(connection: Connection) -> None:
    first, second, third = (lease(connection, name, ttl_sec=600) for name in ("first", "second", "third"))
    assert await first.hold()
    assert not await second.hold()
    await first.release()
    assert await second.hold()
    assert not await third.hold()
    assert not await first.hold()


async def test_a_former_holder_does_not_release_another_lease(connection: Connection, clock: Clock) -> None:
    first, second = lease(connection, "first"), lease(connection, "second", ttl_sec=600)
    assert await first.hold()
    assert not await second.hold()
    clock.now += 2 * TTL_SEC
    assert await second.hold()
    await first.release()
    assert not await lease(connection, "third", ttl_sec=600).hold()


async def test_a_renewal_without_an_acknowledgement_is_recognised(connection: Connection) -> None:
    assert await lease(connection, "same", ttl_sec=600).hold()
    # Knows nothing of the write above, as after a lost answer.
    assert await lease(connection, "same", ttl_sec=600).hold()


async def test_an_unreadable_lease_is_replaced(connection: Connection) -> None:
    await Bucket(connection, connection.config.lease_kv_bucket).create("sweep", b"{nonsense")
    assert await lease(connection, "first").hold()
