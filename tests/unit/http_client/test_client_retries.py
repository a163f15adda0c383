"""A gateway that is away for a moment: which requests are repeated, how often, and after which pause."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from pyoco_server.http_client import (
    AsyncPyocoHttpClient,
    GatewayUnreachable,
    PyocoHttpClient,
    PyocoHttpError,
    retry_policy,
    sync_client,
)
from tests.support.clocks import Clock
from tests.support.http_stub import answer, stub, unavailable

RUN = "00000000-0000-4000-8000-000000000000"
ACCEPTED = answer(run_id=RUN, status="PENDING")
KEY: dict[str, Any] = {"idempotency_key": "k"}
FLOW: Any = {"flow": "x"}

REPEATED: dict[str, Callable[[PyocoHttpClient], Any]] = {
    "a read": lambda client: client.get_run(RUN),
    "a list": lambda client: client.list_dlq(),
    "a cancel": lambda client: client.cancel_run(RUN),
    "a submit": lambda client: client.submit_run("x"),
    "a flow.yaml": lambda client: client.submit_run_yaml("flow: {}", "x"),
    "a submit with a key": lambda client: client.submit_run("x", **KEY),
    "a flow.yaml with a key": lambda client: client.submit_run_yaml("flow: {}", "x", **KEY),
    "a new schedule": lambda client: client.create_schedule("s", "x", {"every_sec": 60}),
    "a trigger": lambda client: client.trigger_schedule("s"),
    "a backfill": lambda client: client.backfill_schedule("s", 0, 1),
    "a dry run": lambda client: client.bulk_cancel(FLOW, dry_run=True),
    "a retry": lambda client: client.retry(RUN),
    "an answer": lambda client: client.resume(RUN, 1),
    "a rerun with a key": lambda client: client.rerun(RUN, **KEY),
    "a replay with a key": lambda client: client.replay_dlq(1, delete=True, **KEY),
    "a bulk cancel with a key": lambda client: client.bulk_cancel(FLOW, expected_count=3, **KEY),
    "a bulk replay with a key": lambda client: client.bulk_replay_dlq(FLOW, token="3-x", **KEY),
}
SENT_ONCE: dict[str, Callable[[PyocoHttpClient], Any]] = {
    "a rerun": lambda client: client.rerun(RUN),
    "a replay": lambda client: client.replay_dlq(1),
    "a bulk rerun": lambda client: client.bulk_rerun(FLOW, expected_count=3),
}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of the synchronous client, which take no time."""
    pauses: list[float] = []
    monkeypatch.setattr(sync_client, "time", SimpleNamespace(sleep=pauses.append))
    return pauses


@pytest.mark.parametrize("call", REPEATED.values(), ids=list(REPEATED))
def test_an_idempotent_request_is_repeated(
    call: Callable[[PyocoHttpClient], Any], pauses: list[float]
) -> None:
    with stub([unavailable(), unavailable(), ACCEPTED]) as (url, seen), PyocoHttpClient(url) as client:
        assert call(client)["run_id"] == RUN
    assert len(seen) == len(pauses) + 1 == 3
    assert len({request.get("idempotency-key") for request in seen}) == 1


@pytest.mark.parametrize("call", SENT_ONCE.values(), ids=list(SENT_ONCE))
def test_another_request_is_sent_once(call: Callable[[PyocoHttpClient], Any]) -> None:
    with stub([unavailable(), ACCEPTED]) as (url, seen), PyocoHttpClient(url) as client:
        with pytest.raises(PyocoHttpError, match="503"):
            call(client)
        assert len(seen) == 1


def test_a_submit_has_a_key_of_its_own_or_the_given_one() -> None:
    with stub([ACCEPTED]) as (url, seen), PyocoHttpClient(url) as client:
        client.submit_run("x")
        client.submit_run("x")
        client.submit_run("x", **KEY)
    first, second, given = (request["idempotency-key"] for request in seen)
    assert UUID(first) != UUID(second)
    assert given == "k"


def test_without_retries_a_submit_needs_no_key() -> None:
    with stub([unavailable()]) as (url, seen), PyocoHttpClient(url, retries=0) as client:
        with pytest.raises(PyocoHttpError, match="503"):
            client.submit_run("x")
        assert [request.get("idempotency-key") for request in seen] == [None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(100.0)
    monkeypatch.setattr(sync_client, "time", clock)
    monkeypatch.setattr(retry_policy, "time", clock)
    return clock


def test_a_submit_waits_for_the_end_of_an_outage_of_nats(clock: Clock) -> None:
    """With one of three NATS servers gone, some streams have no leader for up to nine seconds."""
    answers = [unavailable()] * 7 + [ACCEPTED]
    with stub(answers, Retry_After="1") as (url, seen), PyocoHttpClient(url) as client:
        assert client.submit_run("x")["run_id"] == RUN
    assert len(seen) == 8
    assert len({request["idempotency-key"] for request in seen}) == 1


def test_the_wait_of_a_submit_is_bounded(clock: Clock) -> None:
    with stub([unavailable()], Retry_After="1") as (url, _), PyocoHttpClient(url) as client:
        with pytest.raises(PyocoHttpError, match="503"):
            client.submit_run("x")
        assert 9.0 <= clock.now - 100.0 <= 12.0
    with stub([unavailable()]) as (url, _), PyocoHttpClient(url, patience_sec=3) as client:
        began = clock.now
        with pytest.raises(PyocoHttpError, match="503"):
            client.submit_run("x")
        assert clock.now - began <= 3.0


def test_another_503_is_not_waited_for(clock: Clock) -> None:
    full = (503, "application/problem+json", '{"title": "full", "err_id": "ERR-PYOCO-0046"}')
    with stub([full], Retry_After="1") as (url, seen), PyocoHttpClient(url) as client:
        with pytest.raises(PyocoHttpError, match="503"):
            client.submit_run("x")
        assert len(seen) == 3


@pytest.mark.parametrize("retries", [0, 1, 4])
def test_number_of_retries(retries: int, pauses: list[float]) -> None:
    with stub([unavailable()]) as (url, seen), PyocoHttpClient(url, retries=retries) as client:
        with pytest.raises(PyocoHttpError, match="503"):
            client.health()
        assert len(seen) == len(pauses) + 1 == retries + 1


@pytest.mark.parametrize("status", [404, 409, 422, 500, 502])
def test_another_error_is_not_retried(status: int) -> None:
    with stub([(status, "text/plain", "no")]) as (url, seen), PyocoHttpClient(url) as client:
        with pytest.raises(PyocoHttpError):
            client.health()
        assert len(seen) == 1


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    # With one that is too long the error is raised. A date is ignored.
    [("1", [1.0, 1.0]), ("3600", []), ("Wed, 21 Oct 2065 07:28:00 GMT", [0.1, 0.2])],
)
def test_retry_after(retry_after: str, expected: list[float], pauses: list[float]) -> None:
    with (
        stub([unavailable()], Retry_After=retry_after) as (url, seen),
        PyocoHttpClient(url) as client,
        pytest.raises(PyocoHttpError),
    ):
        client.health()
    assert len(seen) == len(expected) + 1
    assert all(least <= pause <= least * 1.25 for least, pause in zip(expected, pauses, strict=True))


def test_a_refused_connection_is_retried(pauses: list[float]) -> None:
    with PyocoHttpClient("http://127.0.0.1:1", retries=2) as client:
        with pytest.raises(GatewayUnreachable):
            client.health()
        first, second = pauses
        assert 0.1 <= first <= 0.125
        assert 0.2 <= second <= 0.25
        with pytest.raises(GatewayUnreachable):
            client.rerun(RUN)
    assert len(pauses) == 2


async def test_retries_of_the_asynchronous_client() -> None:
    with stub([unavailable(), unavailable(), ACCEPTED]) as (url, seen):
        async with AsyncPyocoHttpClient(url) as client:
            assert (await client.submit_run("x"))["run_id"] == RUN
    assert len(seen) == 3
    assert len({request["idempotency-key"] for request in seen}) == 1
    with stub([unavailable(), ACCEPTED]) as (url, seen):
        async with AsyncPyocoHttpClient(url) as client:
            with pytest.raises(PyocoHttpError, match="503"):
                await client.rerun(RUN)
        assert len(seen) == 1
