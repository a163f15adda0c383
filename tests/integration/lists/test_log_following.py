"""Following a log over server-sent events."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from pyoco_server.broker.client.message import Message
from pyoco_server.broker.stores.runs.run_hints import RunWatch
from pyoco_server.broker.stores.runs.run_log_store import LogBatch, RunLogs
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.streams import sse
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.runs.watch import log_following
from pyoco_server.runs.watch.log_reading import LogPage, LogReader
from tests.support.broker.nats_server import NatsServer
from tests.support.event_reading import reading_events
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.printing_runs import PrintingRun, begun
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVENTS = {"Accept": "text/event-stream"}


@pytest.fixture(autouse=True)
def _no_look_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polling must not hide a lost hint."""
    monkeypatch.setattr(log_following, "_POLL_SEC", NEVER_SEC)


@pytest.fixture
def gateway(shared_gateway: RunningGateway) -> RunningGateway:
    return shared_gateway


@pytest_asyncio.fixture(loop_scope="module")
async def run(gateway: RunningGateway) -> AsyncIterator[PrintingRun]:
    yield await begun(gateway.inside.connection)
    await eventually(lambda: len(gateway.inside.runs.hints) == 0, describe="every stream is cleaned up")


def make_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf(self: RunWatch, message: Message) -> None:
        pass

    monkeypatch.setattr(RunWatch, "on_lines", deaf)
    monkeypatch.setattr(RunWatch, "on_snapshot", deaf)


def path_of(run: PrintingRun) -> str:
    return f"/runs/{run.run_id}/logs"


async def test_stored_lines_come_first_then_new_ones_then_the_end(
    gateway: RunningGateway, run: PrintingRun
) -> None:
    await run.prints("early", "still early")
    async with reading_events(gateway.http, path_of(run), headers=EVENTS) as reading:
        assert reading.response.headers["content-type"].startswith("text/event-stream")
        assert reading.response.headers["cache-control"] == "no-store"
        await reading.reads("early", "still early")
        await run.prints("late")
        await reading.reads("early", "still early", "late")
        assert (reading.end, reading.over) == (None, False)
        await run.prints("last words")
        await run.ends(RunStatus.FAILED)
        await reading.is_over()
        assert reading.texts == ["early", "still early", "late", "last words"]
        assert reading.end == {"status": "FAILED"}
        pages = (await gateway.http.get(path_of(run))).json()["lines"]
        assert [json.loads(event.data) for event in reading.events[:-1]] == pages
        assert [event.id for event in reading.events[:-1]] == [line["id"] for line in pages]


async def test_events_follow_the_sse_standard(gateway: RunningGateway, run: PrintingRun) -> None:
    await run.prints("a\u2028b")
    await run.ends()
    response = await gateway.http.get(path_of(run), params={"follow": "1"})
    line, end, rest = response.text.split("\n\n")
    id_, name, data = line.split("\n")
    assert (name, rest) == ("event: line", "")
    line = json.loads(data.removeprefix("data: "))
    assert (id_, line["text"]) == (f"id: {line['id']}", "a\u2028b")
    assert end == 'event: end\ndata: {"status":"COMPLETED"}'


async def test_a_stream_continues_after_the_last_event_id(gateway: RunningGateway, run: PrintingRun) -> None:
    await run.prints("a", "b", "c")
    await run.ends()
    first, second, _ = [line["id"] for line in (await gateway.http.get(path_of(run))).json()["lines"]]

    async def followed(query: dict[str, str], headers: dict[str, str]) -> list[str]:
        async with reading_events(
            gateway.http, path_of(run), params=query, headers={**EVENTS, **headers}
        ) as reading:
            await reading.is_over()
            return reading.texts

    assert await followed({"after": first}, {}) == ["b", "c"]
    assert await followed({}, {"Last-Event-ID": second}) == ["c"]
    assert await followed({"after": first}, {"Last-Event-ID": second}) == ["c"]
    assert await followed({}, {"Last-Event-ID": ""}) == ["a", "b", "c"]
    refused = await gateway.http.get(path_of(run), headers={**EVENTS, "Last-Event-ID": "nonsense"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "Last-Event-ID")


async def test_filters_apply_to_new_lines(gateway: RunningGateway, run: PrintingRun) -> None:
    await run.prints("one", task="load")
    query = {"task": "save", "search": "x"}
    async with reading_events(gateway.http, path_of(run), params=query, headers=EVENTS) as reading:
        await run.prints("no", task="save")
        await run.prints("X", task="save")
        await run.prints("x", task="load")
        await run.ends()
        await reading.is_over()
        assert reading.texts == ["X"]


async def test_a_long_log_is_sent_completely(gateway: RunningGateway, run: PrintingRun) -> None:
    expected = [f"{batch}.{number}" for batch in range(6) for number in range(500)]
    for batch in range(6):
        await run.prints(*expected[batch * 500 : (batch + 1) * 500])
    await run.ends()
    async with reading_events(gateway.http, path_of(run), headers=EVENTS) as reading:
        await reading.is_over()
        assert reading.texts == expected


async def test_comments_are_sent_while_idle(
    gateway: RunningGateway, run: PrintingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "KEEPALIVE_SEC", 0.05)
    async with reading_events(gateway.http, path_of(run), headers=EVENTS) as reading:
        await eventually(lambda: reading.raw.count(b": keepalive\n\n") > 2, describe="three keepalives")
        await run.prints("a")
        await reading.reads("a")


async def test_nothing_is_read_while_idle(
    gateway: RunningGateway, run: PrintingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: Counter[int] = Counter()
    page_of = LogReader.page

    async def counted(self: LogReader, limit: int, *, ended: bool) -> LogPage:
        pages[id(self)] += 1
        return await page_of(self, limit, ended=ended)

    monkeypatch.setattr(LogReader, "page", counted)
    monkeypatch.setattr(sse, "KEEPALIVE_SEC", 0.05)
    async with reading_events(gateway.http, path_of(run), headers=EVENTS) as reading:
        await run.prints("a")
        await reading.reads("a")
        await run.prints("b")
        await reading.reads("a", "b")
        # What was there, what each hint brought, and after each whether there is more: at once, and three
        # times within the next 1.3 s, since a hint may come before its line is stored.
        await eventually(lambda: reading.raw.endswith(b": keepalive\n\n" * 40), describe="the looks are over")
        looks = pages.total()
        assert looks <= 11
        await eventually(lambda: reading.raw.endswith(b": keepalive\n\n" * 80), describe="a long silence")
        assert pages.total() == looks


async def test_the_end_waits_for_a_lagging_replica(
    gateway: RunningGateway, run: PrintingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_to_leader, lags = RunLogs.last_sequence, iter([1, 1, 1])

    async def ahead(self: RunLogs, run_id: str) -> int:
        return await known_to_leader(self, run_id) + next(lags, 0)

    monkeypatch.setattr(RunLogs, "last_sequence", ahead)
    await run.prints("a")
    await run.ends()
    async with reading_events(gateway.http, path_of(run), headers=EVENTS) as reading:
        await reading.reads("a")
        await reading.is_over()  # after 15 seconds it would look by itself
        assert next(lags, None) is None


async def test_a_lost_hint_only_delays(
    gateway: RunningGateway, run: PrintingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_deaf(monkeypatch)
    monkeypatch.setattr(log_following, "_POLL_SEC", 0.1)
    async with reading_events(gateway.http, path_of(run), headers=EVENTS) as reading:
        await run.prints("a")
        await reading.reads("a")
        await run.ends()
        await reading.is_over()
        assert reading.end == {"status": "COMPLETED"}


async def test_a_deleted_run_ends_the_stream(gateway: RunningGateway, run: PrintingRun) -> None:
    await run.prints("a")
    async with reading_events(gateway.http, path_of(run), headers=EVENTS) as reading:
        await reading.reads("a")
        await run.is_removed()
        await reading.is_over()
        assert reading.end == {"status": None}


def subscriptions(gateway: RunningGateway, run: PrintingRun) -> int:
    """Those of this run: other parts of the gateway may subscribe to something meanwhile."""
    subscribed = gateway.inside.connection.client._subs.values()
    return sum(run.run_id in each.subject for each in subscribed)


async def test_a_disconnected_client_is_cleaned_up(gateway: RunningGateway, run: PrintingRun) -> None:
    tasks_before = len(asyncio.all_tasks())
    await run.prints("a")
    async with reading_events(gateway.http, path_of(run), headers=EVENTS) as reading:
        await reading.reads("a")
        assert (len(gateway.inside.runs.hints), subscriptions(gateway, run)) == (1, 2)
    await eventually(lambda: len(gateway.inside.runs.hints) == 0, describe="nobody watches")
    await eventually(lambda: subscriptions(gateway, run) == 0, describe="the subscriptions ended")
    await eventually(lambda: len(asyncio.all_tasks()) <= tasks_before, describe="no task is left")


async def test_an_ended_stream_is_cleaned_up(gateway: RunningGateway, run: PrintingRun) -> None:
    await run.ends()
    await gateway.http.get(path_of(run), headers=EVENTS)
    assert (len(gateway.inside.runs.hints), subscriptions(gateway, run)) == (0, 0)


async def test_an_outage_of_nats_loses_nothing(
    config: NatsBackendConfig, own_nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_following, "_POLL_SEC", 0.05)  # so that it looks during the outage, too
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        connection = gateway.inside.connection
        run = await begun(connection)
        await run.prints("before")
        async with reading_events(gateway.http, path_of(run), headers=EVENTS) as reading:
            await reading.reads("before")
            own_nats.kill()
            await eventually(lambda: not connection.state.up, describe="the outage is noticed")
            own_nats.start()
            await connection.wait_ready(LIMIT_SEC)
            await run.prints("after")
            await reading.reads("before", "after")
            await run.ends()
            await reading.is_over()
            assert reading.end == {"status": "COMPLETED"}


async def test_a_reconnect_subscribes_again(own_gateway: RunningGateway) -> None:
    connection = own_gateway.inside.connection
    run = await begun(connection)
    async with reading_events(own_gateway.http, path_of(run), headers=EVENTS) as reading:
        await eventually(lambda: len(own_gateway.inside.runs.hints) == 1, describe="it watches")
        first = connection.client
        await first.close()
        await eventually(lambda: connection.client is not first and connection.ready, describe="a new client")
        await run.prints("a")
        await reading.reads("a")
        await run.ends()
        await reading.is_over()


async def test_an_end_during_an_outage_is_seen_after_it(
    config: NatsBackendConfig, own_nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no hint of the last lines and the end: only the read after the reconnect finds them."""
    make_deaf(monkeypatch)
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        run = await begun(gateway.inside.connection)
        await run.prints("before")
        async with reading_events(gateway.http, path_of(run), headers=EVENTS) as reading:
            await reading.reads("before")
            await run.prints("unheard")
            await run.ends()
            assert reading.texts == ["before"]
            own_nats.restart()
            await reading.is_over()
            assert (reading.texts, reading.end) == (["before", "unheard"], {"status": "COMPLETED"})


async def test_a_slow_client_applies_backpressure(
    gateway: RunningGateway, run: PrintingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines_read: Counter[int] = Counter()
    page_of = LogReader.page

    async def counted(self: LogReader, limit: int, *, ended: bool) -> LogPage:
        page = await page_of(self, limit, ended=ended)
        lines_read[id(self)] += len(page.lines)
        return page

    monkeypatch.setattr(LogReader, "page", counted)
    text = "x" * 10_000
    for _ in range(60):
        await run.prints(*[text] * 50)
    await run.ends()
    address = urlsplit(str(gateway.http.base_url))
    _, slow = await asyncio.open_connection(address.hostname, address.port, limit=2**10)
    slow.write(f"GET {path_of(run)}?follow=1 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    async with asyncio.timeout(LIMIT_SEC):
        await eventually(lambda: len(lines_read) == 1, describe="the slow one is served")
        # Another client reads all of it meanwhile, and so the slow one had the time as well.
        whole = await gateway.http.get(path_of(run), headers=EVENTS)
    assert whole.content.count(b"event: line") == 3000
    slow_count, whole_count = lines_read.values()
    assert (slow_count < 2500, whole_count) == (True, 3000)
    slow.close()
    await eventually(lambda: len(gateway.inside.runs.hints) == 0, describe="nobody watches")


async def test_an_early_hint_only_delays(
    gateway: RunningGateway, run: PrintingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server publishes to subscribers before it stores: in a cluster, long before."""
    read, early = RunLogs.read, iter([True, True])

    async def read_too_early(self: RunLogs, run_id: str, **how: Any) -> list[LogBatch]:
        return [] if next(early, False) else await read(self, run_id, **how)

    await run.prints("a")
    async with reading_events(gateway.http, path_of(run), headers=EVENTS) as reading:
        await reading.reads("a")
        monkeypatch.setattr(RunLogs, "read", read_too_early)
        await run.prints("b")
        await reading.reads("a", "b")


async def test_a_line_whose_hint_was_merged_comes_soon(
    gateway: RunningGateway, run: PrintingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both hints wake the reader once; what it finds is only the first line."""
    read, lags = RunLogs.read, iter([1, 1, 1])

    async def read_one_behind(self: RunLogs, run_id: str, **how: Any) -> list[LogBatch]:
        batches = await read(self, run_id, **how)
        return batches[: len(batches) - next(lags, 0)]

    await run.prints("a")
    async with reading_events(gateway.http, path_of(run), headers=EVENTS) as reading:
        await reading.reads("a")
        monkeypatch.setattr(RunLogs, "read", read_one_behind)
        await asyncio.gather(run.prints("b"), run.prints("c"))
        await eventually(lambda: len(reading.texts) == 3, describe="both lines")
        assert sorted(reading.texts) == ["a", "b", "c"]
