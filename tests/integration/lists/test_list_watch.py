"""Watching a list of runs from the position of a list response."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.streams import sse
from pyoco_server.records.runs.run_models import RunStatus, new_run_id
from pyoco_server.runs.watch.run_hub import RunHub
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.stored_runs import written
from tests.support.event_reading import EventReader, raw_response, reading_events
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.samples.summaries import changed
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

CANCELLED, COMPLETED, FAILED, RUNNING = (
    RunStatus.CANCELLED,
    RunStatus.COMPLETED,
    RunStatus.FAILED,
    RunStatus.RUNNING,
)


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(shared_gateway: RunningGateway) -> AsyncIterator[RunningGateway]:
    """One whose index is ready, and without followers."""
    await ready(shared_gateway)
    yield shared_gateway
    changes = shared_gateway.inside.listing.run_hub
    await eventually(lambda: changes.followers == 0, describe="every watch is cleaned up")


async def ready(gateway: RunningGateway) -> None:
    await eventually(lambda: gateway.inside.listing.run_hub.ready, describe="the feed has begun")


def received(reading: EventReader) -> list[tuple[str, str]]:
    """What happened to which run: its status, or `removed`."""
    happened = []
    for event in reading.events:
        data = json.loads(event.data)
        if event.name in ("snapshot", "removed"):
            happened.append((data["run_id"], data.get("snapshot", {}).get("status", event.name)))
    return happened


def names(reading: EventReader) -> list[str]:
    return [event.name for event in reading.events]


def _has_begun(reading: EventReader) -> bool:
    return names(reading) == ["heartbeat"]


async def receives(reading: EventReader, *expected: tuple[str, str]) -> None:
    await eventually(lambda: received(reading) == list(expected), describe=f"received {expected}")


async def listed(gateway: RunningGateway, **query: str) -> tuple[Any, str]:
    response = await gateway.http.get("/runs", params=query)
    assert response.status_code == 200, response.text
    return response.json(), response.headers["X-Pyoco-Revision"]


async def test_a_heartbeat_comes_first_then_changes(gateway: RunningGateway) -> None:
    old = await written(gateway.inside.connection)
    await listed(gateway)
    async with reading_events(gateway.http, "/runs/watch") as reading:
        assert reading.response.headers["content-type"].startswith("text/event-stream")
        await eventually(lambda: names(reading) == ["heartbeat"], describe="a heartbeat")
        new = await written(gateway.inside.connection)
        await receives(reading, (new.run_id, "PENDING"))
        await old.becomes(COMPLETED)
        await new.becomes(RUNNING)
        await receives(reading, (new.run_id, "PENDING"), (old.run_id, "COMPLETED"), (new.run_id, "RUNNING"))
        last = json.loads(reading.events[-1].data)
        [item] = [item for item in (await listed(gateway))[0] if item["run_id"] == new.run_id]
        assert last["snapshot"] == item
        assert last.keys() == {"run_id", "snapshot", "ts"}


async def test_params_are_watched_if_asked_for(gateway: RunningGateway) -> None:
    await listed(gateway)
    async with (
        reading_events(gateway.http, "/runs/watch?include=params") as asked,
        reading_events(gateway.http, "/runs/watch") as usual,
    ):
        for reading in (asked, usual):
            await eventually(partial(_has_begun, reading), describe="a heartbeat")
        run = await written(gateway.inside.connection, params={"day": "2026-11-17"})
        for reading in (asked, usual):
            await receives(reading, (run.run_id, "PENDING"))
    assert json.loads(asked.events[-1].data)["snapshot"]["params_preview"] == '{"day":"2026-11-17"}'
    assert "params_preview" not in json.loads(usual.events[-1].data)["snapshot"]


async def test_nothing_is_lost_between_the_list_and_the_watch(gateway: RunningGateway) -> None:
    connection = gateway.inside.connection
    run, other = await written(connection), await written(connection)
    items, position = await listed(gateway)
    assert {item["run_id"] for item in items} >= {run.run_id, other.run_id}
    await run.becomes(RUNNING)
    await run.becomes(COMPLETED)
    new = await written(connection)
    await listed(gateway)  # so that the gateway has read them
    async with reading_events(gateway.http, "/runs/watch", params={"after": position}) as reading:
        await receives(reading, (run.run_id, "COMPLETED"), (new.run_id, "PENDING"))
        await other.is_removed()
        await receives(reading, (run.run_id, "COMPLETED"), (new.run_id, "PENDING"), (other.run_id, "removed"))


async def test_a_run_enters_the_list_and_leaves_it(gateway: RunningGateway) -> None:
    connection = gateway.inside.connection
    began_before = await written(connection)
    await began_before.becomes(RUNNING)
    _, position = await listed(gateway, status="RUNNING")
    query = {"status": "RUNNING", "after": position}
    async with reading_events(gateway.http, "/runs/watch", params=query) as reading:
        await eventually(lambda: names(reading) == ["heartbeat"], describe="a heartbeat")
        run = await written(connection)
        await run.becomes(RUNNING)
        await receives(reading, (run.run_id, "RUNNING"))
        await run.becomes(FAILED)
        await receives(reading, (run.run_id, "RUNNING"), (run.run_id, "removed"))
        await began_before.becomes(COMPLETED)
        await receives(
            reading,
            (run.run_id, "RUNNING"),
            (run.run_id, "removed"),
            (began_before.run_id, "removed"),
        )


async def test_a_reconnected_client_continues_after_its_position(gateway: RunningGateway) -> None:
    connection = gateway.inside.connection
    _, position = await listed(gateway)
    async with reading_events(gateway.http, "/runs/watch", params={"after": position}) as reading:
        first, second = await written(connection), await written(connection)
        await receives(reading, (first.run_id, "PENDING"), (second.run_id, "PENDING"))
        had = reading.events[-1].id
        assert had is not None
    third = await written(connection)
    await listed(gateway)
    headers = {"Last-Event-ID": had}  # a browser sends its first address again
    async with reading_events(
        gateway.http, "/runs/watch", params={"after": position}, headers=headers
    ) as reading:
        await receives(reading, (third.run_id, "PENDING"))


async def test_heartbeats_carry_the_position(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a client of a quiet list can reconnect, though many other runs have changed."""
    monkeypatch.setattr(sse, "KEEPALIVE_SEC", 0.05)
    async with reading_events(gateway.http, "/runs/watch", params={"flow": "quiet"}) as reading:
        await written(gateway.inside.connection)
        newest = str((await listed(gateway))[1])
        await eventually(
            lambda: any(event.id == newest for event in reading.events[-1:]),
            describe="the newest position",
        )
        assert set(names(reading)) == {"heartbeat"}


async def test_a_position_of_another_bucket_gets_a_reset(gateway: RunningGateway) -> None:
    response = await gateway.http.get("/runs/watch", params={"after": "0badcafe-1"})
    assert (response.status_code, response.text.count("event: "), response.text.count("event: reset")) == (
        200,
        1,
        1,
    )


async def test_a_client_that_does_not_read_gets_a_reset(own_gateway: RunningGateway) -> None:
    await ready(own_gateway)
    changes, revision = own_gateway.inside.listing.run_hub, 1000
    async with (
        raw_response(own_gateway.http, "/runs/watch", buffer=2**10) as slow,
        raw_response(own_gateway.http, "/runs/watch", buffer=2**22) as fast,
        asyncio.timeout(LIMIT_SEC),
    ):
        # Both follow the list now.
        await slow.readuntil(b"event: heartbeat")
        await fast.readuntil(b"event: heartbeat")
        for _ in range(30):
            batch = [changed(new_run_id(), revision + n, flow="x" * 200) for n in range(1000)]
            revision += 1000
            await changes.publish(batch)
            # Another client reads all of it, and so the slow one had the time as well.
            await fast.readuntil(b"-%d\n" % (revision - 1))
        got = b""
        while b"event: reset" not in got:
            chunk = await slow.read(2**20)
            assert chunk, "the stream has ended"
            got += chunk
        assert got.count(b"event: snapshot") < 25_000
    await eventually(lambda: changes.followers == 0, describe="no follower is left")


async def test_a_watch_ends_after_its_timeout(gateway: RunningGateway) -> None:
    async with reading_events(gateway.http, "/runs/watch", params={"timeout_sec": "1"}) as reading:
        await reading.is_over()
        assert set(names(reading)) == {"heartbeat"}
    assert not gateway.inside.listing.run_hub.has_followers


async def test_a_disconnected_client_is_cleaned_up(gateway: RunningGateway) -> None:
    changes, tasks_before = gateway.inside.listing.run_hub, len(asyncio.all_tasks())
    async with reading_events(gateway.http, "/runs/watch") as reading:
        await eventually(lambda: names(reading) == ["heartbeat"], describe="a heartbeat")
        assert (changes.followers, changes.has_list_followers) == (1, True)
    await eventually(lambda: changes.followers == 0, describe="no follower is left")
    assert not changes.has_followers
    await eventually(lambda: len(asyncio.all_tasks()) <= tasks_before, describe="no task is left")


async def test_a_stopping_gateway_ends_its_watches(own_gateway: RunningGateway) -> None:
    await ready(own_gateway)
    async with reading_events(own_gateway.http, "/runs/watch") as reading:
        await eventually(lambda: names(reading) == ["heartbeat"], describe="a heartbeat")
        own_gateway.inside.stopping.set()
        await reading.is_over()


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"status": "SLEEPING"}, "status"),
        ({"after": "4711"}, "after"),
        ({"after": "'; --"}, "after"),
        ({"timeout_sec": "0"}, "timeout_sec"),
        ({"timeout_sec": "601"}, "timeout_sec"),
        ({"updated_after": "soon"}, "updated_after"),
        ({"limit": "5"}, "limit"),
        ({"cursor": "x"}, "cursor"),
        ({"folw": "etl"}, "folw"),
    ],
)
async def test_an_invalid_query_is_a_422_with_the_field(
    gateway: RunningGateway, query: dict[str, str], field: str
) -> None:
    response = await gateway.http.get("/runs/watch", params=query)
    assert (response.status_code, response.json()["err_id"]) == (422, "ERR-PYOCO-0017")
    assert response.json()["errors"][0]["field"] == field


async def test_an_invalid_last_event_id_is_a_422(gateway: RunningGateway) -> None:
    response = await gateway.http.get("/runs/watch", headers={"Last-Event-ID": "x"})
    assert (response.status_code, response.json()["err_id"]) == (422, "ERR-PYOCO-0017")
    assert response.json()["errors"][0]["field"] == "Last-Event-ID"


async def test_a_watch_is_a_503_while_the_index_is_filled(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunHub, "ready", False)
    response = await gateway.http.get("/runs/watch")
    assert (response.status_code, response.json()["err_id"]) == (503, "ERR-PYOCO-0031")


async def test_an_outage_is_a_503_and_open_watches_continue_after_it(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        await ready(gateway)
        inside: Gateway = gateway.inside
        async with reading_events(gateway.http, "/runs/watch") as reading:
            own_nats.kill()
            await eventually(lambda: not inside.connection.state.up, describe="it is noticed")
            response = await gateway.http.get("/runs/watch")
            assert (response.status_code, response.json()["err_id"]) == (503, "ERR-PYOCO-0003")
            own_nats.start()
            await inside.connection.wait_ready(LIMIT_SEC)
            run = await written(inside.connection)
            await receives(reading, (run.run_id, "PENDING"))


async def test_positions_are_valid_across_gateways(
    config: NatsBackendConfig, own_gateway: RunningGateway
) -> None:
    await ready(own_gateway)
    async with running_gateway(config) as other:
        await ready(other)
        run = await written(own_gateway.inside.connection)
        _, position = await listed(own_gateway)
        await run.becomes(RUNNING)
        async with reading_events(other.http, "/runs/watch", params={"after": position}) as reading:
            await receives(reading, (run.run_id, "RUNNING"))
