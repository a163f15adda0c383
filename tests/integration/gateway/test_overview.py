"""`GET /overview`: counts, tenants and cost."""

import time
from typing import Any

import pytest

from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.runs.index.statistics import activity
from tests.support.broker.stored_runs import ended, snapshot, write
from tests.support.broker.worker_records import a_record, put_record
from tests.support.running.gateway import RunningGateway
from tests.support.running.tenants import having_tenants
from tests.support.waiting import eventually


async def overview(gateway: RunningGateway, window: str = "24h") -> dict[str, Any]:
    response = await gateway.http.get("/overview", params={"window": window})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


@pytest.mark.parametrize(
    "grouped_meanwhile", [0, 1000], ids=["each stretch is found by itself", "all are sorted into stretches"]
)
async def test_runs_are_counted_where_they_ended(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, grouped_meanwhile: int
) -> None:
    monkeypatch.setattr(activity, "_GROUPED_MEANWHILE", grouped_meanwhile)
    now = time.time()
    # Within the first stretch, and yet before the window.
    old = now - 86_400 - 0.5
    newest = ended(RunStatus.FAILED, at=now - 1, flow_name="etl", tag="gpu", error="ValueError: no rows")
    await write(
        gateway.inside.runs.store,
        ended(at=now - 2, flow_name="etl"),
        ended(RunStatus.FAILED, at=now - 7200, flow_name="etl", error="an older one"),
        newest,
        ended(RunStatus.FAILED, at=now - 1, flow_name="mail"),
        ended(RunStatus.CANCELLED, at=now - 5, flow_name="mail"),
        ended(RunStatus.FAILED, at=old, flow_name="long_ago"),
        snapshot(flow_name="etl", status=RunStatus.RUNNING, updated_at=now),
    )
    found = await overview(gateway)
    there = {status: count for status, count in found["statuses"].items() if count}
    assert there == {"COMPLETED": 1, "FAILED": 4, "CANCELLED": 1, "RUNNING": 1}
    for stretch in found["ended"]:
        within = [at for at in (now - 7200, now - 1, now - 1) if 0 <= at - stretch["at"] < 1800]
        assert stretch["failed"] == len(within)
    assert sum(stretch["completed"] for stretch in found["ended"]) == 1
    etl, mail = found["failing"]
    sparkline = etl.pop("sparkline")
    assert [sum(sparkline[end]) for end in ("completed", "failed", "cancelled")] == [1, 2, 0]
    assert all(len(counts) == len(found["ended"]) for counts in sparkline.values())
    assert etl == {
        "flow_name": "etl",
        "completed": 1,
        "failed": 2,
        "cancelled": 0,
        "last_run_id": newest.run_id,
        "last_failed_at": newest.updated_at,
        "last_error": "ValueError: no rows",
    }
    assert (mail["flow_name"], mail["failed"], mail["cancelled"]) == ("mail", 1, 1)
    listed = await gateway.http.get(
        "/runs", params={"status": "failed", "flow": "etl", "updated_after": found["since"], "total": "true"}
    )
    assert listed.json()["total"] == etl["failed"]
    week = await overview(gateway, "7d")
    assert [flow["flow_name"] for flow in week["failing"]] == ["etl", "long_ago", "mail"]


async def test_an_empty_overview_and_a_new_run(gateway: RunningGateway) -> None:
    for window, length in (("1h", 3600), ("24h", 86400), ("7d", 604800)):
        found = await overview(gateway, window)
        assert found["window"] == window
        assert found["statuses"] == dict.fromkeys(RunStatus, 0)
        assert {stretch["completed"] for stretch in found["ended"]} == {0}
        assert found["failing"] == found["queues"] == []
        assert found["workers"]["alive"] == 0
        assert found["firing_alerts"] == {"total": 0, "first": []}
        begins = [stretch["at"] for stretch in found["ended"]]
        assert begins[0] <= found["since"] < begins[0] + found["stretch_sec"]
        assert begins[-1] <= found["at"] < begins[-1] + found["stretch_sec"], "the last one ends now"
        assert found["at"] - found["since"] == pytest.approx(length)
    assert len((await overview(gateway))["ended"]) == 49
    await gateway.submit("noop")

    async def reported() -> bool:
        return bool((await overview(gateway))["statuses"]["PENDING"])

    await eventually(reported, describe="the run is counted without a restart")


async def test_queues_say_how_old_they_are_and_who_serves_them(gateway: RunningGateway) -> None:
    connection = gateway.inside.connection
    now = time.time()
    for record in (
        a_record("a", tags=["gpu", "default"], seen_at=now, slots=4, slots_busy=1),
        a_record("b", tags=["gpu"], seen_at=now, paused=True),
        a_record("silent", tags=["gpu"], seen_at=now - 3600),
        a_record("known", tags=["gpu"], seen_at=now - 3600, hidden=True),
    ):
        await put_record(connection, record)
    for tag in ("gpu", "gpu", "nobody"):
        await gateway.submit("noop", tag=tag)

    found = await overview(gateway)
    queues = {queue["tag"]: queue for queue in found["queues"]}
    assert (queues["gpu"]["waiting"], queues["gpu"]["workers"], queues["gpu"]["workers_held"]) == (2, 1, 1)
    assert (queues["nobody"]["waiting"], queues["nobody"]["workers"]) == (1, 0)
    assert 0 < queues["nobody"]["oldest_sec"] < 60
    assert found["workers"] == {
        **{"alive": 2, "paused": 1, "draining": 0, "disconnected": 1},
        **{"slots": 5, "slots_busy": 1},
    }


async def test_queues_count_the_runs_that_lists_have(gateway: RunningGateway) -> None:
    """Also while workers have more jobs than they execute, and for runs that are parked."""
    now = time.time()
    await put_record(gateway.inside.connection, a_record("a", tags=["gpu"], seen_at=now, slots=4))
    runs = [
        snapshot(tag="gpu", status=status, updated_at=now)
        for status in (RunStatus.RUNNING, RunStatus.RUNNING, RunStatus.WAITING_HUMAN, RunStatus.WAITING)
    ]
    await write(gateway.inside.runs.store, *runs)
    await gateway.submit("noop", tag="gpu")
    found = await overview(gateway)
    [queue] = found["queues"]
    assert (queue["tag"], queue["running"], queue["pending"]) == ("gpu", 2, 1)
    for status, count in (("RUNNING", queue["running"]), ("PENDING", queue["pending"])):
        listed = await gateway.http.get("/runs", params={"tag": "gpu", "status": status, "total": "true"})
        assert listed.json()["total"] == found["statuses"][status] == count


async def test_the_oldest_queued_run_is_no_cancelled_one(gateway: RunningGateway) -> None:
    """The job of a cancelled run stays in the queue until a worker reads it."""
    now = time.time()
    cancelled = await gateway.submit("noop", tag="cancelled")
    await gateway.http.post(f"/runs/{cancelled}/cancel")
    await gateway.ends(cancelled)
    await write(
        gateway.inside.runs.store,
        snapshot(tag="gpu", flow_name="etl", updated_at=now - 500),
        snapshot(tag="gpu", flow_name="mail", updated_at=now - 300),
        snapshot(tag="gpu", status=RunStatus.RUNNING, updated_at=now - 900),
        snapshot(tag="idle", status=RunStatus.RUNNING, updated_at=now),
    )
    queues = {queue["tag"]: queue for queue in (await overview(gateway))["queues"]}
    assert queues["gpu"]["oldest_pending_sec"] == pytest.approx(500, abs=60)
    assert queues["idle"]["oldest_pending_sec"] is None
    assert (queues["cancelled"]["waiting"], queues["cancelled"]["oldest_pending_sec"]) == (1, None)


async def test_runs_of_a_worker_that_is_gone_are_lost_until_another_has_them(gateway: RunningGateway) -> None:
    connection, now = gateway.inside.connection, time.time()
    for record in (a_record("alive", seen_at=now + 600), a_record("gone", seen_at=now - 900)):
        await put_record(connection, record)
    silent: dict[str, Any] = {"status": RunStatus.RUNNING, "heartbeat_at": now - 900, "updated_at": now - 900}
    await write(
        gateway.inside.runs.store,
        snapshot(tag="gpu", worker_id="gone", **silent),
        snapshot(tag="gpu", worker_id="gone", **{**silent, "status": RunStatus.CANCELLING}),
        snapshot(worker_id="forgotten", **silent),
        snapshot(worker_id="alive", **silent),
        # Its record is old, but it has reported this run just now.
        snapshot(tag="edge", worker_id="gone", **{**silent, "updated_at": now + 60}),
        ended(at=now - 900, worker_id="gone"),
    )
    assert (await overview(gateway))["lost_runs"] == [
        {"worker_id": "gone", "tag": "gpu", "runs": 2, "last_seen_at": now - 900},
        {"worker_id": "forgotten", "tag": "default", "runs": 1, "last_seen_at": None},
    ]


async def test_flows_that_fail_most_often_are_named_beside_those_with_most_failures(
    gateway: RunningGateway,
) -> None:
    now = time.time()
    runs = [
        ended(status, at=now - 1, flow_name=f"busy-{number:02}")
        for number in range(10)
        for status in (RunStatus.FAILED, RunStatus.FAILED, RunStatus.COMPLETED)
    ]
    await write(gateway.inside.runs.store, *runs, ended(RunStatus.FAILED, at=now - 1, flow_name="always"))
    found = await overview(gateway)
    busy = sorted({run.flow_name for run in runs})
    assert [flow["flow_name"] for flow in found["failing"]] == [*busy, "always"]


async def test_firing_alerts_that_cannot_be_read_are_unknown(gateway: RunningGateway) -> None:
    connection = gateway.inside.connection
    await jetstream_api.call(connection, f"STREAM.DELETE.KV_{connection.config.alerts_kv_bucket}")
    found = await overview(gateway, "7d")
    assert (found["firing_alerts"], found["workers"]["alive"]) == (None, 0)


async def test_each_tenant_sees_its_own_overview(config: NatsBackendConfig) -> None:
    async with having_tenants(config, "acme", "rival", "the-operator") as (acme, rival, operator):
        failed = ended(RunStatus.FAILED, at=time.time(), flow_name="acmes", tag="acmes", tenant_id="acme")
        await write(acme.inside.runs.store, failed)
        await acme.submit("noop", tag="acmes")
        of_acme, of_rival = await acme.json("/overview"), await rival.json("/overview")
        of_all = await operator.json("/overview")
        assert of_acme["statuses"]["FAILED"] == of_all["statuses"]["FAILED"] == 1
        assert [queue["tag"] for queue in of_acme["queues"]] == ["acmes"]
        assert set(of_rival["statuses"].values()) == {0}
        assert of_rival["failing"] == of_rival["queues"] == []
        assert sum(stretch["failed"] for stretch in of_rival["ended"]) == 0
