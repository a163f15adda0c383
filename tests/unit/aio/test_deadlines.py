"""Deadlines with one timer: the queue, requests that wait for a reply, and timeouts of blocks."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyoco_server.aio import deadlines
from pyoco_server.aio.deadlines import BlockTimeouts, DeadlineQueue
from pyoco_server.broker.client.connection import PendingRequests
from pyoco_server.broker.client.message import Message
from tests.support.clocks import FakeClockLoop

TIMEOUT_SEC = 0.2


class Late(Exception):
    pass


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClockLoop:
    """The clock of the queues, independent of the machine."""
    clock = FakeClockLoop()

    class AsyncioOfTheClock:
        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

        def get_running_loop(self) -> FakeClockLoop:
            return clock

    monkeypatch.setattr(deadlines, "asyncio", AsyncioOfTheClock())
    return clock


async def test_each_value_expires_at_its_own_deadline(clock: FakeClockLoop) -> None:
    expired: dict[int, float] = {}
    queue: DeadlineQueue[int, int] = DeadlineQueue(
        TIMEOUT_SEC, lambda number: expired.update({number: clock.time()})
    )
    added: dict[int, float] = {}
    for number in range(5):
        added[number] = clock.time()
        queue.add(number, number)
        clock.advance(0.03)
    # The timer is that of the first one.
    for removed in (0, 3):
        queue.remove(removed)
    clock.advance(1.0)
    assert expired == pytest.approx({number: added[number] + TIMEOUT_SEC for number in (1, 2, 4)})
    queue.add(5, 5)
    queue.close()
    clock.advance(1.0)
    assert 5 not in expired


async def test_values_removed_after_a_pause_of_the_process_do_not_expire(clock: FakeClockLoop) -> None:
    """Replies that have arrived meanwhile are read first."""
    expired: list[str] = []
    queue: DeadlineQueue[str, str] = DeadlineQueue(TIMEOUT_SEC, expired.append)
    queue.add("answered", "answered")
    queue.add("lost", "lost")
    clock.stall(90.0)
    assert expired == []
    queue.remove("answered")
    clock.advance(deadlines._POSTPONED_SEC)
    assert expired == ["lost"]


async def test_a_failing_callback_does_not_keep_the_next_value(
    clock: FakeClockLoop, caplog: pytest.LogCaptureFixture
) -> None:
    expired: list[str] = []

    def fail_once(name: str) -> None:
        expired.append(name)
        if len(expired) == 1:
            raise ValueError("for a test")

    queue: DeadlineQueue[str, str] = DeadlineQueue(TIMEOUT_SEC, fail_once)
    for name in ("first", "second"):
        queue.add(name, name)
    clock.advance(1.0)
    assert expired == ["first", "second"]
    assert "for a test" in caplog.text


# Requests


@pytest.fixture
async def pending(clock: FakeClockLoop) -> PendingRequests:
    return PendingRequests(TIMEOUT_SEC, Late)


async def test_a_request_without_a_reply_in_time_fails(
    pending: PendingRequests, clock: FakeClockLoop
) -> None:
    reply = pending.add("1", "a.subject")
    clock.advance(TIMEOUT_SEC)
    with pytest.raises(Late, match=r"a\.subject"):
        await reply


async def test_a_second_reply_and_one_without_a_request_are_ignored(
    pending: PendingRequests, clock: FakeClockLoop
) -> None:
    first, second = Message("s", "", b"", b"1"), Message("s", "", b"", b"2")
    reply = pending.add("1", "s")
    assert pending.resolve("1", first)
    assert pending.resolve("1", second)
    clock.advance(TIMEOUT_SEC)
    assert await reply is first
    assert not pending.resolve("1", second)


async def test_requests_fail_together_or_by_their_subject(pending: PendingRequests) -> None:
    """The server writes the subject of a refused request in lower case."""
    refused, other = pending.add("1", "a.B"), pending.add("2", "c")
    pending.fail(lambda: ConnectionError("refused"), subject="a.b")
    pending.fail(lambda: ConnectionError("lost"))
    for reply, why in ((refused, "refused"), (other, "lost")):
        with pytest.raises(ConnectionError, match=why):
            await reply
    pending.close()


# Timeouts of blocks


@pytest.fixture
async def timeouts(clock: FakeClockLoop) -> AsyncIterator[BlockTimeouts]:
    timeouts = BlockTimeouts(TIMEOUT_SEC)
    yield timeouts
    timeouts.close()


async def test_a_block_is_ended_at_its_deadline(timeouts: BlockTimeouts, clock: FakeClockLoop) -> None:
    with timeouts.limit():
        await asyncio.sleep(0)

    async def wait() -> int:
        with pytest.raises(TimeoutError), timeouts.limit():
            await asyncio.Event().wait()
        # The block was ended, not the task.
        return asyncio.current_task().cancelling()  # type: ignore[union-attr]

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    clock.advance(TIMEOUT_SEC)
    assert await waiting == 0


@pytest.mark.parametrize("at_the_deadline", [False, True])
async def test_another_cancellation_is_not_a_timeout(
    timeouts: BlockTimeouts, clock: FakeClockLoop, at_the_deadline: bool
) -> None:
    async def wait() -> None:
        with timeouts.limit():
            asyncio.current_task().cancel()  # type: ignore[union-attr]
            if at_the_deadline:
                # It passes before the task runs again.
                clock.advance(TIMEOUT_SEC)
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(wait())


async def test_an_error_of_the_block_passes_through(timeouts: BlockTimeouts) -> None:
    with pytest.raises(KeyError), timeouts.limit():
        raise KeyError
