"""Reruns with other params: what they change, and what may not be reused with them."""

from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_client import AsyncPyocoHttpClient, PyocoHttpError
from pyoco_server.nats_client import PyocoNatsClient
from pyoco_server.records.runs.run_models import RunStatus, encode
from pyoco_server.runs.lifecycle.unowned_runs import UnownedRuns
from tests.integration.lifecycle.test_large_params import DIGEST, PARAMS, executed
from tests.integration.lifecycle.test_rerun import FAILED_TASKS, YAML, end, rerun, reruns
from tests.integration.lifecycle.test_submit import queued_job
from tests.support.problems import assert_problem
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def gateway(shared_gateway: RunningGateway) -> RunningGateway:
    return shared_gateway


async def test_the_new_run_has_the_new_params_and_no_others(working_gateway: RunningGateway) -> None:
    origin = await working_gateway.ends(
        await working_gateway.submit("chain", params={"x": 4, "unused": True}, tags=["night"], timeout_sec=60)
    )
    accepted = await rerun(working_gateway, origin["run_id"], params={"x": 6})
    assert accepted == {
        "run_id": accepted["run_id"],
        "status": "PENDING",
        "origin_run_id": origin["run_id"],
        "params_changed": True,
    }
    run = await working_gateway.ends(accepted["run_id"])
    assert (run["status"], run["params"], run["rerun_mode"]) == ("COMPLETED", {"x": 6}, "start")
    assert run["task_records"]["store"]["output"] == {"stored": 7}
    same = ("flow_name", "tag", "tags", "timeout_sec")
    assert {name: run[name] for name in same} == {name: origin[name] for name in same}
    assert (await working_gateway.get(origin["run_id"]))["params"] == {"x": 4, "unused": True}
    # A rerun of the rerun has the params of the run that it names.
    again = await working_gateway.ends((await rerun(working_gateway, run["run_id"]))["run_id"])
    assert (again["params"], again["task_records"]["store"]["output"]) == ({"x": 6}, {"stored": 7})


async def test_no_params_are_params_too(working_gateway: RunningGateway) -> None:
    origin = await working_gateway.ends(await working_gateway.submit("chain", params={"x": 4}))
    run = await working_gateway.ends((await rerun(working_gateway, origin["run_id"], params={}))["run_id"])
    assert (run["params"], run["task_records"]["store"]["output"]) == ({}, {"stored": 2})


async def test_a_flow_yaml_fills_in_what_the_params_lack(working_gateway: RunningGateway) -> None:
    origin = await working_gateway.ends((await working_gateway.submit_yaml(YAML)).json()["run_id"])
    assert origin["params"] == {"x": 41}
    for params, output in (({"x": 1}, 2), ({}, 42)):
        accepted = await rerun(working_gateway, origin["run_id"], params=params)
        run = await working_gateway.ends(accepted["run_id"])
        assert (run["params"], run["task_records"]["load"]["output"]) == (params, output)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"mode": "failed"}, "mode"),
        ({"mode": "task", "task": "clean"}, "mode"),
        ({"keep_answers": True}, "keep_answers"),
        ({"mode": "start", "keep_answers": True}, "keep_answers"),
    ],
    ids=str,
)
async def test_what_was_made_for_other_params_is_not_reused(
    gateway: RunningGateway, body: dict[str, Any], field: str
) -> None:
    origin = await end(gateway, await gateway.submit("chain", params={"x": 1}))
    # 1 and true are equal in Python, and not in JSON.
    for params in ({"x": 2}, {}, {"x": True}, {"x": 1, "y": None}):
        response = await gateway.http.post(f"/runs/{origin}/rerun", json={**body, "params": params})
        [error] = assert_problem(response, 422, 2)["errors"]
        assert error["field"] == field
        assert "the params of the origin" in error["message"]
        assert "leave" in error["message"]
    assert await reruns(gateway, origin) == []
    # With the same params nothing is wrong with it.
    accepted = await rerun(gateway, origin, **body, params={"x": 1})
    assert accepted["params_changed"] is False


async def test_the_order_of_params_does_not_matter(gateway: RunningGateway) -> None:
    origin = await end(gateway, await gateway.submit("chain", params={"a": {"b": 1, "c": 2}, "x": 1}))
    accepted = await rerun(gateway, origin, mode="failed", params={"x": 1, "a": {"c": 2, "b": 1}})
    assert accepted["params_changed"] is False


@pytest.mark.parametrize(
    ("params", "field"), [([], "params"), ("x", "params"), (4, "params"), ({"x": "deep"}, "params")]
)
async def test_invalid_params_are_refused(gateway: RunningGateway, params: Any, field: str) -> None:
    origin = await end(gateway, await gateway.submit("chain"))
    if params == {"x": "deep"}:
        for _ in range(200):
            params = {"x": params}
    response = await gateway.http.post(f"/runs/{origin}/rerun", json={"params": params})
    [error] = assert_problem(response, 422, 2)["errors"]
    assert error["field"] == field
    assert await reruns(gateway, origin) == []


async def test_a_body_that_is_too_large_is_refused(gateway: RunningGateway) -> None:
    origin = await end(gateway, await gateway.submit("chain"))
    limit = gateway.inside.config.max_run_snapshot_bytes
    response = await gateway.http.post(f"/runs/{origin}/rerun", json={"params": {"x": "y" * limit}})
    [error] = assert_problem(response, 422, 2)["errors"]
    assert error["field"] == "params"
    assert "PYOCO_MAX_RUN_SNAPSHOT_BYTES" in error["message"]


async def test_bulk_reruns_take_no_params(gateway: RunningGateway) -> None:
    response = await gateway.http.post("/bulk/rerun", json={"dry_run": True, "params": {"x": 1}})
    [error] = assert_problem(response, 422, 2)["errors"]
    assert (error["field"], "unknown field" in error["message"]) == ("params", True)


async def test_large_params_are_stored_beside_the_run(own_gateway: RunningGateway) -> None:
    small = await end(own_gateway, await own_gateway.submit("measure", params={"rows": [], "name": "day"}))
    await queued_job(own_gateway)
    accepted = await rerun(own_gateway, small, params=PARAMS)
    assert accepted["params_changed"] is True
    run = await own_gateway.get(accepted["run_id"])
    assert (run["params_sha256"], run["params_bytes"]) == (DIGEST, len(encode(PARAMS)))
    job = await queued_job(own_gateway)
    assert (job.run_id, job.params) == (accepted["run_id"], PARAMS)
    # The signature is that of the new params.
    unowned_runs = UnownedRuns(own_gateway.inside.connection)
    stored = await unowned_runs.stored(accepted["run_id"])
    assert stored is not None
    assert await unowned_runs.signatures.is_authentic(stored)

    large = await end(own_gateway, accepted["run_id"])
    assert (await rerun(own_gateway, large, mode="failed", params=PARAMS))["params_changed"] is False
    other = {"rows": ["one"], "name": "night"}
    assert (await rerun(own_gateway, large, params=other))["params_changed"] is True
    run = await own_gateway.get((await reruns(own_gateway, large))[0])
    assert ("params_sha256" in run, run["params"]) == (False, other)


async def test_large_params_of_a_rerun_are_executed(own_gateway: RunningGateway) -> None:
    origin = await own_gateway.submit("measure", params={"rows": [], "name": "day"})
    assert await executed(own_gateway, origin) == "day: 0"
    assert await executed(own_gateway, (await rerun(own_gateway, origin, params=PARAMS))["run_id"]) == (
        "day: 20000"
    )


async def test_a_key_stands_for_its_params(gateway: RunningGateway) -> None:
    origin = await end(gateway, await gateway.submit("chain", params={"x": 1}))
    url, key = f"/runs/{origin}/rerun", {"Idempotency-Key": f"key-{origin}"}
    first = await gateway.http.post(url, json={"params": {"x": 2}}, headers=key)
    again = await gateway.http.post(url, json={"params": {"x": 2}}, headers=key)
    assert first.json() == again.json()
    assert (first.json()["origin_run_id"], first.json()["params_changed"]) == (origin, True)
    assert [each["code"] for each in first.json()["warnings"]] == ["no_worker"]
    assert again.headers["Idempotent-Replayed"] == "true"
    others: list[dict[str, Any]] = [{"params": {"x": 3}}, {"params": {}}, {}]
    for body in others:
        assert_problem(await gateway.http.post(url, json=body, headers=key), 409, 26)
    assert await reruns(gateway, origin) == [first.json()["run_id"]]


async def test_the_answer_to_a_repeated_key_does_without_the_origin(gateway: RunningGateway) -> None:
    origin = await end(gateway, await gateway.submit("chain", params={"x": 1}))
    url, key = f"/runs/{origin}/rerun", {"Idempotency-Key": f"key-{origin}"}
    first = await gateway.http.post(url, json={"params": {"x": 2}}, headers=key)
    stored = await gateway.inside.runs.store.get(origin)
    assert stored is not None
    await gateway.inside.runs.store.delete(origin, revision=stored.revision)
    again = await gateway.http.post(url, json={"params": {"x": 2}}, headers=key)
    assert again.status_code == 200
    assert again.json()["run_id"] == first.json()["run_id"]
    assert "params_changed" not in again.json()


async def test_strict_refuses_a_flow_that_no_worker_has(
    config: NatsBackendConfig, own_gateway: RunningGateway
) -> None:
    origin = await end(own_gateway, await own_gateway.submit("gone"), RunStatus.FAILED, FAILED_TASKS)
    async with serving_worker(config):
        response = await own_gateway.http.post(f"/runs/{origin}/rerun?strict=1", json={"params": {"x": 2}})
        assert response.status_code == 404
        assert "'gone'" in response.json()["detail"]
        assert await reruns(own_gateway, origin) == []
    response = await own_gateway.http.post(f"/runs/{origin}/rerun?strict=perhaps")
    [error] = response.json()["errors"]
    assert (response.status_code, error["field"]) == (422, "strict")


async def test_the_python_clients_send_params(
    working_gateway: RunningGateway,
) -> None:
    origin = await working_gateway.ends(await working_gateway.submit("chain", params={"x": 4}))
    async with AsyncPyocoHttpClient(str(working_gateway.http.base_url)) as client:
        accepted = await client.rerun(origin["run_id"], params={"x": 8})
        assert accepted["params_changed"] is True
        assert (await working_gateway.ends(accepted["run_id"]))["params"] == {"x": 8}
        with pytest.raises(PyocoHttpError, match="with other params use mode 'start'"):
            await client.rerun(origin["run_id"], "task", "store", params={"x": 8})
    settings = working_gateway.inside.config
    async with await PyocoNatsClient.connect(settings) as direct:
        again = await direct.rerun(origin["run_id"], params={"x": 9}, idempotency_key=origin["run_id"])
        assert (again["origin_run_id"], again["params_changed"]) == (origin["run_id"], True)
        assert (await working_gateway.ends(again["run_id"]))["params"] == {"x": 9}
        same = await direct.rerun(origin["run_id"], params={"x": 9}, idempotency_key=origin["run_id"])
        assert same["run_id"] == again["run_id"]
