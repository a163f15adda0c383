"""`GET /statistics`: a period beside the one before, filters, tenants and refused queries."""

import time
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus
from tests.support.broker.stored_runs import ended, write_many
from tests.support.broker.worker_records import a_record, put_record
from tests.support.running.gateway import RunningGateway
from tests.support.running.tenants import having_tenants

DAY = 86_400.0


async def statistics(gateway: RunningGateway, **query: str) -> dict[str, Any]:
    response = await gateway.http.get("/statistics", params=query)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def took(seconds: float, *, at: float, **fields: Any) -> RunSnapshot:
    return ended(at=at, **{"start_time": at - seconds, "submitted_at": at - seconds - 2, **fields})


async def test_a_week_is_compared_with_the_one_before(gateway: RunningGateway) -> None:
    now = time.time()
    runs = [
        # Twice as slow this week.
        *(took(20.0, at=now - day * DAY - 60, flow_name="etl", tag="gpu") for day in range(6)),
        *(took(10.0, at=now - day * DAY - 60, flow_name="etl", tag="gpu") for day in range(8, 13)),
        took(1.0, at=now - 60, flow_name="mail"),
        took(1.0, at=now - 60, flow_name="mail", status=RunStatus.FAILED),
    ]
    await write_many(gateway.inside.connection, runs)
    record = a_record("a", tags=["gpu"], seen_at=now, slots=4, slots_busy=1)
    await put_record(gateway.inside.connection, record)

    week = await statistics(gateway, period="7d")
    assert (week["current"]["completed"], week["current"]["failed"]) == (7, 1)
    assert week["previous"]["completed"] == 5
    assert week["current"]["success_rate"] == 7 / 8
    assert week["since"] - week["previous_since"] == 7 * DAY
    assert sum(bucket["completed"] for bucket in week["buckets"]) == 7
    assert sum(bucket["completed"] for bucket in week["previous_buckets"]) == 5
    etl, mail = week["flows"]
    assert (etl["flow_name"], mail["flow_name"], week["flow_count"]) == ("etl", "mail", 2)
    assert etl["current"]["duration_ms"]["p50"] == pytest.approx(20_000, rel=0.045)
    assert etl["previous"]["duration_ms"]["p50"] == pytest.approx(10_000, rel=0.045)
    assert etl["current"]["queue_ms"]["p95"] == pytest.approx(2_000, rel=0.045)
    assert mail["previous"]["duration_ms"] == {"p50": None, "p95": None}
    tags = {each["tag"]: each for each in week["tags"]}
    assert tags["gpu"]["slots"] == {"workers": 1, "slots": 4, "slots_busy": 1}
    assert tags["default"]["slots"]["workers"] == 0

    listed = await gateway.http.get(
        "/runs",
        params={"flow": "etl", "updated_after": week["since"], "updated_before": week["at"], "total": "true"},
    )
    assert listed.json()["total"] == etl["current"]["completed"], "the link of a figure shows its runs"

    of_mail = await statistics(gateway, period="7d", flow="mail")
    assert (of_mail["current"]["completed"], of_mail["current"]["failed"]) == (1, 1)
    assert [each["flow_name"] for each in of_mail["flows"]] == ["mail"]
    assert (await statistics(gateway, period="7d", tag="gpu"))["current"]["completed"] == 6
    assert (await statistics(gateway, period="1h"))["current"]["completed"] == 2
    assert (await statistics(gateway, flow="nowhere"))["flows"] == []


async def test_a_tenant_sees_its_own_statistics(config: NatsBackendConfig) -> None:
    async with having_tenants(config, "acme", "rival", "the-operator") as (acme, rival, operator):
        now = time.time()
        runs = [took(5.0, at=now - 5, flow_name="acmes", tag="acmes", tenant_id="acme")]
        await write_many(acme.inside.connection, runs)
        for query in ({}, {"flow": "acmes"}, {"tag": "acmes"}):
            assert (await acme.json("/statistics", **query))["current"]["completed"] == 1
            assert (await operator.json("/statistics", **query))["current"]["completed"] == 1
            of_rival = await rival.json("/statistics", **query)
            assert of_rival["current"]["completed"] == 0
            assert of_rival["flows"] == of_rival["tags"] == []


@pytest.mark.parametrize(
    ("query", "field", "expected"),
    [
        ({"period": "2d"}, "period", "expected one of 1h, 24h, 7d, 30d"),
        ({"tag": "not a tag"}, "tag", "expected"),
        ({"flow": ""}, "flow", "expected 1 to 200 characters"),
        ({"window": "7d"}, "window", "unknown parameter; expected one of flow, period, tag"),
    ],
)
async def test_a_refused_query_names_its_field(
    gateway: RunningGateway, query: dict[str, str], field: str, expected: str
) -> None:
    response = await gateway.http.get("/statistics", params=query)
    assert response.status_code == 422
    [problem] = response.json()["errors"]
    assert problem["field"] == field
    assert expected in problem["message"]
