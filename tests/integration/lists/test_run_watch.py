"""Watching a run: its newest snapshot, each change, and its end."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec import Raw

from pyoco_server.broker.jetstream import bucket_feed, jetstream_api
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.streams import sse
from pyoco_server.records.runs.run_models import RunStatus, new_run_id
from pyoco_server.runs.index.run_feed_reader import RunFeedReader
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.stored_runs import WrittenRun, written
from tests.support.event_reading import EventReader, raw_response, reading_events
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.samples.summaries import changed
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

COMPLETED, FAILED, RUNNING = RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.RUNNING


@pytest.fixture
def gateway(shared_gateway: RunningGateway) -> RunningGateway:
    return shared_gateway


@pytest_asyncio.fixture(loop_scope="module")
async def run(gateway: RunningGateway) -> AsyncIterator[WrittenRun]:
    yield await written(gateway.inside.connection)
    changes = gateway.inside.listing.run_hub
    await eventually(lambda: changes.followers == 0, describe="every watch is cleaned up")


def path_of(run: WrittenRun) -> str:
    return f"/runs/{run.run_id}/watch"


def received(reading: EventReader) -> list[dict[str, Any]]:
    """The data of each snapshot so far."""
    return [json.loads(event.data) for event in reading.events if event.name == "snapshot"]


def statuses(reading: EventReader) -> list[str]:
    return [data["snapshot"]["status"] for data in received(reading)]


def names(reading: EventReader) -> list[str]:
    return [event.name for event in reading.events]


async def receives(reading: EventReader, *expected: str) -> None:
    await eventually(lambda: statuses(reading) == list(expected), describe=f"received {expected}")


async def test_the_newest_snapshot_comes_first_then_each_change_then_the_end(
    gateway: RunningGateway, run: WrittenRun
) -> None:
    opened_at = time.time()
    async with reading_events(gateway.http, path_of(run)) as reading:
        assert reading.response.headers["content-type"].startswith("text/event-stream")
        assert reading.response.headers["cache-control"] == "no-store"
        await receives(reading, "PENDING")
        await run.becomes(RUNNING, tasks={"load": "RUNNING"})
        await receives(reading, "PENDING", "RUNNING")
        assert not reading.over
        await run.becomes(COMPLETED)
        await reading.is_over()
        assert statuses(reading) == ["PENDING", "RUNNING", "COMPLETED"]
        assert [event.id for event in reading.events][-1] == str(run.revision)
        stored = await gateway.get(run.run_id)
        last = received(reading)[-1]
        assert last["run_id"] == run.run_id
        assert opened_at <= last["ts"] <= time.time()
        assert last["snapshot"].items() <= stored.items()
        assert "task_records" not in last["snapshot"]


async def test_events_follow_the_sse_standard(gateway: RunningGateway, run: WrittenRun) -> None:
    await run.becomes(FAILED, error="a\u2028b")
    response = await gateway.http.get(path_of(run))
    event, rest = response.text.split("\n\n")
    id_, name, data = event.split("\n")
    assert (id_, name, rest) == (f"id: {run.revision}", "event: snapshot", "")
    assert json.loads(data.removeprefix("data: "))["snapshot"]["error"] == "a\u2028b"


async def test_a_change_is_pushed_without_polling(
    gateway: RunningGateway, run: WrittenRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_feed, "_POLL_SEC", NEVER_SEC)
    async with reading_events(gateway.http, path_of(run)) as reading:
        for number in range(1, 12):
            await eventually(lambda: len(received(reading)) >= number, describe="it is sent")  # noqa: B023
            await run.becomes(RUNNING, attempt=number)
            await eventually(lambda: len(received(reading)) > number, describe="it is sent")  # noqa: B023


async def test_a_change_during_the_subscription_is_pushed(
    gateway: RunningGateway, run: WrittenRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = gateway.inside.listing.feed._writes
    renew = writes.renew

    async def too_late_to_hear_of_it() -> bool:
        if run.snapshot.status is not RUNNING:
            await run.becomes(RUNNING)
        return await renew()

    # Now the feed has read all that was written.
    assert (await gateway.http.get("/runs")).status_code == 200
    # No polling.
    monkeypatch.setattr(bucket_feed, "_POLL_SEC", NEVER_SEC)
    monkeypatch.setattr(writes, "renew", too_late_to_hear_of_it)
    async with reading_events(gateway.http, path_of(run)) as reading:
        await eventually(lambda: "RUNNING" in statuses(reading), describe="it is sent")


@pytest_asyncio.fixture(loop_scope="module")
async def may_fill(own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """No other index is filled until it is set."""
    await eventually(lambda: own_gateway.inside.listing.lists.ready, describe="there is an index")
    allowed = asyncio.Event()
    begin = RunFeedReader.begin

    async def held_back(self: RunFeedReader, created: str) -> None:
        await allowed.wait()
        await begin(self, created)

    monkeypatch.setattr(RunFeedReader, "begin", held_back)
    return allowed


async def test_the_end_is_pushed_while_the_index_is_rebuilt(
    own_gateway: RunningGateway, config: NatsBackendConfig, may_fill: asyncio.Event
) -> None:
    run = await written(own_gateway.inside.connection)
    async with reading_events(own_gateway.http, path_of(run)) as reading:
        await receives(reading, "PENDING")
        (Path(config.index_dir) / "runs-1.sqlite").unlink()
        await eventually(lambda: not own_gateway.inside.listing.lists.ready, describe="it is given up")
        await run.becomes(COMPLETED)
        counted = own_gateway.inside.listing.run_hub.newest
        may_fill.set()
        await reading.is_over()
        assert statuses(reading) == ["PENDING", "COMPLETED"]
        assert own_gateway.inside.listing.run_hub.newest.revision >= counted.revision


async def test_the_end_is_pushed_by_a_gateway_without_an_index(
    own_gateway: RunningGateway, config: NatsBackendConfig, may_fill: asyncio.Event
) -> None:
    run = await written(own_gateway.inside.connection)
    elsewhere = replace(config, index_dir=config.index_dir + "-new")
    async with (
        running_gateway(elsewhere) as other,
        reading_events(other.http, path_of(run)) as reading,
    ):
        await receives(reading, "PENDING")
        assert not other.inside.listing.lists.ready
        await run.becomes(COMPLETED)
        may_fill.set()
        await reading.is_over()
        assert statuses(reading) == ["PENDING", "COMPLETED"]


async def test_a_disappeared_run_ends_its_watch_and_resets_lists(
    gateway: RunningGateway, run: WrittenRun
) -> None:
    async with (
        reading_events(gateway.http, path_of(run)) as reading,
        reading_events(gateway.http, "/runs/watch") as of_list,
    ):
        await receives(reading, "PENDING")
        # A list waits until the feed has read the run.
        assert (await gateway.http.get("/runs")).status_code == 200
        subject = f"$KV.pyoco_runs.{run.run_id}"
        await jetstream_api.purge(gateway.inside.connection, "KV_pyoco_runs", subject)
        await reading.is_over()
        assert names(reading) == ["snapshot", "removed"]
        await of_list.is_over()
        assert names(of_list)[-1] == "reset"


async def test_a_run_from_its_submission_to_its_end(
    config: NatsBackendConfig, own_gateway: RunningGateway
) -> None:
    run_id = await own_gateway.submit("chain")
    async with reading_events(own_gateway.http, f"/runs/{run_id}/watch") as reading:
        async with serving_worker(config):
            await reading.is_over()
        order = ["PENDING", "RUNNING", "COMPLETED"]
        seen = statuses(reading)
        assert seen == sorted(seen, key=order.index)
        assert (seen[0], seen[-1]) == ("PENDING", "COMPLETED")
        assert len({event.id for event in reading.events}) == len(seen)


@pytest.mark.parametrize("include", ["records", "full", "all"])
async def test_records_are_included_on_request(
    gateway: RunningGateway, run: WrittenRun, include: str
) -> None:
    async with (
        reading_events(gateway.http, path_of(run), params={"include": include}) as with_records,
        reading_events(gateway.http, path_of(run)) as without,
    ):
        await run.becomes(COMPLETED, task_records={"load": Raw(b'{"output": 7}')})
        await with_records.is_over()
        await without.is_over()
        assert received(with_records)[-1]["snapshot"]["task_records"] == {"load": {"output": 7}}
        assert "task_records" not in received(without)[-1]["snapshot"]


async def test_since_skips_an_older_snapshot(gateway: RunningGateway, run: WrittenRun) -> None:
    at = (await gateway.get(run.run_id))["updated_at"]
    async with (
        reading_events(gateway.http, path_of(run), params={"since": at}) as same,
        reading_events(gateway.http, path_of(run), params={"since": at - 1}) as older,
    ):
        await eventually(lambda: names(same) == ["heartbeat"], describe="a heartbeat")
        await receives(older, "PENDING")
        await run.becomes(RUNNING)
        await receives(same, "RUNNING")
        await receives(older, "PENDING", "RUNNING")


async def test_a_watch_continues_after_the_last_event_id(gateway: RunningGateway, run: WrittenRun) -> None:
    first = str(run.revision)
    async with reading_events(gateway.http, path_of(run), headers={"Last-Event-ID": first}) as reading:
        await eventually(lambda: names(reading) == ["heartbeat"], describe="a heartbeat")
        await run.becomes(RUNNING)
        await receives(reading, "RUNNING")
    async with reading_events(gateway.http, path_of(run), headers={"Last-Event-ID": first}) as reading:
        await receives(reading, "RUNNING")
    async with reading_events(gateway.http, path_of(run), headers={"Last-Event-ID": ""}) as reading:
        await receives(reading, "RUNNING")


async def test_the_end_is_always_sent(gateway: RunningGateway, run: WrittenRun) -> None:
    """A disconnected client does not know whether it has everything."""
    await run.becomes(COMPLETED)
    response = await gateway.http.get(
        path_of(run), params={"since": time.time() + 60}, headers={"Last-Event-ID": str(run.revision)}
    )
    assert response.text.count("event: ") == response.text.count("event: snapshot") == 1


async def test_a_watch_ends_after_its_timeout(gateway: RunningGateway, run: WrittenRun) -> None:
    began = time.monotonic()
    async with reading_events(gateway.http, path_of(run), params={"timeout_sec": 1}) as reading:
        await reading.is_over()
        assert time.monotonic() - began > 0.9
        assert names(reading)[0] == "snapshot"
    assert gateway.inside.listing.run_hub.followers == 0


async def test_heartbeats_are_sent_while_idle(
    gateway: RunningGateway, run: WrittenRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "KEEPALIVE_SEC", 0.05)
    async with reading_events(gateway.http, path_of(run)) as reading:
        await eventually(lambda: names(reading).count("heartbeat") > 2, describe="three heartbeats")
        beat = next(event for event in reading.events if event.name == "heartbeat")
        assert json.loads(beat.data).keys() == {"run_id", "ts"}
        await run.becomes(RUNNING)
        await receives(reading, "PENDING", "RUNNING")


async def test_a_deleted_run_ends_the_watch(gateway: RunningGateway, run: WrittenRun) -> None:
    async with reading_events(gateway.http, path_of(run)) as reading:
        await receives(reading, "PENDING")
        await run.is_removed()
        await reading.is_over()
        assert names(reading) == ["snapshot", "removed"]
        assert json.loads(reading.events[-1].data)["run_id"] == run.run_id


async def test_a_refused_write_is_never_sent(gateway: RunningGateway, run: WrittenRun) -> None:
    """Subscribers of the bucket receive it like any other."""
    async with reading_events(gateway.http, path_of(run)) as reading:
        await receives(reading, "PENDING")
        await run.becomes(RUNNING)
        await run.loses_a_race(FAILED)
        await run.loses_a_race(RunStatus.CANCELLED)
        await receives(reading, "PENDING", "RUNNING")
        await run.becomes(COMPLETED)
        await reading.is_over()
        assert statuses(reading) == ["PENDING", "RUNNING", "COMPLETED"]


async def test_a_change_by_another_gateway_is_sent(
    config: NatsBackendConfig, own_gateway: RunningGateway
) -> None:
    run_id = await own_gateway.submit("chain")
    async with (
        running_gateway(config) as other,
        reading_events(own_gateway.http, f"/runs/{run_id}/watch") as reading,
    ):
        await receives(reading, "PENDING")
        assert (await other.http.post(f"/runs/{run_id}/cancel")).status_code == 200
        await reading.is_over()
        assert statuses(reading)[-1] == "CANCELLED"


@pytest.mark.parametrize("run_id", ["00000000-0000-4000-8000-000000000000", "no-uuid", "a.b", "*"])
async def test_a_run_that_does_not_exist_is_a_404(gateway: RunningGateway, run_id: str) -> None:
    response = await gateway.http.get(f"/runs/{run_id}/watch")
    assert (response.status_code, response.json()["err_id"]) == (404, "ERR-PYOCO-0005")
    assert gateway.inside.listing.run_hub.followers == 0


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"include": "everything"}, "include"),
        ({"since": "-1"}, "since"),
        ({"since": "nan"}, "since"),
        ({"since": "yesterday"}, "since"),
        ({"timeout_sec": "0"}, "timeout_sec"),
        ({"timeout_sec": "601"}, "timeout_sec"),
        ({"timeout_sec": "1.5"}, "timeout_sec"),
    ],
)
async def test_invalid_input_is_a_422_with_the_field(
    gateway: RunningGateway, run: WrittenRun, query: dict[str, str], field: str
) -> None:
    response = await gateway.http.get(path_of(run), params=query)
    assert (response.status_code, response.json()["err_id"]) == (422, "ERR-PYOCO-0002")
    assert response.json()["errors"][0]["field"] == field


async def test_an_invalid_last_event_id_is_a_422(gateway: RunningGateway, run: WrittenRun) -> None:
    response = await gateway.http.get(path_of(run), headers={"Last-Event-ID": "1-x"})
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "Last-Event-ID")


async def test_a_disconnected_client_is_cleaned_up(gateway: RunningGateway, run: WrittenRun) -> None:
    changes, tasks_before = gateway.inside.listing.run_hub, len(asyncio.all_tasks())
    async with reading_events(gateway.http, path_of(run)) as reading:
        await receives(reading, "PENDING")
        assert (changes.followers, changes.has_followers) == (1, True)
    await eventually(lambda: changes.followers == 0, describe="no follower is left")
    assert not changes.has_followers
    await eventually(lambda: len(asyncio.all_tasks()) <= tasks_before, describe="no task is left")


async def test_a_client_that_does_not_read_costs_one_snapshot(own_gateway: RunningGateway) -> None:
    run = await written(own_gateway.inside.connection)
    changes, params = own_gateway.inside.listing.run_hub, {"long": "x" * 100_000}
    async with (
        raw_response(own_gateway.http, path_of(run), buffer=2**13) as slow,
        raw_response(own_gateway.http, path_of(run), buffer=2**20) as fast,
        asyncio.timeout(LIMIT_SEC),
    ):
        await slow.readuntil(b"event: snapshot")
        for revision in range(10_000, 10_300):  # 30 MB, which no socket buffers
            await changes.publish([changed(run.run_id, revision, RUNNING, params=params)])
            # Another client reads each of them, and so the slow one had the time as well.
            await fast.readuntil(b"id: %d\n" % revision)
        await changes.publish([changed(run.run_id, 20_000, COMPLETED)])
        got = b""
        while b"id: 20000\n" not in got:
            got += await slow.read(2**20)
        assert 0 < got.count(b"event: snapshot") < 150
    await eventually(lambda: changes.followers == 0, describe="no follower is left")


async def test_an_outage_is_a_503_for_a_new_watch_and_loses_nothing(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        connection = gateway.inside.connection
        run = await written(connection)
        async with reading_events(gateway.http, path_of(run)) as reading:
            await receives(reading, "PENDING")
            own_nats.kill()
            await eventually(lambda: not connection.state.up, describe="the outage is noticed")
            refused = await gateway.http.get(f"/runs/{new_run_id()}/watch")
            assert (refused.status_code, refused.json()["err_id"]) == (503, "ERR-PYOCO-0003")
            assert gateway.inside.listing.run_hub.followers == 1
            own_nats.start()
            await connection.wait_ready(LIMIT_SEC)
            await run.becomes(RUNNING)
            await receives(reading, "PENDING", "RUNNING")
            await run.becomes(COMPLETED)
            await reading.is_over()
