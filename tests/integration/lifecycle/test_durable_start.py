"""A run whose id was decided in advance runs once, however often its start is interrupted and repeated."""

import asyncio
import time
from typing import Any

import pytest

from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.records.runs.run_models import Job
from pyoco_server.records.value_types import is_run_id
from pyoco_server.runs.lifecycle.durable_start import DurableStarter, run_id_for
from pyoco_server.runs.lifecycle.submission import new_job
from tests.integration.lifecycle.test_submit import queued_job
from tests.support.inspection import queue_is_empty
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker

OCCURRENCE = 1_800_000_000.0
YAML = b"version: 1\nflow: {graph: load}\ntasks:\n  load: {callable: 'm:load'}\n"


def job(**fields: Any) -> Job:
    run_id = run_id_for(CauseKind.SCHEDULE, "nightly", "made-1", OCCURRENCE)
    cause = Cause(kind=CauseKind.SCHEDULE, id="nightly", at=OCCURRENCE)
    fields = {"flow_name": "noop", "tag": "default", "run_id": run_id, "cause": cause, **fields}
    return new_job(**fields)


def test_an_id_follows_from_what_has_caused_the_run() -> None:
    ids = [
        run_id_for(CauseKind.SCHEDULE, "nightly", "made-1", OCCURRENCE),
        run_id_for(CauseKind.SCHEDULE, "nightly", "made-1", OCCURRENCE + 60),
        # Deleted and made again.
        run_id_for(CauseKind.SCHEDULE, "nightly", "made-2", OCCURRENCE),
        run_id_for(CauseKind.SCHEDULE, "hourly", "made-1", OCCURRENCE),
        run_id_for(CauseKind.EVENT, "nightly", "made-1", OCCURRENCE),
    ]
    assert len(set(ids)) == len(ids)
    assert all(is_run_id(run_id) and run_id[14] == "8" and run_id[19] in "89ab" for run_id in ids)
    # The same in every version: a gateway of another one continues what this one began.
    assert ids[0] == "ca173573-227c-8cfd-a1f4-e2c0d0336e49"


async def test_a_repeated_start_makes_one_run(gateway: RunningGateway) -> None:
    starter = DurableStarter(gateway.inside.connection)
    assert await starter.ensure_run(job())
    created = await asyncio.gather(*(starter.ensure_run(job()) for _ in range(5)))
    assert created == [False] * 5
    assert (await queued_job(gateway)).run_id == job().run_id
    async with serving_worker(gateway.inside.config):
        run = await gateway.ends(job().run_id)
    assert (run["status"], run["attempt"]) == ("COMPLETED", 1)
    assert run["cause"] == {"kind": "schedule", "id": "nightly", "at": OCCURRENCE}
    assert not await starter.ensure_run(job())
    assert await queue_is_empty(gateway)


async def test_an_interrupted_start_is_completed_by_the_next_one(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    starter = DurableStarter(gateway.inside.connection)

    async def interrupted(*_: Any, **__: Any) -> int:
        raise NatsUnavailable("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr(WorkQueue, "publish", interrupted)
        with pytest.raises(NatsUnavailable):
            await starter.ensure_run(job())
    # Nothing is withdrawn.
    assert (await gateway.get(job().run_id))["status"] == "PENDING"
    assert await queue_is_empty(gateway)
    assert not await starter.ensure_run(job())
    assert (await queued_job(gateway)).run_id == job().run_id


async def test_flow_yaml_and_large_params_are_kept_once(gateway: RunningGateway) -> None:
    starter = DurableStarter(gateway.inside.connection)
    large = {"rows": ["x" * 100] * 10_000}
    assert await starter.ensure_run(job(params=large, workflow_yaml=YAML))
    kept = await kept_messages(gateway)
    assert not await starter.ensure_run(job(params=large, workflow_yaml=YAML))
    assert await kept_messages(gateway) == kept
    stored = await gateway.get(job().run_id)
    journal = Journal(gateway.inside.connection)
    for digest in (stored["params_sha256"], stored["workflow_yaml_sha256"]):
        assert await journal.document("default", job().run_id, digest) is not None


async def test_a_later_start_is_scheduled_and_has_no_job(gateway: RunningGateway) -> None:
    starter = DurableStarter(gateway.inside.connection)
    later = job(start_at=time.time() + 3600)
    assert await starter.ensure_run(later)
    assert not await starter.ensure_run(later)
    run = await gateway.get(later.run_id)
    assert (run["status"], run["start_at"]) == ("SCHEDULED", later.start_at)
    assert await queue_is_empty(gateway)


async def kept_messages(gateway: RunningGateway) -> int:
    context = gateway.inside.connection.client.jetstream()
    return (await context.stream_info(gateway.inside.config.journal_stream)).state.messages
