"""Retention deletes the key of a run first: a reopened run is complete, and a crash leaves nothing."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import StreamMessage
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_log_store import RunLogs
from pyoco_server.broker.stores.runs.run_object_store import RunObjects
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import RunNotFound
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.waits.wait_models import Actor, WaitEventKind
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.runs.open_runs import OpenRuns
from pyoco_server.runs.sweep.retention import Retention
from pyoco_server.waits.human.reopen import retry_run
from pyoco_server.waits.wait_transitions import event_of
from tests.integration.broker.test_run_objects import in_blocks
from tests.integration.human.test_wait_retry import failed_run
from tests.integration.lifecycle.test_rerun import end, entry
from tests.support.broker.connections import connected
from tests.support.broker.stored_runs import ended, write
from tests.support.problems import assert_problem
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.waiting_runs import WaitingRun
from tests.support.waiting import eventually

ANN = Actor(name="ann")
# What retention does to one run, each by the store that does it.
STEPS = {
    "key": ("_store", "delete"),
    "journal": ("_journal", "remove"),
    "objects": ("_objects", "remove_run"),
    "logs": ("_logs", "remove"),
    "waits": ("_waits", "remove_run"),
    "events": ("_wait_events", "remove_run"),
}


class Died(BaseException):
    """Like kill -9."""


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, run_retention_sec=0.000001)


@pytest.fixture(scope="module")
def shared_config(shared_config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(shared_config, run_retention_sec=0.000001)


@pytest.fixture
def connection(empty_connection: Connection) -> Connection:
    return empty_connection


def before(retention: Retention, step: str, act: Callable[[], Awaitable[None]]) -> None:
    """Run something right before this step."""
    owner, name = STEPS[step]
    store = getattr(retention, owner)
    original = getattr(store, name)

    async def stepped(*args: Any, **kwargs: Any) -> Any:
        await act()
        return await original(*args, **kwargs)

    setattr(store, name, stepped)


async def dies() -> None:
    raise Died


async def remove_ended(retention: Retention) -> int:
    return sum([count async for count in retention.remove_ended()])


async def remove_markers(retention: Retention) -> None:
    async for _ in retention.remove_markers():
        pass


async def unanswered_run(connection: Connection) -> WaitingRun:
    """A run that can be reopened, with messages in every stream."""
    run = await failed_run(connection)
    await Journal(connection).append("default", run.run_id, entry("load"))
    await RunObjects(connection).put("default", run.run_id, "report", in_blocks(b"42"))
    await RunLogs(connection).publish(run.run_id, [LogLine(ts=1.0, stream="stdout", text="hello")])
    return run


async def remains(connection: Connection, run_id: str) -> dict[str, int]:
    """How many messages each stream has about the run."""
    found = {}
    streams = ("KV_pyoco_runs", "PYOCO_JOURNAL", "PYOCO_OBJECTS", "PYOCO_LOGS", "KV_pyoco_waits")
    for stream in (*streams, "PYOCO_WAIT_EVENTS"):
        info = await connection.client.jetstream().stream_info(stream, subjects_filter=">")
        found[stream] = sum(
            count for subject, count in (info.state.subjects or {}).items() if run_id in subject
        )
    return {stream: count for stream, count in found.items() if count}


# Somebody takes the run up again


@pytest.mark.parametrize("step", STEPS)
async def test_a_reopened_run_keeps_everything_or_is_not_found(connection: Connection, step: str) -> None:
    run = await unanswered_run(connection)
    retention = Retention(connection, OpenRuns())
    retried: list[str] = []

    async def retry() -> None:
        try:
            retried.append((await retry_run(connection, run.run_id, ANYBODY, ANN)).status)
        except RunNotFound:
            retried.append("not found")

    before(retention, step, retry)
    removed = await remove_ended(retention)
    if step == "key":
        assert (retried, removed) == ([RunStatus.WAITING_HUMAN], 0)
        awaited = {wait.wait_id for wait in (await run.now()).open_waits or []}
        stored = await WaitStore(connection).of_run_from_leader(run.run_id)
        assert awaited
        assert awaited <= {wait.record.wait_id for wait in stored}
        assert await Journal(connection).entries("default", run.run_id) == [entry("load")]
        assert await RunObjects(connection).find("default", run.run_id, "report")
        assert await RunLogs(connection).last_sequence(run.run_id)
    else:
        assert (retried, removed) == (["not found"], 1)
        assert set(await remains(connection, run.run_id)) == {"KV_pyoco_runs", "KV_pyoco_waits"}


@pytest.mark.parametrize("step", ["key", "journal", "logs"])
async def test_a_rerun_during_removal_reuses_all_or_nothing(config: NatsBackendConfig, step: str) -> None:
    async with running_gateway(replace(config, run_retention_sec=0.0)) as gateway:
        journal = Journal(gateway.inside.connection)
        origin = await end(gateway, await gateway.submit("chain"))
        await journal.append("default", origin, entry("load"))
        async with connected(config) as connection:
            retention = Retention(connection, OpenRuns())
            before(retention, step, dies)
            with pytest.raises(Died):
                await remove_ended(retention)
        response = await gateway.http.post(f"/runs/{origin}/rerun", json={"mode": "failed"})
        if step == "key":
            assert response.status_code == 200, response.text
            assert len(await journal.entries("default", response.json()["run_id"])) == 1
        else:
            assert_problem(response, 404, 5)


async def test_an_origin_removed_during_the_journal_copy_is_not_rerun(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_gateway(replace(config, run_retention_sec=0.0)) as gateway:
        inside = gateway.inside
        origin = await end(gateway, await gateway.submit("chain"))
        for task in ("load", "clean"):
            await Journal(inside.connection).append("default", origin, entry(task))
        read_messages, copies = Journal._messages, []

        async def removed_before(journal: Journal, subject: str) -> list[StreamMessage]:
            """Retention finishes before the copy, which reads the rest."""
            stored = await inside.runs.store.get_from_leader(origin)
            assert stored is not None
            await inside.runs.store.delete(origin, revision=stored.revision)
            await journal.remove(origin)
            await journal.append("default", origin, entry("load"))
            copies.append(subject)
            return await read_messages(journal, subject)

        monkeypatch.setattr(Journal, "_messages", removed_before)
        response = await gateway.http.post(f"/runs/{origin}/rerun", json={"mode": "failed"})
        assert_problem(response, 404, 5)
        assert copies == [f"pyoco.journal.default.{origin}"]
        info = await inside.connection.client.jetstream().stream_info("PYOCO_JOURNAL", subjects_filter=">")
        assert set(info.state.subjects or {}) == {f"pyoco.journal.default.{origin}"}


# The gateway dies


@pytest.mark.parametrize("step", ["journal", "objects", "logs", "waits", "events"])
async def test_records_left_by_a_crashed_gateway_are_removed(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async with connected(config) as connection:
        run = await unanswered_run(connection)
        retention = Retention(connection, OpenRuns())
        before(retention, step, dies)
        with pytest.raises(Died):
            await remove_ended(retention)
        assert await RunStore(connection).get_from_leader(run.run_id) is None
    defaults = Retention.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "marker_sec", 0.0)
    # It has no index: the marker in the bucket is all that it can know.
    async with running_gateway(replace(config, sweep_interval_sec=0.1)) as gateway:
        await nothing_remains(gateway, run.run_id)


async def test_a_crash_during_marker_removal_leaves_nothing(connection: Connection) -> None:
    """The markers of the waits are removed after their events."""
    run = await unanswered_run(connection)
    runs = OpenRuns()
    retention = Retention(connection, runs, marker_sec=-1.0)
    assert await remove_ended(retention) == 1
    late = await run.events()
    assert late == []
    await WaitEventLog(connection).publish(event_of(run.waits[0], WaitEventKind.CANCELLED))
    runs.remember_marker(run.run_id)
    before(retention, "events", dies)
    with pytest.raises(Died):
        await remove_markers(retention)
    runs = OpenRuns()
    runs.remember_marker(run.run_id)
    await remove_markers(Retention(connection, runs, marker_sec=-1.0))
    assert await remains(connection, run.run_id) == {}


async def nothing_remains(gateway: RunningGateway, run_id: str) -> None:
    async def is_clean() -> bool:
        return not await remains(gateway.inside.connection, run_id)

    assert await eventually(is_clean, describe="nothing of the run is left")


async def test_a_restored_run_is_not_removed_by_its_marker(connection: Connection) -> None:
    """As after restoring an older backup."""
    [run_id] = await write(RunStore(connection), ended())
    await Journal(connection).append("default", run_id, entry("load"))
    runs = OpenRuns()
    runs.remember_marker(run_id)
    await remove_markers(Retention(connection, runs, marker_sec=-1.0))
    assert await remains(connection, run_id) == {"KV_pyoco_runs": 1, "PYOCO_JOURNAL": 1}
    assert await RunStore(connection).exists(run_id)
