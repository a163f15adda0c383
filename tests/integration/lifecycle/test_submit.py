"""What a submission stores, and that a failed one stores nothing."""

import json
from typing import Any

import pytest

from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import Job, decode_job
from tests.support.broker.journals import journalled_runs
from tests.support.inspection import stored_run_ids
from tests.support.problems import assert_problem
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

YAML = "version: 1\nflow: {graph: load, defaults: {x: 1}}\ntasks:\n  load: {callable: 'm:load'}\n# あ\n"


async def queued_job(gateway: RunningGateway) -> Job:
    """The newest job on the queue."""
    context = gateway.inside.connection.client.jetstream()
    info = await context.stream_info(gateway.inside.config.work_stream)
    message = await context.get_msg(gateway.inside.config.work_stream, info.state.last_seq)
    assert message.data is not None
    return decode_job(message.data)


@pytest.mark.parametrize("limit", [None, 0.5, 30, 2_592_000])
async def test_the_limit_of_a_run_is_in_its_snapshot_and_its_job(
    shared_gateway: RunningGateway, limit: float | None
) -> None:
    run_id = await shared_gateway.submit("noop", timeout_sec=limit)
    assert (await shared_gateway.get(run_id))["timeout_sec"] == limit
    assert (await queued_job(shared_gateway)).timeout_sec == limit
    in_form = {} if limit is None else {"timeout_sec": str(limit)}
    response = await shared_gateway.submit_yaml(YAML, **in_form)
    assert (await shared_gateway.get(response.json()["run_id"]))["timeout_sec"] == limit
    assert (await queued_job(shared_gateway)).timeout_sec == limit


@pytest.mark.parametrize("limit", [0, -1, 2_592_001, "30", True, [1]])
async def test_an_invalid_limit_is_refused(shared_gateway: RunningGateway, limit: Any) -> None:
    before = await stored_run_ids(shared_gateway)
    response = await shared_gateway.http.post("/runs", json={"flow_name": "noop", "timeout_sec": limit})
    [error] = assert_problem(response, 422, 2)["errors"]
    assert (error["field"], error["value"]) == ("timeout_sec", json.dumps(limit))
    assert "above 0, at most 2592000" in error["message"]
    assert await stored_run_ids(shared_gateway) == before


@pytest.mark.parametrize("limit", ["0", "nan", "inf", "1e400", "null", "", "soon", "2592001"])
async def test_an_invalid_limit_in_a_form_is_refused(shared_gateway: RunningGateway, limit: str) -> None:
    before = await stored_run_ids(shared_gateway)
    [error] = assert_problem(await shared_gateway.submit_yaml(YAML, timeout_sec=limit), 422, 2)["errors"]
    assert (error["field"], error["value"]) == ("timeout_sec", json.dumps(limit))
    assert await stored_run_ids(shared_gateway) == before


async def test_a_form_field_stays_text(shared_gateway: RunningGateway) -> None:
    response = await shared_gateway.submit_yaml(YAML, flow_name="null", tag="null", timeout_sec="5")
    run = await shared_gateway.get(response.json()["run_id"])
    assert (run["flow_name"], run["tag"], run["timeout_sec"]) == ("null", "null", 5)


async def test_the_flow_yaml_of_a_run_is_kept_and_a_json_run_keeps_nothing(
    own_gateway: RunningGateway,
) -> None:
    await own_gateway.submit("noop")
    assert await journalled_runs(own_gateway) == set()
    run_id = (await own_gateway.submit_yaml("\ufeff" + YAML)).json()["run_id"]
    digest = (await own_gateway.get(run_id))["workflow_yaml_sha256"]
    assert await Journal(own_gateway.inside.connection).document("default", run_id, digest) == YAML


async def test_a_failed_submission_leaves_neither_run_nor_flow_yaml(
    own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: set[str] = set()

    async def lost(job: Job, *, run_revision: int, encoded: bytes) -> None:
        kept.update(await journalled_runs(own_gateway))
        raise NatsUnavailable("lost")

    monkeypatch.setattr(own_gateway.inside.runs.submitter._queue, "publish", lost)
    assert_problem(await own_gateway.submit_yaml(YAML), 503, 3)
    assert kept, "the file was not kept before the job was published"

    async def nothing_is_left() -> bool:
        return not await stored_run_ids(own_gateway) and not await journalled_runs(own_gateway)

    await eventually(nothing_is_left, describe="the submission is withdrawn")
