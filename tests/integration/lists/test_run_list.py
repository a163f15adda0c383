"""`GET /runs`: filters, response forms, pages and refusals."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.stored_runs import ended, snapshot, write, write_many
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC

SUMMARY = {
    "run_id", "flow_name", "status", "tag", "tags", "updated_at", "submitted_at", "start_time", "end_time",
    "duration_sec", "worker_id", "heartbeat_at", "attempt", "reason", "error", "cancel_requested_at",
    "origin_run_id", "workflow_yaml_sha256", "tenant_id", "tasks_total", "tasks_over",
    "wait_message", "wait_schema", "wait_deadline_at", "open_waits",
}  # fmt: skip


async def listed(gateway: RunningGateway, **query: Any) -> Any:
    response = await gateway.http.get("/runs", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def ids(gateway: RunningGateway, **query: Any) -> list[str]:
    response = await listed(gateway, **query)
    return [item["run_id"] for item in (response["items"] if isinstance(response, dict) else response)]


async def refused(gateway: RunningGateway, **query: Any) -> dict[str, dict[str, str]]:
    """What is wrong, by field."""
    response = await gateway.http.get("/runs", params=query)
    assert response.status_code == 422, response.text
    problem = response.json()
    assert problem["err_id"] == "ERR-PYOCO-0017"
    return {error["field"]: error for error in problem["errors"]}


# The two forms


async def test_a_fresh_server_has_an_empty_list(gateway: RunningGateway) -> None:
    assert await listed(gateway) == []
    empty: dict[str, Any] = {"items": [], "next_cursor": None}
    assert await listed(gateway, updated_after="0") == empty
    assert await listed(gateway, paged="true") == empty
    assert await listed(gateway, total="true") == {**empty, "total": 0, "total_exact": True}
    assert await listed(gateway, status="failed", q="nothing", sort="duration", include="full") == []


async def test_a_submitted_run_is_listed_on_every_gateway(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with running_gateway(config) as other:
        for _ in range(20):
            run_id = await gateway.submit("noop")
            assert (await ids(gateway, limit=1), await ids(other, limit=1)) == ([run_id], [run_id])


async def test_an_item_is_a_summary_or_the_whole_run(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(config, worker_id="w1"):
        run_id = await gateway.submit("noop", params={"n": 1}, tags=["blue"])
        run = await gateway.ends(run_id)
    [item] = await listed(gateway)
    assert set(item) == SUMMARY
    assert {name: item[name] for name in ("run_id", "status", "tag", "tags", "worker_id", "updated_at")} == {
        "run_id": run_id,
        "status": "COMPLETED",
        "tag": "default",
        "tags": ["blue"],
        "worker_id": "w1",
        "updated_at": run["updated_at"],
    }
    assert item["duration_sec"] == pytest.approx(run["end_time"] - run["start_time"])
    assert item["heartbeat_at"] == run["heartbeat_at"]
    assert (item["tasks_total"], item["tasks_over"]) == (1, 1)
    for include in ("full", "all"):
        [whole] = await listed(gateway, include=include)
        assert whole["params"] == {"n": 1}
        assert whole["task_records"] == run["task_records"]
    page = await listed(gateway, include="full", paged="true")
    assert page["items"] == [whole]


async def test_a_list_object_is_returned_on_request(gateway: RunningGateway) -> None:
    [run_id] = await write(gateway.inside.runs.store, ended(at=500.0))
    for query in ({"updated_after": "499"}, {"paged": "1"}, {"total": "true"}):
        page = await listed(gateway, **query)
        assert [item["run_id"] for item in page["items"]] == [run_id]
        assert page["next_cursor"] is None
        assert ("total" in page) == ("total" in query)
    for query in ({}, {"updated_before": "501"}, {"paged": "0"}, {"total": "false"}):
        assert [item["run_id"] for item in await listed(gateway, **query)] == [run_id]


# Filters, order, pages


async def test_every_filter_selects_its_runs(gateway: RunningGateway) -> None:
    origin = ended().run_id
    runs = [
        ended(at=100.0, flow_name="etl", error="KeyError: 'Umsatz'", status=RunStatus.FAILED),
        ended(at=200.0, tag="gpu", tags=["gpu", "blue"], worker_id="w7"),
        ended(at=300.0, params={"kunde": "ACME GmbH"}, origin_run_id=origin),
        snapshot(updated_at=400.0, submitted_at=390.0, workflow_yaml_sha256="a" * 64),
    ]
    failed, tagged, rerun, pending = await write(gateway.inside.runs.store, *runs)
    for query, expected in (
        ({"status": "failed"}, [failed]),
        ({"status": "FAILED,pending"}, [pending, failed]),
        ({"status": ["Failed", "PENDING"]}, [pending, failed]),
        ({"flow": "etl"}, [failed]),
        ({"flow": "et"}, []),
        ({"tag": "gpu"}, [tagged]),
        ({"tag": "blue"}, [tagged]),
        ({"worker": "w7"}, [tagged]),
        ({"origin": origin}, [rerun]),
        ({"workflow_yaml_sha256": "A" * 64}, [pending]),
        ({"updated_after": "100", "updated_before": "300"}, [tagged]),
        ({"submitted_after": "198", "submitted_before": "390"}, [rerun]),
        ({"q": "umsatz"}, [failed]),
        ({"q": "ETL"}, [failed]),
        ({"q": "acme gmbh"}, [rerun]),
        ({"q": "lu"}, [tagged]),
        ({"q": "acme", "status": "FAILED"}, []),
        ({"q": failed[:8]}, [failed]),
        ({"q": failed[:20].upper(), "flow": "etl"}, [failed]),
        ({"q": pending}, [pending]),
        ({"q": failed[:8], "status": "PENDING"}, []),
        ({"q": failed[1:]}, []),
        ({"tag": "default", "status": "COMPLETED"}, [rerun]),
    ):
        assert await ids(gateway, **query) == expected, query


async def test_every_field_sorts_both_ways(gateway: RunningGateway) -> None:
    first = ended(at=100.0, flow_name="b", start_time=10.0)
    second = ended(at=200.0, flow_name="a", start_time=199.0, status=RunStatus.FAILED)
    third = snapshot(updated_at=300.0, submitted_at=1.0, flow_name="c")
    a, b, c = await write(gateway.inside.runs.store, first, second, third)
    for field, ascending in {
        "updated_at": [a, b, c],
        "submitted_at": [c, a, b],
        "start_time": [c, a, b],
        "end_time": [c, a, b],
        "duration": [c, b, a],
        "flow_name": [b, a, c],
        "status": [a, b, c],
    }.items():
        assert await ids(gateway, sort=field, order="asc") == ascending, field
        assert await ids(gateway, sort=field) == ascending[::-1], field


async def test_cursors_continue_on_another_gateway(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    # Many share their time, so that their order is up to their revision.
    runs = [ended(at=float(number % 3), flow_name=f"flow-{number % 4}") for number in range(25)]
    written = await write(gateway.inside.runs.store, *runs)
    async with running_gateway(config) as other:
        for sort in ("updated_at", "flow_name", "duration"):
            whole = await ids(gateway, sort=sort, limit=200)
            assert sorted(whole) == sorted(written)
            listed_ids: list[str] = []
            query: dict[str, Any] = {"sort": sort, "limit": 4, "paged": "true"}
            while "cursor" not in query or query["cursor"] is not None:
                page = await listed(other if len(listed_ids) % 8 else gateway, **query)
                listed_ids += [item["run_id"] for item in page["items"]]
                query["cursor"] = page["next_cursor"]
            assert listed_ids == whole, sort


async def test_changes_while_paging_do_not_move_other_runs(gateway: RunningGateway) -> None:
    runs = [ended(at=float(number)) for number in range(1, 11)]
    written = await write(gateway.inside.runs.store, *runs)
    page = await listed(gateway, limit=4, paged="true")
    # One that was listed, one that was not, and a new one.
    for run in (runs[9], runs[2]):
        stored = await gateway.inside.runs.store.get(run.run_id)
        assert stored is not None
        await gateway.inside.runs.store.replace(
            structs.replace(run, updated_at=99.0), revision=stored.revision
        )
    await write(gateway.inside.runs.store, ended(at=98.0))
    rest = await ids(gateway, limit=200, cursor=page["next_cursor"])
    assert rest == [run_id for run_id in written[5::-1] if run_id != runs[2].run_id]


async def test_the_total_counts_all_pages(gateway: RunningGateway) -> None:
    await write_many(
        gateway.inside.connection,
        [ended(at=float(number), flow_name=f"flow-{number % 2}", worker_id="w1") for number in range(30)],
    )
    for query, total in (({}, 30), ({"flow": "flow-1"}, 15), ({"worker": "w1", "q": "flow-0"}, 15)):
        page = await listed(gateway, limit=2, total="true", **query)
        assert (len(page["items"]), page["total"], page["total_exact"]) == (2, total, True)


async def test_a_large_counted_total_is_a_lower_bound(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.runs.index.run_index.COUNTED", 3)
    await write(gateway.inside.runs.store, *(ended(worker_id="w1") for _ in range(5)))
    assert (await listed(gateway, total="true"))["total"] == 5
    page = await listed(gateway, total="true", worker="w1")
    assert (page["total"], page["total_exact"]) == (3, False)


# What is refused


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("status", "DONE", "PENDING"),
        ("status", "", "PENDING"),
        ("updated_after", "yesterday", "unix seconds"),
        ("updated_after", "nan", "unix seconds"),
        ("updated_before", "-1", "unix seconds"),
        ("submitted_after", "1_0", "unix seconds"),
        ("submitted_before", "inf", "unix seconds"),
        ("limit", "0", "1 to 200"),
        ("limit", "201", "1 to 200"),
        ("limit", "ten", "1 to 200"),
        ("limit", "٣", "1 to 200"),
        ("cursor", "", "next_cursor"),
        ("cursor", "abc", "next_cursor"),
        ("cursor", "あ", "next_cursor"),
        ("include", "records", "full"),
        ("sort", "error", "updated_at"),
        ("order", "up", "desc"),
        ("paged", "maybe", "true or false"),
        ("total", "2", "true or false"),
        ("flow", "", "1 to 200"),
        ("q", "x" * 201, "1 to 200"),
        ("origin", "me", "UUID"),
        ("workflow_yaml_sha256", "abc", "64"),
        ("stauts", "FAILED", "unknown parameter"),
    ],
)
async def test_a_malformed_query_is_refused_with_a_hint(
    shared_gateway: RunningGateway, field: str, value: str, expected: str
) -> None:
    errors = await refused(shared_gateway, **{field: value})
    assert list(errors) == [field]
    assert expected in errors[field]["message"]
    assert repr(value)[:20] in errors[field]["value"]


@pytest.mark.asyncio(loop_scope="module")
async def test_all_problems_are_reported_together(shared_gateway: RunningGateway) -> None:
    errors = await refused(shared_gateway, status="x", limit="x", foo="x", q=["a", "b"])
    assert set(errors) == {"status", "limit", "foo", "q"}
    assert "more than once" in errors["q"]["message"]


async def test_a_cursor_is_bound_to_its_query_and_signed(gateway: RunningGateway) -> None:
    await write(gateway.inside.runs.store, *(ended(at=float(number)) for number in range(3)))
    cursor = (await listed(gateway, limit=1, paged="true"))["next_cursor"]
    assert len(await ids(gateway, limit=200, cursor=cursor)) == 2
    for other in ({"order": "asc"}, {"sort": "duration"}, {"status": "FAILED"}):
        errors = await refused(gateway, cursor=cursor, **other)
        assert "another query" in errors["cursor"]["message"]
    for forged in (cursor[:-1], cursor + "A", ("B" if cursor[0] == "A" else "A") + cursor[1:]):
        assert "exactly" in (await refused(gateway, cursor=forged))["cursor"]["message"]


async def test_an_invalid_query_is_reported_without_nats(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        assert await listed(gateway) == []
        own_nats.kill()
        for query in ({}, {"cursor": "abc"}):
            response = await gateway.http.get("/runs", params=query)
            assert (response.status_code, response.json()["err_id"]) == (503, "ERR-PYOCO-0003")
            assert response.headers["retry-after"]
        await refused(gateway, limit="x")
        own_nats.start()
        await gateway.inside.connection.wait_ready(LIMIT_SEC)
        assert await listed(gateway) == []


async def test_params_are_listed_if_asked_for(gateway: RunningGateway) -> None:
    """As JSON, cut after 300 characters; the usual list does not have them."""
    runs = [
        ended(at=3000.0, params={"day": "2026-11-17", "region": "eu"}),
        ended(at=2000.0, params={"text": "é" * 500}),
        ended(at=1000.0),
    ]
    await write_many(gateway.inside.connection, runs)
    assert all("params_preview" not in item for item in await listed(gateway))
    short, long, none = await listed(gateway, include="params")
    assert short["params_preview"] == '{"day":"2026-11-17","region":"eu"}'
    assert long["params_preview"] == '{"text":"' + "é" * 291
    assert "params_preview" not in none
    assert {name: short[name] for name in SUMMARY} == {
        name: item for name, item in (await listed(gateway))[0].items() if name in SUMMARY
    }
    whole = await listed(gateway, include="params,full")
    assert whole[0]["params"] == {"day": "2026-11-17", "region": "eu"}
    # An ended run that is written again keeps them.
    stored = await gateway.inside.runs.store.get_from_leader(runs[0].run_id)
    assert stored is not None
    await gateway.inside.runs.store.replace(
        structs.replace(stored.snapshot, updated_at=4000.0), revision=stored.revision
    )
    [again, *_] = await listed(gateway, include="params")
    assert (again["updated_at"], again["params_preview"]) == (4000.0, short["params_preview"])
