"""Runs with a later start: SCHEDULED until their time, then executed once; or cancelled before."""

import asyncio
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from msgspec import structs

from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.runs.lifecycle.durable_start import DurableStarter
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.runs.lifecycle.unowned_runs import UnownedRuns
from pyoco_server.runs.sweep.delayed_starts import DelayedStarts
from tests.support.broker.nats_server import NatsServer
from tests.support.clocks import advance_server_clock
from tests.support.inspection import queue_is_empty
from tests.support.problems import assert_field_problem, assert_problem
from tests.support.running.bulk_operations import dry_run, ends
from tests.support.running.bulk_operations import start as start_bulk
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.sweeping import messages_in_queue, rounds
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually, eventually_equals

pytestmark = pytest.mark.asyncio(loop_scope="module")

YAML = "version: 1\nflow:\n  graph: |\n    noop\ntasks:\n  noop:\n    callable: tests.flows.basics:nothing\n"
HOUR = 3600.0


async def submitted(gateway: RunningGateway, **fields: Any) -> dict[str, Any]:
    response = await gateway.http.post("/runs", json={"flow_name": "noop", **fields})
    assert response.status_code == 200, response.text
    accepted: dict[str, Any] = response.json()
    return accepted


async def held(gateway: RunningGateway, **fields: Any) -> str:
    """A run of a tag of its own that starts in an hour."""
    accepted = await submitted(gateway, **{"delay_sec": HOUR, "tag": f"t-{uuid4().hex[:8]}", **fields})
    assert accepted["status"] == "SCHEDULED"
    run_id: str = accepted["run_id"]
    return run_id


async def listed(gateway: RunningGateway, **query: Any) -> list[dict[str, Any]]:
    response = await gateway.http.get("/runs", params=query)
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()
    return items


@pytest.mark.parametrize("form", ["delay", "epoch", "iso"])
async def test_a_run_waits_for_its_start_and_runs_once(working_gateway: RunningGateway, form: str) -> None:
    at = datetime.now(UTC) + timedelta(seconds=0.5)
    given: dict[str, dict[str, Any]] = {
        "delay": {"delay_sec": 0.5},
        "epoch": {"start_at": at.timestamp()},
        "iso": {"start_at": f"{at}"},
    }
    accepted = await submitted(working_gateway, timeout_sec=60, **given[form])
    assert accepted["status"] == "SCHEDULED"
    run = await working_gateway.ends(accepted["run_id"])
    assert (run["status"], run["attempt"], run["generation"]) == ("COMPLETED", 1, 0)
    assert run["start_time"] >= run["start_at"] > run["submitted_at"]
    assert run["cause"] == {"kind": "api"}


async def test_a_flow_yaml_and_a_rerun_start_later_too(working_gateway: RunningGateway) -> None:
    at = datetime.now(UTC) + timedelta(seconds=0.4)
    response = await working_gateway.submit_yaml(YAML, start_at=at.isoformat())
    assert response.json()["status"] == "SCHEDULED", response.text
    first = await working_gateway.ends(response.json()["run_id"])
    assert (first["status"], first["start_at"]) == ("COMPLETED", at.timestamp())
    again = await working_gateway.http.post(f"/runs/{first['run_id']}/rerun", json={"delay_sec": 0.4})
    assert again.json()["status"] == "SCHEDULED", again.text
    run = await working_gateway.ends(again.json()["run_id"])
    assert run["status"] == "COMPLETED"
    assert run["start_time"] >= run["start_at"] > first["start_at"]
    assert run["cause"] == {"kind": "rerun", "id": first["run_id"]}


async def test_a_start_in_the_past_is_at_once(working_gateway: RunningGateway) -> None:
    for fields in ({"start_at": "2020-01-01T00:00:00Z"}, {"start_at": 0}, {"delay_sec": 0}):
        accepted = await submitted(working_gateway, **fields)
        assert accepted["status"] == "PENDING"
        assert (await working_gateway.ends(accepted["run_id"]))["status"] == "COMPLETED"


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"start_at": "2027-01-31T09:00"}, "start_at", "add Z for UTC"),
        ({"start_at": "soon"}, "start_at", "ISO 8601"),
        ({"start_at": [1]}, "start_at", "ISO 8601"),
        ({"start_at": True}, "start_at", "ISO 8601"),
        ({"start_at": "2999-01-01T00:00:00Z"}, "start_at", "ten years"),
        ({"delay_sec": -1}, "delay_sec", "from 0 to"),
        ({"delay_sec": 1e10}, "delay_sec", "ten years"),
        ({"delay_sec": "2h"}, "delay_sec", "number of seconds"),
        ({"start_at": 1.0, "delay_sec": 1}, "delay_sec", "one of them"),
    ],
    ids=str,
)
async def test_a_bad_start_is_refused_and_nothing_is_stored(
    shared_gateway: RunningGateway, fields: dict[str, Any], field: str, says: str
) -> None:
    response = await shared_gateway.http.post("/runs", json={"flow_name": "noop", "tag": "bad", **fields})
    error = assert_field_problem(response, field, says)
    assert error["value"] is not None
    texts = {name: str(value) for name, value in fields.items() if not isinstance(value, list | bool)}
    if texts:
        assert_field_problem(await shared_gateway.submit_yaml(YAML, tag="bad", **texts), field, says)
    assert await listed(shared_gateway, tag="bad") == []


async def test_a_cancelled_one_never_starts(own_gateway: RunningGateway) -> None:
    run_id, other = await held(own_gateway), await held(own_gateway)
    response = await own_gateway.http.post(f"/runs/{run_id}/cancel", json={"reason": "not needed"})
    assert response.json()["status"] == "CANCELLING"
    run = await own_gateway.ends(run_id)
    assert (run["status"], run["start_time"], run["cancel_reason"]) == ("CANCELLED", None, "not needed")
    advance_server_clock(own_gateway.inside, HOUR + 1)
    await own_gateway.reaches(other, "PENDING")
    assert (await own_gateway.get(run_id))["status"] == "CANCELLED"
    assert await messages_in_queue(own_gateway) == 1


async def test_it_is_listed_found_and_explained(shared_gateway: RunningGateway) -> None:
    tag = f"t-{uuid4().hex[:8]}"
    run_id = await held(shared_gateway, tag=tag)
    [item] = await listed(shared_gateway, tag=tag, status="scheduled", cause="api")
    run = await shared_gateway.get(run_id)
    assert (item["run_id"], item["start_at"], item["start_time"]) == (run_id, run["start_at"], None)
    assert "cause" not in item
    told = (await shared_gateway.http.get(f"/runs/{run_id}/explain")).json()
    assert (told["status"], told["findings"][0]["code"]) == ("SCHEDULED", "scheduled")
    assert re.search(r"starts in (1h 0m|59m \d+s)", told["summary"])
    japanese = await shared_gateway.http.get(f"/runs/{run_id}/explain", headers={"Accept-Language": "ja"})
    assert re.search(r"(1時間0分|59分\d+秒)後", japanese.json()["summary"])


async def test_runs_are_found_by_their_cause(working_gateway: RunningGateway) -> None:
    name, tag = f"nightly-{uuid4().hex[:8]}", "default"
    job = new_job(flow_name="noop", tag=tag, cause=Cause(kind=CauseKind.SCHEDULE, id=name, at=5.0))
    await DurableStarter(working_gateway.inside.connection).ensure_run(job)
    await working_gateway.ends(job.run_id)
    rerun = await working_gateway.http.post(f"/runs/{job.run_id}/rerun")
    repeat = rerun.json()["run_id"]
    [item] = await listed(working_gateway, cause=f"schedule:{name}")
    assert (item["run_id"], item["cause"]) == (job.run_id, {"kind": "schedule", "id": name, "at": 5.0})
    assert job.run_id in [run["run_id"] for run in await listed(working_gateway, cause="schedule")]
    assert [run["run_id"] for run in await listed(working_gateway, cause=f"rerun:{job.run_id}")] == [repeat]
    submitted_ids = [run["run_id"] for run in await listed(working_gateway, cause="api", limit=200)]
    assert not {job.run_id, repeat} & set(submitted_ids)
    response = await working_gateway.http.get("/runs", params={"cause": "weather"})
    assert_field_problem(response, "cause", "expected one of api, schedule", status=422, number=17)


async def test_a_key_stands_for_one_start(shared_gateway: RunningGateway) -> None:
    async def post(key: str, **fields: Any) -> httpx.Response:
        body = {"flow_name": "noop", "tag": "keyed", **fields}
        return await shared_gateway.http.post("/runs", json=body, headers={"Idempotency-Key": key})

    key = uuid4().hex
    first, again = await post(key, delay_sec=HOUR), await post(key, delay_sec=HOUR)
    assert first.json() == again.json()
    assert (first.json()["status"], again.headers["idempotent-replayed"]) == ("SCHEDULED", "true")
    for other in ({"delay_sec": 60}, {"start_at": time.time() + HOUR}, {}):
        assert_problem(await post(key, **other), 409, 26)
    key = uuid4().hex
    at = datetime.now(UTC) + timedelta(hours=1)
    plain = await post(key, start_at=at.timestamp())
    assert (await post(key, start_at=at.isoformat())).json() == plain.json()
    assert_problem(await post(key, start_at=at.timestamp() + 1), 409, 26)


async def test_it_is_not_rerun_before_its_end(shared_gateway: RunningGateway) -> None:
    run_id = await held(shared_gateway)
    response = await shared_gateway.http.post(f"/runs/{run_id}/rerun")
    problem = assert_problem(response, 409, 25)
    assert "SCHEDULED" in problem["detail"]


async def test_many_are_cancelled_at_once(own_gateway: RunningGateway) -> None:
    run_ids = {await held(own_gateway, tag="bulk") for _ in range(5)}
    query = {"status": "SCHEDULED", "tag": "bulk"}
    counted = await dry_run(own_gateway, "/bulk/cancel", query)
    assert counted["matched"] == 5
    await ends(own_gateway, await start_bulk(own_gateway, "/bulk/cancel", query, expected_count=5))
    cancelled = await listed(own_gateway, status="CANCELLED", tag="bulk")
    assert {run["run_id"] for run in cancelled} == run_ids


async def test_two_gateways_release_each_run_once(config: NatsBackendConfig, tmp_path: Path) -> None:
    second = replace(config, index_dir=str(tmp_path / "second"))
    async with running_gateway(config) as one, running_gateway(second) as other:
        run_ids = [await held(one, tag="both") for _ in range(60)]
        known = [gateway.inside.listing.open_runs for gateway in (one, other)]
        await eventually(lambda: [len(runs) for runs in known] == [60, 60], describe="both know the runs")
        for gateway in (one, other):
            advance_server_clock(gateway.inside, HOUR + 1)
        for run_id in run_ids:
            await one.reaches(run_id, "PENDING")
        await eventually_equals(lambda: messages_in_queue(one), 60, describe="each has a job")
        released = [gateway.inside.sweeper.actions["released"] for gateway in (one, other)]
        assert sum(released) == 60, released


async def test_the_sweep_publishes_none_before_its_time_and_releases_a_forgotten_one(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The timekeeper forgets everything.
    monkeypatch.setattr(DelayedStarts, "add", lambda *_: False)
    async with running_gateway(replace(config, sweep_interval_sec=0.2)) as gateway:
        run_id = await held(gateway)
        await rounds(gateway, 3)
        assert await queue_is_empty(gateway)
        assert (await gateway.get(run_id))["status"] == "SCHEDULED"
        advance_server_clock(gateway.inside, HOUR + 60)
        await gateway.reaches(run_id, "PENDING")
        assert gateway.inside.sweeper.actions == {"released": 1}
        assert await messages_in_queue(gateway) == 1


async def test_a_forged_start_is_refused(own_gateway: RunningGateway) -> None:
    run_id = await held(own_gateway)
    store = RunStore(own_gateway.inside.connection)
    stored = await store.get_from_leader(run_id)
    assert stored is not None
    await store.replace(structs.replace(stored.snapshot, start_at=1.0), revision=stored.revision)
    run = await own_gateway.ends(run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "invalid_job")
    assert "not as a gateway accepted it" in run["error"]
    assert await queue_is_empty(own_gateway)


async def test_each_write_of_a_release_gives_way_to_submits(
    own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await held(own_gateway)
    connection = own_gateway.inside.connection
    stored: list[tuple[RunStatus, int]] = []

    async def give_way() -> None:
        run = await RunStore(connection).get_from_leader(run_id)
        assert run is not None
        stored.append((run.snapshot.status, await messages_in_queue(own_gateway)))

    monkeypatch.setattr(connection.urgent, "give_way", give_way)
    assert await UnownedRuns(connection).release(run_id, time.time() + 2 * HOUR)
    assert stored == [(RunStatus.SCHEDULED, 0), (RunStatus.PENDING, 0)]


async def test_a_release_that_another_has_done_is_none(own_gateway: RunningGateway) -> None:
    run_id = await held(own_gateway)
    unowned_runs = UnownedRuns(own_gateway.inside.connection)
    now = time.time()
    assert not await unowned_runs.release(run_id, now)
    results = await asyncio.gather(*(unowned_runs.release(run_id, now + 2 * HOUR) for _ in range(5)))
    assert sorted(results) == [False] * 4 + [True]
    assert not await unowned_runs.release(str(uuid4()), now)
    assert await messages_in_queue(own_gateway) == 1
    stored = await RunStore(own_gateway.inside.connection).get(run_id)
    assert stored is not None
    assert stored.snapshot.status is RunStatus.PENDING


async def test_a_release_does_not_depend_on_a_replica_that_lags(own_gateway: RunningGateway) -> None:
    run_id, now = await held(own_gateway), time.time() + 2 * HOUR
    store = RunStore(own_gateway.inside.connection)
    unowned_runs = UnownedRuns(own_gateway.inside.connection)
    read = (await unowned_runs.signed_runs([run_id]))[run_id]
    await store.replace(structs.replace(read.snapshot, updated_at=1.0), revision=read.revision)
    assert await unowned_runs.release(run_id, now, read)
    assert await messages_in_queue(own_gateway) == 1
    # The same once more: it is neither scheduled nor queued again.
    assert not await unowned_runs.release(run_id, now, read)
    assert await messages_in_queue(own_gateway) == 1


async def test_large_params_and_flow_yaml_are_there_at_the_start(own_gateway: RunningGateway) -> None:
    params = {"rows": ["x" * 100] * 2_000}
    run_id = await held(own_gateway, tag="default", params=params)
    response = await own_gateway.submit_yaml(YAML, start_at=str(time.time() + HOUR))
    advance_server_clock(own_gateway.inside, HOUR + 1)
    async with serving_worker(own_gateway.inside.config):
        for each in (run_id, response.json()["run_id"]):
            assert (await own_gateway.ends(each))["status"] == "COMPLETED"


async def test_a_start_while_nats_is_away_follows_when_it_is_back(
    own_nats: NatsServer, config: NatsBackendConfig
) -> None:
    config = replace(config, nats_url=own_nats.url)
    async with running_gateway(config) as gateway:
        run_id = await held(gateway, tag="default")
        own_nats.kill()
        await eventually(lambda: not gateway.inside.connection.ready, describe="the outage is noticed")
        advance_server_clock(gateway.inside, HOUR + 1)
        own_nats.restart()
        async with serving_worker(config):
            run = await gateway_ends(gateway, run_id)
        assert (run["status"], run["attempt"]) == ("COMPLETED", 1)


async def gateway_ends(gateway: RunningGateway, run_id: str) -> dict[str, Any]:
    """The ended run; 503 until the connection is back."""

    async def ended() -> dict[str, Any] | None:
        response = await gateway.http.get(f"/runs/{run_id}")
        if response.status_code == 503:
            return None
        run: dict[str, Any] = response.json()
        return run if run["status"] in ("COMPLETED", "FAILED", "CANCELLED") else None

    return await eventually(ended, describe="the run has ended")
