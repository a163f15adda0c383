"""Schedule-to-start is observed once per run, also after a restart and a retry."""

import time
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import WaitExpired
from pyoco_server.http_api.metrics.metric_page import MetricPage
from pyoco_server.http_api.metrics.run_timings import RunTimings
from pyoco_server.human.answers.answering import Answer, AnswerHandler
from pyoco_server.records.models import Reason, RunSnapshot, RunStatus, encode
from pyoco_server.records.wait_models import Actor
from pyoco_server.runs.index.run_summary import summary_of
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.runs.watch.run_hub import RunChange
from tests.support.broker.stored_runs import snapshot, write
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.waiting_runs import waiting_run

COUNT = 'pyoco_run_schedule_to_start_seconds_count{flow="noop"}'


def running() -> RunSnapshot:
    now = time.time()
    return snapshot(status=RunStatus.RUNNING, submitted_at=now - 5, start_time=now)


async def observed(gateway: RunningGateway) -> str | None:
    await gateway.inside.listing.lists.caught_up()
    lines = (await gateway.http.get("/metrics")).text.splitlines()
    return next((line.removeprefix(f"{COUNT} ") for line in lines if line.startswith(COUNT)), None)


async def rewrite(gateway: RunningGateway, run_id: str, **fields: Any) -> None:
    stored = await gateway.inside.runs.store.get_from_leader(run_id)
    assert stored is not None
    await gateway.inside.runs.store.replace(
        structs.replace(stored.snapshot, **fields), revision=stored.revision
    )


@pytest.mark.parametrize("keeps_its_index", [True, False])
async def test_a_gateway_does_not_observe_a_start_again_after_a_restart(
    config: NatsBackendConfig, keeps_its_index: bool
) -> None:
    async with running_gateway(config) as gateway:
        await gateway.inside.listing.lists.caught_up()
        [run_id] = await write(gateway.inside.runs.store, running())
        assert await observed(gateway) == "1.0"
    after = config if keeps_its_index else replace(config, index_dir=f"{config.index_dir}-other")
    async with running_gateway(after) as gateway:
        await gateway.inside.listing.lists.caught_up()
        await rewrite(gateway, run_id, heartbeat_at=time.time())
        assert await observed(gateway) is None
        await rewrite(gateway, run_id, status=RunStatus.COMPLETED, end_time=time.time())
        assert await observed(gateway) is None
        await write(gateway.inside.runs.store, running())
        assert await observed(gateway) == "1.0"


async def test_a_gateway_does_not_observe_the_start_of_a_run_that_is_retried_after_its_restart(
    config: NatsBackendConfig,
) -> None:
    async with running_gateway(config) as gateway:
        await gateway.inside.listing.lists.caught_up()
        run = await waiting_run(gateway.inside.connection, submitted_at=time.time() - 5)
        assert await observed(gateway) == "1.0"
        late = AnswerHandler(gateway.inside.connection, clock=lambda: run.waits[0].deadline_at)
        with pytest.raises(WaitExpired):
            await late.respond(run.wait_id, Answer(payload=1), ANYBODY, Actor())
    async with running_gateway(config) as gateway:
        await gateway.inside.listing.lists.caught_up()
        response = await gateway.http.post(f"/runs/{run.run_id}/retry")
        assert (response.status_code, response.json()["status"]) == (200, "WAITING_HUMAN")
        assert await observed(gateway) is None
        await rewrite(gateway, run.run_id, status=RunStatus.COMPLETED, end_time=time.time())
        assert await observed(gateway) is None


def test_a_run_that_failed_with_human_timeout_is_not_remembered_and_did_not_start_again() -> None:
    timings, page, run = RunTimings(), MetricPage(), running()
    timed_out: dict[str, Any] = {
        "status": RunStatus.FAILED,
        "reason": Reason.HUMAN_TIMEOUT,
        "end_time": time.time(),
        "waited_sec": 1.0,
    }
    retried: dict[str, Any] = {"status": RunStatus.WAITING_HUMAN, "waited_sec": 2.0}
    for revision, (fields, remembered) in enumerate([({}, 1), (timed_out, 0), (retried, 1)], start=1):
        data = encode(structs.replace(run, **fields))
        timings.take([RunChange(run.run_id, revision, data, summary_of(data))])
        assert len(timings._started) == remembered
    timings.report_to(page)
    assert f"{COUNT} 1.0" in page.text().decode().splitlines()


def test_the_start_of_a_run_that_is_first_seen_as_it_waits_for_people_is_observed() -> None:
    """It has asked at once, between two reads of the feed."""
    timings, page, run = RunTimings(), MetricPage(), running()
    data = encode(structs.replace(run, status=RunStatus.WAITING_HUMAN, generation=1))
    timings.take([RunChange(run.run_id, 1, data, summary_of(data))])
    timings.report_to(page)
    assert f"{COUNT} 1.0" in page.text().decode().splitlines()
