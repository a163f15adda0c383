"""Retention: old runs are removed with all of their records, and later their delete markers."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.runs.open_runs import OpenRuns
from pyoco_server.runs.sweep.retention import Retention
from tests.support.broker.connections import connected
from tests.support.broker.stored_runs import ended, write
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.sweeping import config, rounds
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually, eventually_equals

__all__ = ["config"]


class Markers(Retention):
    """Removes markers from a set, one by one; some removals fail."""

    def __init__(self, runs: OpenRuns, count: int, *, marker_sec: float = -1.0) -> None:
        super().__init__(
            Connection(NatsBackendConfig(load_dotenv=False), name="test"), runs, marker_sec=marker_sec
        )
        self.bucket = [f"m{number}" for number in range(count)]
        self.stuck: set[str] = set()
        for run_id in self.bucket:
            runs.remember_marker(run_id)

    async def _remove_marker(self, run_id: str) -> None:
        if run_id in self.stuck:
            raise NatsUnavailable("NATS is away")
        self.bucket.remove(run_id)
        # What the feed does when it sees that a marker was removed.
        self._runs.forget_markers([run_id])
        await asyncio.sleep(0)

    async def remove_all(self) -> None:
        async for _ in self.remove_markers():
            pass


def remembered(runs: OpenRuns) -> list[str]:
    return list(runs.markers)


async def test_stored_markers_are_not_forgotten() -> None:
    runs = OpenRuns()
    markers = Markers(runs, 100)
    await markers.remove_all()
    assert (markers.bucket, remembered(runs)) == ([], [])


async def test_markers_are_put_back_after_a_failure() -> None:
    runs = OpenRuns()
    markers = Markers(runs, 100)
    markers.stuck = {"m3", "m5"}
    with pytest.raises(NatsUnavailable):
        await markers.remove_all()
    assert remembered(runs) == markers.bucket
    assert markers.bucket[:2] == ["m3", "m5"]
    markers.stuck.clear()
    await markers.remove_all()
    assert (markers.bucket, remembered(runs)) == ([], [])


async def test_markers_of_another_bucket_are_not_put_back() -> None:
    runs = OpenRuns()
    markers = Markers(runs, 3)
    markers.stuck = {"m2"}
    removing = asyncio.create_task(markers.remove_all())
    while len(markers.bucket) == 3:
        await asyncio.sleep(0)
    runs.reset("another one")
    with pytest.raises(NatsUnavailable):
        await removing
    assert remembered(runs) == []


async def test_a_young_marker_stays() -> None:
    runs = OpenRuns()
    markers = Markers(runs, 3, marker_sec=60.0)
    await markers.remove_all()
    assert remembered(runs) == markers.bucket == ["m0", "m1", "m2"]
    runs.markers["m0"] -= 61.0
    await markers.remove_all()
    assert remembered(runs) == markers.bucket == ["m1", "m2"]


async def test_a_group_of_removed_runs_is_one_log_line(
    config: NatsBackendConfig, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(replace(config, run_retention_sec=0.000001)) as connection:
        await write(RunStore(connection), *(ended() for _ in range(3)))
        with caplog.at_level(logging.INFO, logger="pyoco_server.runs.sweep.retention"):
            assert await anext(Retention(connection, OpenRuns()).remove_ended()) == 3
    lines = [record.getMessage() for record in caplog.records if record.name.endswith("retention")]
    assert lines == ["removed 3 ended runs"]


@pytest.fixture
async def short_retention(config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    async with running_gateway(replace(config, run_retention_sec=1.5)) as gateway:
        yield gateway


async def remains(gateway: RunningGateway, run_id: str) -> dict[str, int]:
    """The number of messages about the run in each stream."""
    context = gateway.inside.connection.client.jetstream()
    found = {}
    for stream in ("KV_pyoco_runs", "PYOCO_JOURNAL", "PYOCO_LOGS"):
        subjects = (await context.stream_info(stream, subjects_filter=">")).state.subjects or {}
        found[stream] = sum(count for subject, count in subjects.items() if subject.endswith(run_id))
    return {stream: count for stream, count in found.items() if count}


async def write_records(gateway: RunningGateway, run_id: str) -> None:
    entry = JournalEntry(key="t||0", task="t", attempt=1, started_at=1.0, ended_at=2.0)
    await Journal(gateway.inside.connection).append("default", run_id, entry)
    await gateway.inside.runs.logs.publish(run_id, [LogLine(ts=1.0, stream="stdout", text="hello")])


async def test_an_old_run_is_removed_with_all_its_records(
    config: NatsBackendConfig, short_retention: RunningGateway
) -> None:
    retention = short_retention.inside.sweeper._retention
    # Not before its records are written.
    kept_sec, retention._keep_sec = retention._keep_sec, 3600.0
    waiting = await short_retention.submit("noop", tag="nobody")
    async with serving_worker(config):
        old = await short_retention.submit("noop")
        await short_retention.ends(old)
    for run_id in (waiting, old):
        await write_records(short_retention, run_id)
    retention._keep_sec = kept_sec
    await eventually_equals(
        lambda: remains(short_retention, old), {"KV_pyoco_runs": 1}, describe="the old run is removed"
    )
    assert (await short_retention.http.get(f"/runs/{old}")).status_code == 404
    assert short_retention.inside.sweeper.actions["removed"] == 1
    # As if ten minutes had passed.
    retention._marker_sec = 0.0
    await write_records(short_retention, old)

    async def nothing_remains() -> bool:
        return not await remains(short_retention, old)

    await eventually(nothing_remains, describe="nothing of the old run is left")
    assert await remains(short_retention, waiting) == {
        "KV_pyoco_runs": 1,
        "PYOCO_JOURNAL": 1,
        "PYOCO_LOGS": 1,
    }


async def test_a_young_run_is_kept(short_retention: RunningGateway) -> None:
    for _ in range(2):
        ended_at = time.time()
        [run_id] = await write(short_retention.inside.runs.store, ended(at=ended_at))

        async def removed(run_id: str = run_id) -> float | None:
            response = await short_retention.http.get(f"/runs/{run_id}")
            return time.time() if response.status_code == 404 else None

        gone_at = await eventually(removed, describe="the run is removed")
        assert gone_at - ended_at > 1.5


async def test_without_retention_every_run_is_kept(gateway: RunningGateway) -> None:
    [run_id] = await write(gateway.inside.runs.store, ended())
    gateway.inside.sweeper._retention._marker_sec = 0.0
    await rounds(gateway, 5)
    assert (await gateway.get(run_id))["status"] == "COMPLETED"
