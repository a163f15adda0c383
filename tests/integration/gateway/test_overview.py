"""`GET /overview`: counts, tenants and cost."""

import asyncio
import sqlite3
import time
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.responses.shared_responses import SharedResponses
from pyoco_server.http_api.routes.overview_routes import WINDOWS
from pyoco_server.records.models import RunStatus
from pyoco_server.runs.index import activity
from pyoco_server.runs.index import index_schema as schema
from pyoco_server.runs.index.activity import Span, activity_in
from tests.integration.gateway.test_http_errors import assert_problem
from tests.support.broker.stored_runs import ended, snapshot, write
from tests.support.broker.worker_records import a_record, put_record
from tests.support.running.gateway import RunningGateway
from tests.support.running.tenants import having_tenants
from tests.support.samples.summaries import summary
from tests.support.waiting import eventually


async def overview(gateway: RunningGateway, window: str = "24h") -> dict[str, Any]:
    response = await gateway.http.get("/overview", params={"window": window})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def test_an_empty_overview(gateway: RunningGateway) -> None:
    found = await overview(gateway)
    assert found["statuses"] == dict.fromkeys(RunStatus, 0)
    assert [stretch["completed"] for stretch in found["ended"]] == [0] * 49
    assert found["failing"] == found["queues"] == []
    assert found["workers"]["alive"] == 0


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


@pytest.mark.parametrize("window", WINDOWS)
async def test_the_last_bucket_ends_now(gateway: RunningGateway, window: str) -> None:
    found = await overview(gateway, window)
    assert found["window"] == window
    begins = [stretch["at"] for stretch in found["ended"]]
    assert begins[0] <= found["since"] < begins[0] + found["stretch_sec"]
    assert begins[-1] <= found["at"] < begins[-1] + found["stretch_sec"]
    assert found["at"] - found["since"] == pytest.approx({"1h": 3600, "24h": 86400, "7d": 604800}[window])


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    """Workers whose record the test has written are heard of no more, and count as alive all the same."""
    return replace(config, worker_disconnect_timeout_sec=600.0)


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


@pytest.mark.parametrize("query", [{"window": "2h"}, {"windows": "1h"}])
async def test_an_unknown_window_is_rejected(gateway: RunningGateway, query: dict[str, str]) -> None:
    response = await gateway.http.get("/overview", params=query)
    problem = assert_problem(response, 422, 17)
    [field] = problem["errors"]
    assert field["field"] in query
    assert "expected" in field["message"]


async def test_concurrent_requests_share_one_response(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    found: list[int] = []

    async def find() -> bytes:
        found.append(len(found))
        await asyncio.sleep(0)
        return b"%d" % found[-1]

    kept = SharedResponses()
    assert await asyncio.gather(*(kept.get("key", find) for _ in range(5))) == [b"0"] * 5
    assert await kept.get("another", find) == b"1"
    clock += 1
    assert await kept.get("key", find) == b"2"


async def test_a_failed_computation_is_repeated() -> None:
    async def fail() -> bytes:
        raise ConnectionError

    async def find() -> bytes:
        return b"found"

    kept = SharedResponses()
    with pytest.raises(ConnectionError):
        await kept.get("key", fail)
    assert await kept.get("key", find) == b"found"


async def test_a_new_run_is_counted_without_a_restart(gateway: RunningGateway) -> None:
    assert (await overview(gateway))["statuses"]["PENDING"] == 0
    await gateway.submit("noop")

    async def reported() -> bool:
        return bool((await overview(gateway))["statuses"]["PENDING"])

    await eventually(reported, describe="the run is counted")


@pytest.mark.parametrize(("flows", "steps_each"), [(10, 15), (2000, 50)])
def test_a_hundred_thousand_runs_are_counted_in_few_steps(flows: int, steps_each: int) -> None:
    """By the steps of SQLite rather than by the clock, which depends on who else is at work."""
    db = sqlite3.connect(":memory:")
    db.executescript(schema.TABLES)
    statuses = ("COMPLETED", "FAILED", "CANCELLED")
    groups = [
        (number, "", f"flow{number // 3}", "default", statuses[number % 3]) for number in range(flows * 3)
    ]
    db.executemany("INSERT INTO groups VALUES (?, ?, ?, ?, ?, 1)", groups)
    db.executemany(
        "INSERT INTO runs VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL)",
        (
            (number, b"%d" % number, 0, number % len(groups), number % 86_400 + 0.5)
            for number in range(100_000)
        ),
    )
    item = msgspec.json.encode(summary(RunStatus.FAILED).item)
    db.execute("INSERT INTO docs VALUES (0, ?, '')", [item])
    for name in ("by_updated_at", "grouped_by_updated_at"):
        db.execute(f"CREATE INDEX {name} ON runs {schema.INDEXES[name]}")
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1000

    db.set_progress_handler(count, 1000)
    found = activity_in(db, None, Span.until(86_400.0, 86_400, 1800), flows=10)
    assert sum(sum(stretch.values()) for stretch in found.ended) == 100_000
    assert len(found.failing) == 10
    assert steps < steps_each * 100_000
