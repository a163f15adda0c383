"""The delay of a 404 does not reveal whether another tenant has the object."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.requests import Request

from pyoco_server.errors import (
    BulkNotFound,
    DeadLetterNotFound,
    PyocoError,
    RunNotFound,
    WaitNotFound,
    WheelNotFound,
)
from pyoco_server.http_api.responses import not_found_delay
from pyoco_server.http_api.responses.not_found_delay import STEP_SEC, NotFoundDelay, note_arrival


@pytest.fixture
def even() -> Iterator[NotFoundDelay]:
    made = NotFoundDelay()
    yield made
    made.close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The moments that answers were held back to."""
    noted: list[float] = []
    monkeypatch.setattr(not_found_delay, "_sleep_until", noted.append)
    return noted


def arrived(ago_sec: float = 0.0) -> tuple[Request, float]:
    """A request that came so long ago, and when that was."""
    scope: dict[str, Any] = {"type": "http"}
    note_arrival(scope)
    scope[not_found_delay._ARRIVED] -= ago_sec
    return Request(scope), scope[not_found_delay._ARRIVED]


@pytest.mark.parametrize("error", [RunNotFound, WaitNotFound, DeadLetterNotFound, BulkNotFound])
@pytest.mark.parametrize("steps", [0.0, 0.3, 0.9, 1.1, 7.5])
async def test_the_delay_is_a_whole_number_of_steps(
    even: NotFoundDelay, waits: list[float], error: type[PyocoError], steps: float
) -> None:
    request, since = arrived(steps * STEP_SEC)
    await even.wait(request, error("there is none"))
    [due] = waits
    taken = (due - since) / STEP_SEC
    assert taken == pytest.approx(round(taken))
    assert taken > steps


async def test_the_response_is_not_sent_before_the_delay(even: NotFoundDelay) -> None:
    request, since = arrived()
    await even.wait(request, RunNotFound("there is none"))
    assert time.perf_counter() - since >= STEP_SEC


async def test_other_errors_are_not_delayed(even: NotFoundDelay, waits: list[float]) -> None:
    request, _ = arrived()
    await even.wait(request, WheelNotFound("all tenants share these"))
    await even.wait(Request({"type": "http"}), RunNotFound("no keys are asked for"))
    assert waits == []
