"""A gateway that is away for a moment: what is asked again, how often, after how long; and what never is."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pyoco_server.http_client import (
    AsyncPyocoHttpClient,
    GatewayUnreachable,
    PyocoHttpClient,
    PyocoHttpError,
    sync_client,
)
from tests.support.http_stub import answer, stub, unavailable

RUN = "00000000-0000-4000-8000-000000000000"
ACCEPTED = answer(run_id=RUN, status="PENDING")

REPEATED: dict[str, Callable[[PyocoHttpClient], Any]] = {
    "a read": lambda client: client.get_run(RUN),
    "a list": lambda client: client.list_dlq(),
    "a cancel": lambda client: client.cancel_run(RUN),
    "a submit with a key": lambda client: client.submit_run("x", idempotency_key="k"),
    "a flow.yaml with a key": lambda client: client.submit_run_yaml("flow: {}", "x", idempotency_key="k"),
    "a dry run": lambda client: client.bulk_cancel({"flow": "x"}, dry_run=True),
    "a retry": lambda client: client.retry(RUN),
    "a rerun with a key": lambda client: client.rerun(RUN, idempotency_key="k"),
    "a replay with a key": lambda client: client.replay_dlq(1, delete=True, idempotency_key="k"),
    "a bulk cancel with a key": lambda client: client.bulk_cancel(
        {"flow": "x"}, expected_count=3, idempotency_key="k"
    ),
    "a bulk replay with a key": lambda client: client.bulk_replay_dlq(
        {"flow": "x"}, token="3-x", idempotency_key="k"
    ),
}
ASKED_ONCE: dict[str, Callable[[PyocoHttpClient], Any]] = {
    "a submit": lambda client: client.submit_run("x"),
    "a flow.yaml": lambda client: client.submit_run_yaml("flow: {}", "x"),
    "a rerun": lambda client: client.rerun(RUN),
    "a replay": lambda client: client.replay_dlq(1),
    "a bulk rerun": lambda client: client.bulk_rerun({"flow": "x"}, expected_count=3),
}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of the synchronous client, which take no time."""
    pauses: list[float] = []
    monkeypatch.setattr(sync_client, "time", SimpleNamespace(sleep=pauses.append))
    return pauses


@pytest.mark.parametrize("ask", REPEATED.values(), ids=list(REPEATED))
def test_what_does_no_harm_is_asked_again(ask: Callable[[PyocoHttpClient], Any]) -> None:
    with stub([unavailable(), unavailable(), ACCEPTED]) as (url, seen), PyocoHttpClient(url) as client:
        assert ask(client)["run_id"] == RUN
    assert len(seen) == 3
    assert len({asked.get("idempotency-key") for asked in seen}) == 1


@pytest.mark.parametrize("ask", ASKED_ONCE.values(), ids=list(ASKED_ONCE))
def test_what_may_have_been_heard_is_asked_once(ask: Callable[[PyocoHttpClient], Any]) -> None:
    with stub([unavailable(), ACCEPTED]) as (url, seen), PyocoHttpClient(url) as client:
        with pytest.raises(PyocoHttpError, match="503"):
            ask(client)
        assert len(seen) == 1


@pytest.mark.parametrize("retries", [0, 1, 4])
def test_the_number_of_retries_is_the_callers(retries: int) -> None:
    with stub([unavailable()]) as (url, seen), PyocoHttpClient(url, retries=retries) as client:
        with pytest.raises(PyocoHttpError, match="503"):
            client.health()
        assert len(seen) == retries + 1


@pytest.mark.parametrize("status", [404, 409, 422, 500, 502])
def test_no_other_error_is_asked_about_again(status: int) -> None:
    with stub([(status, "text/plain", "no")]) as (url, seen), PyocoHttpClient(url) as client:
        with pytest.raises(PyocoHttpError):
            client.health()
        assert len(seen) == 1


def test_the_pause_is_what_the_gateway_asks_for(pauses: list[float]) -> None:
    with (
        stub([unavailable(), answer(status="ok")], Retry_After="1") as (url, _),
        PyocoHttpClient(url) as client,
    ):
        client.health()
    [pause] = pauses
    assert 1.0 <= pause <= 1.25


@pytest.mark.parametrize("wanted", ["3600", "Wed, 21 Oct 2065 07:28:00 GMT"])
def test_a_gateway_that_wants_hours_is_not_waited_for(wanted: str, pauses: list[float]) -> None:
    with (
        stub([unavailable()], Retry_After=wanted) as (url, seen),
        PyocoHttpClient(url) as client,
        pytest.raises(PyocoHttpError),
    ):
        client.health()
    assert sum(pauses) < 5.0
    # A date is not read: then the pause is our own.
    assert len(seen) == (1 if wanted.isdecimal() else 3)


def test_a_refused_connection_is_tried_again_before_it_is_told(pauses: list[float]) -> None:
    with PyocoHttpClient("http://127.0.0.1:1", retries=2) as client:
        with pytest.raises(GatewayUnreachable):
            client.health()
        # A tenth, then two tenths of a second, and up to a quarter more.
        first, second = pauses
        assert 0.1 <= first <= 0.125
        assert 0.2 <= second <= 0.25
        with pytest.raises(GatewayUnreachable):
            client.submit_run("x")
    assert len(pauses) == 2


async def test_the_asynchronous_client_does_the_same() -> None:
    with stub([unavailable(), unavailable(), ACCEPTED]) as (url, seen):
        async with AsyncPyocoHttpClient(url) as client:
            assert (await client.get_run(RUN))["run_id"] == RUN
    assert len(seen) == 3
    with stub([unavailable(), ACCEPTED]) as (url, seen):
        async with AsyncPyocoHttpClient(url) as client:
            with pytest.raises(PyocoHttpError, match="503"):
                await client.submit_run("x")
        assert len(seen) == 1
