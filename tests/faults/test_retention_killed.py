"""A gateway is killed inside retention, behind each of its writes: no run is stripped, nothing is left."""

import asyncio
import signal
from pathlib import Path

import httpx
import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_log_store import RunLogs
from pyoco_server.broker.stores.runs.run_object_store import RunObjects
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.log_models import LogLine
from tests.faults.crashing_retention import ABOUT_MARKERS, CRASH_POINTS, NEVER
from tests.integration.broker.test_run_objects import in_blocks
from tests.integration.human.test_wait_retry import failed_run
from tests.integration.sweep.test_retention_order import remains
from tests.support.broker.connections import connected
from tests.support.places import ROOT
from tests.support.programs import announcing, running
from tests.support.waiting import eventually

PROGRAM = "tests.faults.crashing_retention"
RUNS = 3
LIMIT_SEC = 90.0
STREAMS = {"KV_pyoco_runs", "PYOCO_JOURNAL", "PYOCO_OBJECTS", "PYOCO_LOGS", "KV_pyoco_waits"} | {
    "PYOCO_WAIT_EVENTS"
}

# How many messages each stream has about a run.
Remains = dict[str, int]


def entry(task: str) -> JournalEntry:
    return JournalEntry(key=f"{task}||1", task=task, attempt=1, started_at=1.0, ended_at=2.0, output=b"1")


async def finished_run(connection: Connection) -> str:
    """A run that failed because nobody answered: it can be rerun, and retried."""
    run = await failed_run(connection)
    for task in ("load", "clean"):
        await Journal(connection).append("default", run.run_id, entry(task))
    await RunObjects(connection).put("default", run.run_id, "report", in_blocks(b"42"))
    await RunLogs(connection).publish(run.run_id, [LogLine(ts=1.0, stream="stdout", text="hello")])
    return run.run_id


async def left(connection: Connection, runs: dict[str, Remains]) -> list[str]:
    """The runs that are still there, each of them with all that it had."""
    store = RunStore(connection)
    there = [run_id for run_id in runs if await store.exists(run_id)]
    for run_id in there:
        now = await remains(connection, run_id)
        missing = {stream: count for stream, count in runs[run_id].items() if now.get(stream, 0) < count}
        assert not missing, f"run {run_id} is there and was stripped: it has {now} of {runs[run_id]}"
    return there


@pytest.mark.parametrize("crash_point", CRASH_POINTS)
async def test_a_gateway_killed_inside_retention_strips_no_run_and_leaves_nothing(
    crash_point: str, config: NatsBackendConfig, tmp_path: Path
) -> None:
    settings = {
        "PYOCO_NATS_URL": config.nats_url,
        "PYOCO_INDEX_DIR": str(tmp_path / "index"),
        "PYOCO_SWEEP_INTERVAL_SEC": "0.2",
    }
    arguments = ("up", "--port", "0")
    async with connected(config) as connection:
        run_ids = [await finished_run(connection) for _ in range(RUNS)]
        runs = {run_id: await remains(connection, run_id) for run_id in run_ids}
        assert all(set(had) == STREAMS for had in runs.values())
        killer = (PROGRAM, crash_point, *arguments)
        # It may kill itself before it is ready.
        with announcing(*killer, cwd=ROOT, **settings, PYOCO_RUN_RETENTION_SEC="0.000001") as (program, _):
            assert await asyncio.to_thread(program.end) == -signal.SIGKILL, program.stderr
        there = await left(connection, runs)
        # The next one keeps every run: what it removes is what the other has begun to remove.
        with running(PROGRAM, NEVER, *arguments, cwd=ROOT, **settings) as (_, ready):
            removed = [run_id for run_id in run_ids if run_id not in there]

            async def nothing_is_left() -> bool:
                return not any([await remains(connection, run_id) for run_id in removed])

            assert len(removed) == (RUNS if crash_point in ABOUT_MARKERS else 1)
            assert await eventually(nothing_is_left, describe="removed runs are removed")
            assert await left(connection, runs) == there
            async with httpx.AsyncClient(base_url=ready["url"], timeout=LIMIT_SEC) as http:
                await can_be_taken_up_again(connection, http, there)
                for run_id in removed:
                    for command in ("rerun", "retry"):
                        assert (await http.post(f"/runs/{run_id}/{command}")).status_code == 404


async def can_be_taken_up_again(connection: Connection, http: httpx.AsyncClient, run_ids: list[str]) -> None:
    """A rerun reuses every finished task, and a retry asks again."""
    for run_id in run_ids:
        rerun = await http.post(f"/runs/{run_id}/rerun", json={"mode": "failed"})
        assert rerun.status_code == 200, rerun.text
        copied = await Journal(connection).entries("default", rerun.json()["run_id"])
        assert [each.task for each in copied] == ["load", "clean"]
        retry = await http.post(f"/runs/{run_id}/retry")
        assert retry.status_code == 200, retry.text
        [asked] = (await http.get(f"/runs/{run_id}")).json()["open_waits"]
        assert await WaitStore(connection).get_from_leader(asked["wait_id"])
