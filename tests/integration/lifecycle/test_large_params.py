"""Params that leave no room in the snapshot are kept beside it, and nothing else changes for the run."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from msgspec import UNSET, structs
from pyoco import Flow, task

from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import RunStatus, encode
from pyoco_server.runs.lifecycle.unowned_runs import UnownedRuns
from tests.integration.lifecycle.test_rerun import rerun
from tests.integration.lifecycle.test_submit import queued_job
from tests.support.broker.journals import journalled_runs
from tests.support.inspection import stored_run_ids
from tests.support.problems import assert_problem
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import idle_worker
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

PARAMS: dict[str, Any] = {"rows": [f"row {number}" for number in range(20_000)], "name": "day"}
DIGEST = sha256(encode(PARAMS)).hexdigest()


@task
def measure(rows: list[str], name: str) -> str:
    return f"{name}: {len(rows)}"


MEASURE = Flow(name="measure") >> measure


async def executed(gateway: RunningGateway, run_id: str) -> Any:
    async with idle_worker(gateway.inside.config, MEASURE) as worker:
        assert await worker.run_once(timeout=LIMIT_SEC) == run_id
    run = await gateway.get(run_id, include="records")
    assert run["status"] == "COMPLETED", run
    return run["task_records"]["measure"]["output"]


async def test_the_snapshot_has_a_digest_and_the_beginning_and_the_task_has_all(
    own_gateway: RunningGateway,
) -> None:
    run_id = await own_gateway.submit("measure", params=PARAMS)
    run = await own_gateway.get(run_id)
    assert (run["params_sha256"], run["params_bytes"]) == (DIGEST, len(encode(PARAMS)))
    assert run["params"]["rows"]["preview"].startswith('["row 0","row 1"')
    assert run["params"]["name"] == "day"
    assert (await queued_job(own_gateway)).params == PARAMS
    assert await executed(own_gateway, run_id) == "day: 20000"
    ended = await own_gateway.get(run_id)
    assert {key: ended[key] for key in ("params", "params_sha256")} == {
        "params": run["params"],
        "params_sha256": DIGEST,
    }
    for include in ("full", "all"):
        assert (await own_gateway.get(run_id, include=include))["params"] == PARAMS

    again = (await rerun(own_gateway, run_id))["run_id"]
    assert (await queued_job(own_gateway)).params == PARAMS
    assert (await own_gateway.get(again))["params_sha256"] == DIGEST


async def test_small_params_write_nothing_beside_the_snapshot(own_gateway: RunningGateway) -> None:
    run_id = await own_gateway.submit("measure", params={"rows": [], "name": "x" * 100_000})
    assert await journalled_runs(own_gateway) == set()
    assert "params_sha256" not in await own_gateway.get(run_id)


async def test_the_sweep_publishes_a_lost_job_with_all_params(own_gateway: RunningGateway) -> None:
    run_id = await own_gateway.submit("measure", params=PARAMS)
    job = await queued_job(own_gateway)
    context = own_gateway.inside.connection.client.jetstream()
    await context.purge_stream(own_gateway.inside.config.work_stream)
    unowned_runs = UnownedRuns(own_gateway.inside.connection)
    stored = await unowned_runs.stored(run_id)
    assert stored is not None
    await unowned_runs.republish_job(stored)
    assert await queued_job(own_gateway) == job
    assert await executed(own_gateway, run_id) == "day: 20000"


async def dropped_by_an_older_worker(gateway: RunningGateway, run_id: str, **more: Any) -> None:
    """A worker that does not know these fields writes what the job has: all params."""
    store = RunStore(gateway.inside.connection)
    stored = await store.get_from_leader(run_id)
    assert stored is not None
    params = (await queued_job(gateway)).params
    dropped = {"params": params, "params_sha256": UNSET, "params_bytes": UNSET, "keep_answers": UNSET}
    await store.replace(structs.replace(stored.snapshot, **dropped, **more), revision=stored.revision)


async def test_a_run_that_an_older_worker_has_written_is_repeated_and_queued_again(
    own_gateway: RunningGateway,
) -> None:
    connection = own_gateway.inside.connection
    origin = await own_gateway.submit("measure", params=PARAMS)
    await dropped_by_an_older_worker(own_gateway, origin, status=RunStatus.COMPLETED)
    assert "params_sha256" not in await own_gateway.get(origin)
    run_id = (await rerun(own_gateway, origin, keep_answers=True))["run_id"]
    job = await queued_job(own_gateway)
    assert (job.params, job.params_sha256, job.keep_answers) == (PARAMS, DIGEST, True)

    await dropped_by_an_older_worker(own_gateway, run_id)
    unowned_runs = UnownedRuns(connection)
    stored = await unowned_runs.stored(run_id)
    assert stored is not None
    await connection.client.jetstream().purge_stream(own_gateway.inside.config.work_stream)
    await unowned_runs.republish_job(stored)
    assert await queued_job(own_gateway) == job
    # The signature still says what was accepted.
    forged = structs.replace(stored.snapshot, params={**PARAMS, "name": "night"})
    assert not await unowned_runs.signatures.is_authentic(structs.replace(stored, snapshot=forged))


async def test_large_params_that_are_lost_fail_a_run_and_refuse_a_rerun(own_gateway: RunningGateway) -> None:
    run_id = await own_gateway.submit("measure", params=PARAMS)
    connection = own_gateway.inside.connection
    await Journal(connection).remove(run_id)
    unowned_runs = UnownedRuns(connection)
    stored = await unowned_runs.stored(run_id)
    assert stored is not None
    await unowned_runs.republish_job(stored)
    ended = await own_gateway.get(run_id, include="full")
    assert (ended["status"], ended["reason"]) == ("FAILED", "invalid_job")
    assert "file of params was not kept" in ended["error"]
    assert ended["params"]["name"] == "day", "the beginning is still there"
    refused = await own_gateway.http.post(f"/runs/{run_id}/rerun", json={})
    assert "params" in assert_problem(refused, 409, 25)["detail"]


async def test_a_failed_submission_leaves_no_params(
    own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: Any, **__: Any) -> None:
        assert await journalled_runs(own_gateway)
        raise NatsUnavailable("lost")

    monkeypatch.setattr(own_gateway.inside.runs.submitter._queue, "publish", lost)
    body = {"flow_name": "measure", "params": PARAMS}
    assert_problem(await own_gateway.http.post("/runs", json=body), 503, 3)

    async def nothing_is_left() -> bool:
        return not await stored_run_ids(own_gateway) and not await journalled_runs(own_gateway)

    await eventually(nothing_is_left, describe="the submission is withdrawn")


async def test_a_flow_yaml_up_to_its_limit_is_accepted(own_gateway: RunningGateway) -> None:
    """Its defaults are the params of the run, and take as much as the file."""
    lines = "\n".join(f"    key_{number}: {'v' * 100}" for number in range(2100))
    source = f"version: 1\nflow:\n  graph: load\n  defaults:\n    x: 1\n{lines}\n"
    source += 'tasks:\n  load: {callable: "tests.flows.basics:load"}\n'
    assert 240_000 < len(source) <= own_gateway.inside.config.workflow_yaml_max_bytes
    response = await own_gateway.submit_yaml(source)
    assert response.status_code == 200, response.text
    run_id = response.json()["run_id"]
    run = await own_gateway.get(run_id)
    assert (run["params"]["x"], run["workflow_yaml_bytes"]) == (1, len(source))
    job = await queued_job(own_gateway)
    assert (len(job.params), job.workflow_yaml) == (2101, source)


async def test_retention_removes_large_params(config: NatsBackendConfig) -> None:
    async with running_gateway(replace(config, run_retention_sec=0.000001)) as gateway:
        run_id = await gateway.submit("measure", params=PARAMS)
        assert await journalled_runs(gateway) == {run_id}
        await gateway.http.post(f"/runs/{run_id}/cancel", json={})

        async def is_removed() -> bool:
            return not await stored_run_ids(gateway) and not await journalled_runs(gateway)

        await eventually(is_removed, describe="the run and its params are removed")
