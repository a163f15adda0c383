"""The background loop: it survives errors, pauses, is woken, and ends when it is closed."""

import asyncio

import pytest

from pyoco_server.aio import background
from pyoco_server.aio.background import BackgroundLoop, Backoff
from tests.support.waiting import NEVER_SEC, eventually


async def test_a_wake_ends_the_pause_and_is_reported() -> None:
    woken: list[bool] = []

    async def step() -> None:
        woken.append(await loop.pause(NEVER_SEC))

    loop = BackgroundLoop("test", step)
    # Also one that comes before the pause.
    loop.wake()
    loop.start()
    await eventually(lambda: woken == [True], describe="the first pause ends")
    loop.wake()
    loop.wake()
    await eventually(lambda: woken == [True, True], describe="the second pause ends")
    await loop.close()
    assert not loop.running
    assert woken == [True, True]


async def test_a_pause_without_a_wake_ends_by_itself() -> None:
    loop = BackgroundLoop("test", asyncio.Event().wait)
    assert not await loop.pause(0)
    loop.wake()
    assert await loop.pause(0)
    assert not await loop.pause(0)


async def test_an_unexpected_error_is_logged_and_the_loop_continues(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "_PAUSE_AFTER_ERROR_SEC", 0.0)
    steps = 0

    async def fails_twice() -> None:
        nonlocal steps
        steps += 1
        if steps > 2:
            await asyncio.Event().wait()
        raise ValueError("for a test")

    loop = BackgroundLoop("test", fails_twice)
    loop.start()
    await eventually(lambda: steps == 3, describe="it goes on")
    await loop.close()
    assert caplog.text.count("test: unexpected error, continuing") == 2


async def test_closing_a_loop_that_was_not_started_does_nothing() -> None:
    await BackgroundLoop("test", asyncio.Event().wait).close()


def test_the_delay_doubles_up_to_its_limit_until_a_success() -> None:
    backoff = Backoff(1.0, 5.0)
    assert [backoff.next_sec() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    backoff.reset()
    assert backoff.next_sec() == 1.0
