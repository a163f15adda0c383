"""Runs of a version that did not sign them: they go on, and nothing unsigned is trusted after them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, structs
from typer.testing import CliRunner

from pyoco_server.admin_cli import app as admin_app
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.trusted_records import forget_trusted_records, is_trust_decided
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.run_models import DeliveryId, RunStatus, TaskStatus, encode, job_of
from pyoco_server.records.waits.wait_models import Actor
from pyoco_server.runs.lifecycle.ownership import claim
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler
from pyoco_server.worker.engine.journal.journal_values import dump_value
from tests.support.broker.connections import connected
from tests.support.broker.stored_runs import ended, snapshot
from tests.support.problems import assert_problem
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.waiting_runs import waiting_run
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

ENTRY = JournalEntry(key="load||0", task="load", attempt=1, started_at=1.0, ended_at=2.0, number=1)


async def unsigned(connection: Connection, run_id: str) -> None:
    """As an earlier version has stored it."""
    store = RunStore(connection)
    stored = await store.get_from_leader(run_id)
    assert stored is not None
    await store.replace(structs.replace(stored.snapshot, signature=UNSET), revision=stored.revision)


async def old_entry(connection: Connection, run_id: str) -> None:
    await publish_acked(connection, f"pyoco.journal.{run_id}", msgspec.msgpack.encode(ENTRY))


async def signature(connection: Connection, run_id: str) -> object:
    stored = await RunStore(connection).get_from_leader(run_id)
    assert stored is not None
    return stored.snapshot.signature


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, sweep_interval_sec=0.3)


@pytest.fixture
async def before(config: NatsBackendConfig) -> AsyncIterator[Connection]:
    """A connection to what an earlier version has left: no gateway of this version has run."""
    async with connected(config) as connection:
        yield connection


async def swept(gateway: RunningGateway) -> None:
    await eventually(lambda: is_trust_decided(gateway.inside.connection), describe="the sweep has decided")


async def test_a_waiting_run_is_signed_and_continues_with_its_results(
    config: NatsBackendConfig, before: Connection
) -> None:
    run = await waiting_run(before)
    await unsigned(before, run.run_id)
    await old_entry(before, run.run_id)
    async with running_gateway(config) as gateway:
        await swept(gateway)
        signed = await signature(before, run.run_id)
        assert signed
        assert await Journal(before).entries("default", run.run_id) == [ENTRY]
        answer = await gateway.http.post("/resume", json={"runId": run.run_id, "payload": 1})
        assert answer.status_code == 200, answer.text
        [job] = await run.jobs()
        assert (job.run_id, job.signature) == (run.run_id, signed)


async def test_a_run_that_is_answered_before_the_first_sweep_gets_its_signature_with_its_job(
    before: Connection,
) -> None:
    """The worker that claims it keeps it in the snapshot, so that no sweep takes over the journal."""
    run = await waiting_run(before, {})
    await unsigned(before, run.run_id)
    await old_entry(before, run.run_id)
    answers = AnswerHandler(before)
    await answers.respond(run.wait_id, Answer(payload=1), ANYBODY, Actor())
    await answers.close()
    [job] = await run.jobs()
    assert job.signature
    assert await Journal(before).entries("default", run.run_id) == [ENTRY]
    owned = await claim(
        RunStore(before),
        WorkQueue(before),
        job,
        delivery=DeliveryId(1, 1),
        expected_revision=None,
        worker_id="w",
        max_bytes=100_000,
    )
    assert owned.snapshot.signature == job.signature


@pytest.mark.parametrize("began", [{"attempt": 1}, {"rerun_mode": "failed"}], ids=["redelivery", "rerun"])
async def test_a_job_of_the_queue_is_continued_with_its_results_before_the_first_sweep(
    config: NatsBackendConfig, before: Connection, began: dict[str, Any]
) -> None:
    """A worker may be faster than the gateway, and must not execute again what is done."""
    run = snapshot(flow_name="chain", **began)
    await RunStore(before).create(run)
    entry = structs.replace(ENTRY, attempt=run.attempt, output=dump_value(666))
    await publish_acked(before, f"pyoco.journal.{run.run_id}", msgspec.msgpack.encode(entry))
    await publish_acked(before, "pyoco.work.default", encode(job_of(run, None)))
    async with serving_worker(config):
        [result] = await eventually(lambda: outputs(before, run.run_id, "store"), describe="the run ends")
    assert result == {"stored": 666}


async def outputs(connection: Connection, run_id: str, task: str) -> list[Any]:
    """The result of a task of a run that has ended."""
    stored = await RunStore(connection).get_from_leader(run_id)
    assert stored is not None
    records = stored.snapshot.task_records or {}
    if not stored.snapshot.status.terminal:
        return []
    return [msgspec.json.decode(records[task])["output"]]


async def test_a_run_in_work_keeps_the_signature_that_it_gets(
    config: NatsBackendConfig, before: Connection
) -> None:
    store, run = RunStore(before), snapshot()
    await store.create(run)
    owned = await claim(
        store,
        WorkQueue(before),
        job_of(run, None),
        delivery=DeliveryId(1, 1),
        expected_revision=None,
        worker_id="w",
        max_bytes=100_000,
    )
    async with running_gateway(config) as gateway:
        await swept(gateway)
    # Its next write is based on the snapshot without.
    written = await owned.write(lambda mine: structs.replace(mine, tasks={"load": TaskStatus.RUNNING}))
    assert written.signature
    assert written.signature == await signature(before, run.run_id)


async def test_an_ended_run_is_rerun_with_its_results(config: NatsBackendConfig, before: Connection) -> None:
    failed = ended(RunStatus.FAILED, tasks={"load": TaskStatus.SUCCEEDED, "store": TaskStatus.FAILED})
    await RunStore(before).create(failed)
    await old_entry(before, failed.run_id)
    async with running_gateway(config) as gateway:
        await swept(gateway)
        again = await gateway.http.post(f"/runs/{failed.run_id}/rerun", json={"mode": "failed"})
        assert again.status_code == 200, again.text
        copied = await Journal(before).entries("default", again.json()["run_id"])
        assert [(entry.key, entry.attempt) for entry in copied] == [(ENTRY.key, 0)]
        assert await signature(before, failed.run_id) is UNSET, "it is not written"


async def test_what_comes_later_is_not_trusted(config: NatsBackendConfig, before: Connection) -> None:
    early = ended(RunStatus.FAILED, tasks={"load": TaskStatus.FAILED})
    await RunStore(before).create(early)
    async with running_gateway(config) as gateway:
        await swept(gateway)
        late = ended(RunStatus.FAILED)
        await RunStore(before).create(late)
        assert_problem(await gateway.http.post(f"/runs/{late.run_id}/rerun"), 409, 44)
        # The same run, written again.
        await unsigned(before, early.run_id)
        assert_problem(await gateway.http.post(f"/runs/{early.run_id}/rerun"), 409, 44)
        await old_entry(before, late.run_id)
        await forget_trusted_records(before)
        await swept(gateway)
        for run in (late, early):
            again = await gateway.http.post(f"/runs/{run.run_id}/rerun")
            assert again.status_code == 200, "an administrator has trusted what is stored"


async def test_nothing_is_trusted_that_a_worker_wrote_before_the_first_gateway(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a new installation `nats-setup` comes first, and workers may start before gateways."""
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    arguments = ["nats-setup", "--nats-url", config.nats_url]
    result = await asyncio.to_thread(CliRunner().invoke, admin_app, arguments)
    assert result.exit_code == 0, result.output
    async with connected(config) as worker:
        forged = ended(RunStatus.FAILED)
        await RunStore(worker).create(forged)
        async with running_gateway(config) as gateway:
            assert_problem(await gateway.http.post(f"/runs/{forged.run_id}/rerun"), 409, 44)


async def test_nothing_is_trusted_in_another_bucket(config: NatsBackendConfig, before: Connection) -> None:
    """A bucket that is created again counts its revisions from 1."""
    for _ in range(10):
        await RunStore(before).create(ended())
    async with running_gateway(config) as gateway:
        await swept(gateway)
    await jetstream_api.call(before, f"STREAM.DELETE.KV_{config.runs_kv_bucket}")
    async with running_gateway(config) as gateway:
        forged = ended(RunStatus.FAILED)
        await RunStore(before).create(forged)
        assert_problem(await gateway.http.post(f"/runs/{forged.run_id}/rerun"), 409, 44)


async def test_a_journal_of_an_earlier_version_accepts_the_new_subjects(
    config: NatsBackendConfig, before: Connection
) -> None:
    info = await jetstream_api.call(before, "STREAM.INFO.PYOCO_JOURNAL")
    old = {**info["config"], "subjects": ["pyoco.journal.*"]}
    await jetstream_api.call(before, "STREAM.UPDATE.PYOCO_JOURNAL", old)
    async with running_gateway(config) as gateway:
        await Journal(gateway.inside.connection).append("gpu", "x", ENTRY)
