"""Pending requests share one timer, and each has its own deadline."""

import asyncio
from types import SimpleNamespace

import pytest

from pyoco_server.aio import deadlines
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.client.pending_requests import PendingRequests
from tests.support.clocks import FakeClockLoop

TIMEOUT_SEC = 0.2


class Late(Exception):
    pass


def use_clock(monkeypatch: pytest.MonkeyPatch, clock: FakeClockLoop) -> None:
    monkeypatch.setattr(deadlines, "asyncio", SimpleNamespace(get_running_loop=lambda: clock))


@pytest.fixture
def pending() -> PendingRequests:
    return PendingRequests(TIMEOUT_SEC, Late)


async def test_each_request_times_out_at_its_own_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClockLoop()
    use_clock(monkeypatch, clock)
    made_at: dict[str, float] = {}
    ended_at: dict[str, float] = {}

    def late(subject: str) -> Late:
        ended_at[subject] = clock.time()
        return Late(subject)

    pending = PendingRequests(TIMEOUT_SEC, late)
    answers: list[asyncio.Future[Message]] = []
    for number in range(5):
        made_at[f"s{number}"] = clock.time()
        answers.append(pending.add(str(number), f"s{number}"))
        clock.advance(0.03)
    clock.advance(1.0)
    for number, answer in enumerate(answers):
        with pytest.raises(Late, match=f"s{number}"):
            await answer
    waits = {subject: ended_at[subject] - made_at[subject] for subject in made_at}
    assert waits == pytest.approx(dict.fromkeys(made_at, TIMEOUT_SEC))


async def test_replies_that_arrived_during_a_pause_of_the_process_are_read_before_requests_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClockLoop()
    use_clock(monkeypatch, clock)
    pending = PendingRequests(TIMEOUT_SEC, Late)
    answered, lost = pending.add("1", "answered"), pending.add("2", "lost")
    clock.stall(90.0)
    assert not answered.done()
    assert not lost.done()
    message = Message("s", "", b"", b"data")
    assert pending.resolve("1", message)
    clock.advance(deadlines._POSTPONED_SEC)
    assert await answered is message
    with pytest.raises(Late, match="lost"):
        await lost


async def test_a_resolved_request_does_not_hide_the_timeout_of_the_next(pending: PendingRequests) -> None:
    message = Message("s", "", b"", b"data")
    first, second = pending.add("1", "first"), pending.add("2", "second")
    assert pending.resolve("1", message)
    assert await first is message
    pending.remove("1")
    with pytest.raises(Late, match="second"):
        await second


async def test_a_second_reply_and_one_without_a_request_are_ignored(pending: PendingRequests) -> None:
    first, second = Message("s", "", b"", b"1"), Message("s", "", b"", b"2")
    answer = pending.add("1", "s")
    assert pending.resolve("1", first)
    assert pending.resolve("1", second)
    assert await answer is first
    pending.remove("1")
    assert not pending.resolve("1", second)
    pending.close()


async def test_all_pending_requests_fail_together(pending: PendingRequests) -> None:
    answers = [pending.add(str(number), "s") for number in range(3)]
    pending.fail(lambda: ConnectionError("lost"))
    for answer in answers:
        with pytest.raises(ConnectionError, match="lost"):
            await answer
    pending.close()
