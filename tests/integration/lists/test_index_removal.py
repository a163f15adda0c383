"""Deleted runs leave the index, also without a delete marker."""

import json
from dataclasses import replace

import pytest

from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.config import NatsBackendConfig
from pyoco_server.runs.sweep.retention import Retention
from tests.integration.lists.test_run_list import ids, listed
from tests.support.broker.stored_runs import ended, snapshot, write
from tests.support.event_reading import reading_events
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.waiting import eventually, eventually_equals


async def purge(gateway: RunningGateway, run_id: str) -> None:
    """Remove a key without a marker."""
    await jetstream_api.purge(gateway.inside.connection, "KV_pyoco_runs", f"$KV.pyoco_runs.{run_id}")


async def remembers_markers(gateway: RunningGateway, run_ids: list[str]) -> None:
    """A list does not wait until the others are forgotten."""
    await eventually_equals(
        gateway.inside.listing.index.markers,
        run_ids,
        describe="the markers that were removed are forgotten",
    )
    assert list(gateway.inside.sweeper._runs.markers) == run_ids


async def test_a_deleted_run_is_not_listed_any_more(gateway: RunningGateway) -> None:
    first, second = await write(gateway.inside.runs.store, ended(at=1.0), ended(at=2.0))
    assert await ids(gateway) == [second, first]
    await gateway.inside.runs.store.delete(first, revision=1)
    assert await ids(gateway) == [second]
    page = await listed(gateway, total="true")
    assert page["total"] == 1


async def test_retention_removes_the_rows(config: NatsBackendConfig) -> None:
    config = replace(config, run_retention_sec=0.5, sweep_interval_sec=0.1)
    async with running_gateway(config) as gateway, running_gateway(config) as other:
        await write(gateway.inside.runs.store, *(ended() for _ in range(3)))
        open_runs = await write(gateway.inside.runs.store, snapshot())
        for each in (gateway, other):

            async def only_the_open_one(each: RunningGateway = each) -> bool:
                return await ids(each) == open_runs

            await eventually(only_the_open_one, describe="the ended runs are gone")


async def test_runs_that_disappeared_while_stopped_are_removed(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.broker.jetstream.removed_keys._BATCH", 4)
    elsewhere = replace(config, index_dir=config.index_dir + "-other")
    async with running_gateway(config) as gateway:
        written = await write(gateway.inside.runs.store, *(ended(at=float(number)) for number in range(10)))
        assert len(await ids(gateway)) == 10
    gone = [written[0], written[3], written[4], written[9]]
    async with running_gateway(elsewhere) as other:
        for run_id in gone:
            await purge(other, run_id)
    async with running_gateway(config) as gateway:
        left = [run_id for run_id in reversed(written) if run_id not in gone]
        await eventually_equals(
            lambda: ids(gateway), left, describe="the disappeared runs are not listed any more"
        )
        assert (await listed(gateway, total="true"))["total"] == 6
        # The last message is gone, and yet there is nothing to wait for.
        new = await write(gateway.inside.runs.store, ended(at=99.0))
        assert await ids(gateway) == [*new, *left]


async def test_disappeared_runs_are_found_among_markers(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.broker.jetstream.removed_keys._BATCH", 8)
    elsewhere = replace(config, index_dir=config.index_dir + "-other")
    async with running_gateway(config) as gateway:
        written = await write(gateway.inside.runs.store, *(ended(at=float(number)) for number in range(30)))
        assert len(await ids(gateway)) == 30
    async with running_gateway(elsewhere) as other:
        for number in range(20):
            await other.inside.runs.store.delete(written[number], revision=number + 1)
        for run_id in written[:10]:
            await purge(other, run_id)
    async with running_gateway(config) as gateway:
        await eventually_equals(
            lambda: ids(gateway), written[:19:-1], describe="the disappeared runs are not listed any more"
        )
        assert await gateway.inside.listing.index.markers() == written[10:20]
        assert list(gateway.inside.sweeper._runs.markers) == written[10:20]


async def test_a_disappeared_run_is_found_and_a_marker_kept(
    gateway: RunningGateway,
) -> None:
    deleted, disappeared, left = await write(
        gateway.inside.runs.store, ended(at=1.0), ended(at=2.0), ended(at=3.0)
    )
    assert len(await ids(gateway)) == 3
    # As many messages as runs that are known: one of them is a marker.
    await purge(gateway, disappeared)
    await gateway.inside.runs.store.delete(deleted, revision=1)

    async def is_right() -> bool:
        return await ids(gateway) == [left]

    assert await eventually(is_right, describe="the disappeared run is not listed any more")
    assert await gateway.inside.listing.index.markers() == [deleted]
    assert list(gateway.inside.sweeper._runs.markers) == [deleted]


async def test_a_marker_removed_out_of_order_is_forgotten(gateway: RunningGateway) -> None:
    written = await write(gateway.inside.runs.store, *(ended(at=float(number)) for number in range(4)))
    for number in (0, 1, 2):
        await gateway.inside.runs.store.delete(written[number], revision=number + 1)
    assert await ids(gateway) == written[3:]
    await purge(gateway, written[2])
    assert await ids(gateway) == written[3:]
    await remembers_markers(gateway, written[:2])


async def test_a_reconnected_list_watch_reports_a_disappeared_run(
    gateway: RunningGateway,
) -> None:
    disappeared, left = await write(gateway.inside.runs.store, ended(at=1.0), ended(at=2.0))
    before = (await gateway.http.get("/runs")).headers["X-Pyoco-Revision"]
    await purge(gateway, disappeared)

    async def is_right() -> bool:
        return await ids(gateway) == [left]

    assert await eventually(is_right, describe="the disappeared run is not listed any more")
    # Twice: nothing was written since, so that its place has not moved.
    for _ in range(2):
        async with reading_events(gateway.http, "/runs/watch", params={"after": before}) as reading:
            await eventually(lambda: reading.events, describe="the first event")
            first = reading.events[0]
            assert (first.name, json.loads(first.data)["run_id"]) == ("removed", disappeared)
    # One who wants other runs is not.
    other = {"after": before, "status": "failed"}
    async with reading_events(gateway.http, "/runs/watch", params=other) as reading:
        await eventually(lambda: reading.events, describe="the first event")
        assert reading.events[0].name == "heartbeat"


async def test_a_run_written_meanwhile_is_kept(gateway: RunningGateway) -> None:
    rewritten, disappeared, removed = ended(at=1.0), ended(at=2.0), ended(at=3.0)
    await write(gateway.inside.runs.store, rewritten, disappeared, removed)
    await gateway.inside.runs.store.replace(rewritten, revision=1)
    await purge(gateway, disappeared.run_id)
    await gateway.inside.runs.store.delete(removed.run_id, revision=3)
    known = [(1, rewritten.run_id), (2, disappeared.run_id), (3, removed.run_id)]
    assert await gateway.inside.listing.feed._removed._not_stored(known) == [2]


async def test_a_disappeared_open_run_is_forgotten_by_the_sweep(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    disappeared, other = await write(gateway.inside.runs.store, snapshot(), snapshot())
    assert len(await ids(gateway)) == 2
    await purge(gateway, disappeared)

    async def is_forgotten() -> bool:
        runs = gateway.inside.sweeper._runs
        return [run.run_id async for group in runs.groups() for run in group] == [other]

    assert await eventually(is_forgotten, describe="it is not among the open runs")
    assert await ids(gateway) == [other]


# Markers


async def test_a_marker_survives_a_restart_and_is_removed_by_the_sweep(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_gateway(config) as gateway:
        first, second = await write(gateway.inside.runs.store, ended(at=1.0), ended(at=2.0))
        await gateway.inside.runs.store.delete(first, revision=1)
        assert await ids(gateway) == [second]
    defaults = Retention.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "marker_sec", 0.2)
    async with running_gateway(replace(config, sweep_interval_sec=0.1)) as gateway:
        await gateway.inside.listing.lists.caught_up()
        assert list(gateway.inside.sweeper._runs.markers) in ([first], [])

        async def is_gone() -> bool:
            info = await jetstream_api.call(gateway.inside.connection, "STREAM.INFO.KV_pyoco_runs")
            return bool(info["state"]["messages"] == 1)

        assert await eventually(is_gone, describe="the marker is removed")

        async def is_forgotten() -> bool:
            await gateway.inside.listing.lists.caught_up()
            return await gateway.inside.listing.index.markers() == []

        assert await eventually(is_forgotten, describe="the index has forgotten the marker")
        assert await ids(gateway) == [second]


async def test_markers_removed_by_another_gateway_are_forgotten(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    runs = [ended(at=float(number)) for number in range(4)]
    written = await write(gateway.inside.runs.store, *runs)
    for number in (0, 1, 2):
        await gateway.inside.runs.store.delete(written[number], revision=number + 1)
    assert await ids(gateway) == written[3:]
    markers = gateway.inside.sweeper._runs.markers
    assert list(markers) == written[:3]
    for run_id in written[:2]:
        await purge(gateway, run_id)
    assert await ids(gateway) == written[3:]
    await remembers_markers(gateway, [written[2]])
