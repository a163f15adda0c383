"""Old runs are removed with all of their records."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import JournalEntry, LogLine
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.sweeping import config, rounds
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

__all__ = ["config"]

# Retention


@pytest.fixture
async def forgetful(config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    async with running_gateway(replace(config, run_retention_sec=1.5)) as gateway:
        yield gateway


async def remains(gateway: RunningGateway, run_id: str) -> dict[str, int]:
    """How many messages each stream has about the run."""
    context = gateway.inside.connection.client.jetstream()
    found = {}
    for stream in ("KV_pyoco_runs", "PYOCO_JOURNAL", "PYOCO_LOGS"):
        subjects = (await context.stream_info(stream, subjects_filter=">")).state.subjects or {}
        found[stream] = sum(count for subject, count in subjects.items() if subject.endswith(run_id))
    return {stream: count for stream, count in found.items() if count}


async def leave_traces(gateway: RunningGateway, run_id: str) -> None:
    entry = JournalEntry(key="t||0", task="t", attempt=1, started_at=1.0, ended_at=2.0)
    await Journal(gateway.inside.connection).append(run_id, entry)
    await gateway.inside.runs.logs.publish(run_id, [LogLine(ts=1.0, stream="stdout", text="hello")])


async def test_an_old_run_is_removed_with_all_its_records(
    config: NatsBackendConfig, forgetful: RunningGateway
) -> None:
    retention = forgetful.inside.sweeper._retention
    # Not before all is there that is to be removed with it.
    kept_sec, retention._keep_sec = retention._keep_sec, 3600.0
    waiting = await forgetful.submit("noop", tag="nobody")
    async with serving_worker(config):
        old = await forgetful.submit("noop")
        await forgetful.ends(old)
    for run_id in (waiting, old):
        await leave_traces(forgetful, run_id)
    retention._keep_sec = kept_sec

    async def only_the_marker_is_left() -> bool:
        return await remains(forgetful, old) == {"KV_pyoco_runs": 1}

    await eventually(only_the_marker_is_left, describe="the old run is removed")
    assert (await forgetful.http.get(f"/runs/{old}")).status_code == 404
    assert forgetful.inside.sweeper.actions["removed"] == 1
    # As if ten minutes had passed.
    retention._marker_sec = 0.0
    await leave_traces(forgetful, old)

    async def nothing_is_left() -> bool:
        return not await remains(forgetful, old)

    await eventually(nothing_is_left, describe="nothing of the old run is left")
    assert await remains(forgetful, waiting) == {"KV_pyoco_runs": 1, "PYOCO_JOURNAL": 1, "PYOCO_LOGS": 1}


async def test_a_young_run_is_kept(config: NatsBackendConfig, forgetful: RunningGateway) -> None:
    async with serving_worker(config):
        for _ in range(2):
            run = await forgetful.ends(await forgetful.submit("noop"))

            async def removed(run_id: str = run["run_id"]) -> float | None:
                response = await forgetful.http.get(f"/runs/{run_id}")
                return time.time() if response.status_code == 404 else None

            gone_at = await eventually(removed, describe="the run is removed")
            assert gone_at - run["end_time"] > 1.5


async def test_without_retention_every_run_is_kept(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config):
        run_id = await gateway.submit("noop")
        await gateway.ends(run_id)
    gateway.inside.sweeper._retention._marker_sec = 0.0
    await rounds(gateway, 5)
    assert (await gateway.get(run_id))["status"] == "COMPLETED"
