"""One timer for all requests that wait: each still has its own time."""

import asyncio

import pytest

from pyoco_server.broker.message import Message
from pyoco_server.broker.pending_requests import PendingRequests

TIMEOUT_SEC = 0.2


class Late(Exception):
    pass


@pytest.fixture
def pending() -> PendingRequests:
    return PendingRequests(TIMEOUT_SEC, Late)


async def _ends_after(answer: asyncio.Future[Message]) -> float:
    loop = asyncio.get_running_loop()
    with pytest.raises(Late):
        await answer
    return loop.time()


async def test_each_request_has_its_full_time_and_no_more(pending: PendingRequests) -> None:
    loop = asyncio.get_running_loop()
    made_at: list[float] = []
    answers: list[asyncio.Task[float]] = []
    for number in range(5):
        made_at.append(loop.time())
        answers.append(asyncio.create_task(_ends_after(pending.add(str(number), f"s{number}"))))
        await asyncio.sleep(0.03)
    waits = [await answer - made for answer, made in zip(answers, made_at, strict=True)]
    assert all(TIMEOUT_SEC - 0.01 <= wait < TIMEOUT_SEC + 1 for wait in waits), waits


async def test_the_error_names_the_subject(pending: PendingRequests) -> None:
    with pytest.raises(Late, match="a subject"):
        await pending.add("1", "a subject")


async def test_an_answered_request_does_not_hide_the_next_one_that_is_late(pending: PendingRequests) -> None:
    message = Message("s", "", b"", b"data")
    first, second = pending.add("1", "first"), pending.add("2", "second")
    assert pending.answer("1", message)
    assert await first is message
    pending.remove("1")
    with pytest.raises(Late, match="second"):
        await second


async def test_a_second_answer_and_one_to_nobody_change_nothing(pending: PendingRequests) -> None:
    first, second = Message("s", "", b"", b"1"), Message("s", "", b"", b"2")
    answer = pending.add("1", "s")
    assert pending.answer("1", first)
    assert pending.answer("1", second)
    assert await answer is first
    pending.remove("1")
    assert not pending.answer("1", second)
    pending.close()


async def test_all_that_wait_fail_together(pending: PendingRequests) -> None:
    answers = [pending.add(str(number), "s") for number in range(3)]
    pending.fail(lambda: ConnectionError("lost"))
    for answer in answers:
        with pytest.raises(ConnectionError, match="lost"):
            await answer
    pending.close()
