"""Removal of delete markers."""

import asyncio
import logging
from dataclasses import replace

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.runs.sweep.open_runs import OpenRuns
from pyoco_server.runs.sweep.retention import Retention
from tests.support.broker.connections import connected
from tests.support.broker.stored_runs import ended, write


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
