"""Waits and streams of both clients: reconnects, polling where there are no streams, and giving up."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pyoco_server.http_api.streams.sse import KEEPALIVE_SEC
from pyoco_server.http_client import (
    AsyncPyocoHttpClient,
    GatewayUnreachable,
    PyocoHttpClient,
    PyocoHttpError,
    retry_policy,
)
from pyoco_server.http_client.event_stream import SILENCE_LIMIT_SEC
from tests.support.http_stub import answer, events, stub, unavailable, watched

NO_RUN = "00000000-0000-4000-8000-000000000000"
NOT_FOUND = (404, "application/problem+json", json.dumps({"title": "x", "err_id": "ERR-PYOCO-0005"}))

Call = Callable[[Any], Any]
Send = Callable[..., Any]


async def _sent_async(url: str, call: Call, **settings: Any) -> Any:
    async with AsyncPyocoHttpClient(url, **settings) as client:
        result = call(client)
        return [each async for each in result] if hasattr(result, "__aiter__") else await result


async def _sent_sync(url: str, call: Call, **settings: Any) -> Any:
    def use() -> Any:
        with PyocoHttpClient(url, **settings) as client:
            result = call(client)
            return list(result) if isinstance(result, Iterator) else result

    return await asyncio.to_thread(use)


@pytest.fixture(params=[_sent_sync, _sent_async], ids=["sync", "async"])
def send(request: pytest.FixtureRequest) -> Send:
    """Sends a call with one of the clients; the result of a stream is a list."""
    return request.param  # type: ignore[no-any-return]


async def test_a_watch_reconnects_and_continues_where_it_was(send: Send) -> None:
    answers = [watched("7", status="RUNNING"), unavailable(), unavailable(), watched("9", status="COMPLETED")]
    with stub(answers) as (url, seen):
        runs = await send(url, lambda client: client.follow(NO_RUN, 20))
    assert [run["status"] for run in runs] == ["RUNNING", "COMPLETED"]
    assert [request.get("last-event-id") for request in seen] == [None, "7", "7", "7"]
    assert all(request[":path"].startswith(f"/runs/{NO_RUN}/watch") for request in seen)


@pytest.mark.parametrize(
    "refusal",
    [
        (404, "application/problem+json", json.dumps({"title": "Not Found", "err_id": None})),
        (406, "text/html", "<h1>Not Acceptable</h1>"),
        (502, "text/html", "<h1>Bad Gateway</h1>"),
        answer(status="RUNNING"),
    ],
    ids=["an older gateway", "a proxy that refuses", "a proxy that fails", "something else"],
)
async def test_a_wait_polls_where_there_are_no_streams(send: Send, refusal: tuple[int, str, str]) -> None:
    polled = [answer(status="RUNNING", tasks={}), unavailable(), answer(status="COMPLETED", tasks={})]
    with stub([refusal, *polled]) as (url, seen):
        run = await send(url, lambda client: client.wait(NO_RUN, 20), retries=0)
    assert run["status"] == "COMPLETED"
    watch, *polls = [request[":path"] for request in seen]
    assert watch.startswith(f"/runs/{NO_RUN}/watch")
    assert polls == [f"/runs/{NO_RUN}"] * 3


async def test_a_run_that_is_removed_meanwhile_is_a_404(send: Send) -> None:
    removed = events(("3", "removed", {"run_id": NO_RUN, "ts": 1.0}))
    with stub([removed, NOT_FOUND]) as (url, _), pytest.raises(PyocoHttpError) as caught:
        await send(url, lambda client: client.wait(NO_RUN, 20))
    assert caught.value.err_id == "ERR-PYOCO-0005"


async def test_a_wait_ends_at_its_time_limit(send: Send) -> None:
    message = f"run {NO_RUN} is still RUNNING after 1 s; it goes on"
    with stub([watched("1", status="RUNNING")]) as (url, _), pytest.raises(TimeoutError, match=message):
        await send(url, lambda client: client.wait(NO_RUN, timeout_sec=1.0))


@pytest.mark.parametrize(("timeout_sec", "sent"), [(1.0, "1"), (7.95, "7"), (5000, "600")])
def test_the_time_limit_is_sent_to_the_gateway(timeout_sec: float, sent: str) -> None:
    with stub([watched("1", status="RUNNING")]) as (url, seen), PyocoHttpClient(url) as client:
        next(client.follow(NO_RUN, timeout_sec))
    with stub([watched("1", status="COMPLETED")]) as (url, seen_of_wait), PyocoHttpClient(url) as client:
        client.wait(NO_RUN, timeout_sec=timeout_sec)
    for request in (seen[0], seen_of_wait[0]):
        assert request[":path"].partition("timeout_sec=")[2] == sent


LINE = 'id: 7-0\nevent: line\ndata: {"text": "a"}\n\n'


@pytest.mark.parametrize(
    ("answers", "error", "message", "last_id"),
    [
        ([(200, "text/html", "<html>")], GatewayUnreachable, r"no pyoco-server gateway .*text/html", None),
        ([(200, "text/event-stream", LINE), (503, "text/plain", "away")], PyocoHttpError, "503", "7-0"),
    ],
    ids=["no gateway", "a gateway that does not return"],
)
async def test_a_stream_gives_up_after_the_time_for_reconnects(
    send: Send,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[tuple[int, str, str]],
    error: type[Exception],
    message: str,
    last_id: str | None,
) -> None:
    with stub(answers) as (url, seen):
        # An hour passes after the second request.
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + (3600 if len(seen) > 1 else 0))
        monkeypatch.setattr(retry_policy, "time", clock)
        with pytest.raises(error, match=message):
            await send(url, lambda client: client.follow_logs(NO_RUN), patience_sec=600)
    assert seen[0]["accept"] == "text/event-stream"
    assert len(seen) > 1
    assert seen[1].get("last-event-id") == last_id


async def test_paging_continues_until_there_is_no_progress(send: Send) -> None:
    """A page without lines is not the end: a search may need many pages."""

    def page(lines: list[str], next_after: str) -> tuple[int, str, str]:
        return answer(lines=[{"text": text} for text in lines], next_after=next_after, complete=False)

    with stub([page(["a"], "1-0"), page([], "9-0"), page(["b"], "12-0"), page([], "12-0")]) as (url, seen):
        lines = await send(url, lambda client: client.iter_logs(NO_RUN))
    assert [line["text"] for line in lines] == ["a", "b"]
    assert len(seen) == 4


def test_a_client_tolerates_more_silence_than_a_healthy_gateway_has() -> None:
    assert SILENCE_LIMIT_SEC >= 2 * KEEPALIVE_SEC
