"""Workflow events against a gateway: the answers, the rows of the failure table, and the audit of each."""

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest

from pyoco_server.errors import WorkflowTooLarge
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.runs.lifecycle.durable_start import DurableStarter
from tests.support.running.gateway import RunningGateway
from tests.support.running.workflow_events import (
    EVENTS,
    TEMPLATES,
    assert_refused,
    put_action,
    save_template,
    send,
    started,
    summary,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Each test has a year of its own, so that the rows of others are in other months.
YEARS = itertools.count(2101)


async def month_of(gateway: RunningGateway, year: int, month: int = 1) -> dict[str, Any]:
    return await summary(gateway, f"{year}-{month:02d}")


def reasons(row: dict[str, Any]) -> tuple[str, ...]:
    return row["status"], row["reason_class"], row["reason_code"], row["retry_advice"]


async def test_an_event_starts_a_run_with_the_fields_of_event_and_template(
    shared_gateway: RunningGateway,
) -> None:
    year = next(YEARS)
    await put_action(shared_gateway, "start", params={"fixed": 1, "notes": "fixed notes"})
    await save_template(
        shared_gateway,
        "full",
        action="start",
        mfcloud_url="https://mf.example.com/a",
        notes="of the template",
    )
    answer = await started(
        shared_gateway,
        template_id="full",
        idempotency_key="full-1",
        event_name="Month end",
        source="erp",
        year=year,
        month=1,
        payload={"rows": [1, 2]},
    )
    assert answer == {
        "status": "ok",
        "duplicate": False,
        "triggered": True,
        "template_id": "full",
        "template_name": "Template full",
        "action_key": "start",
        "idempotency_key": "full-1",
        "run_id": answer["run_id"],
    }
    run = await shared_gateway.get(answer["run_id"])
    assert run["params"] == {
        "year": year,
        "month": 1,
        "mfcloud_url": "https://mf.example.com/a",
        "notes": "fixed notes",
        "event_name": "Month end",
        "source": "erp",
        "payload": {"rows": [1, 2]},
        "fixed": 1,
    }
    assert (run["flow_name"], run["cause"]) == ("noop", {"kind": "event", "id": "template:full"})
    month = await month_of(shared_gateway, year)
    assert (month["total"], month["by_status"]["success"]) == (1, 1)
    row = month["recent"][0]
    assert (row["status"], row["run_id"], row["source"]) == ("success", answer["run_id"], "erp")
    assert (row["reason_class"], row["duplicate"], row["template_name"]) == (None, False, "Template full")


async def test_a_repeated_key_is_answered_with_the_first_run_before_the_month_is_checked(
    shared_gateway: RunningGateway,
) -> None:
    year = next(YEARS)
    await put_action(shared_gateway, "again")
    await save_template(shared_gateway, "again", action="again", year=year, month=1)
    first = await started(shared_gateway, template_id="again", idempotency_key="a-1", payload=1)
    second = await started(shared_gateway, template_id="again", idempotency_key="a-1", payload=1)
    differs = await started(shared_gateway, template_id="again", idempotency_key="a-1", payload=2)
    invalid_month = await started(shared_gateway, templateId="again", eventId="a-1", year=1999, month=13)
    assert second == differs == first | {"duplicate": True, "triggered": False}
    assert (invalid_month["duplicate"], invalid_month["run_id"]) == (True, first["run_id"])
    month = await month_of(shared_gateway, year)
    assert month["by_status"] == {"success": 1, "skipped": 2, "rejected": 0, "failed": 0, "unknown": 0}
    assert month["duplicate"] == {"true": 2, "false": 1, "unknown": 0}
    assert month["by_reason_class"] == [{"reason_class": "duplicate", "count": 2}]
    assert month["by_reason_code"] == [{"reason_code": "duplicate_idempotency_key", "count": 2}]
    assert month["by_retry_advice"] == [{"retry_advice": "do_not_retry", "count": 2}]
    newest, same, _ = month["recent"]
    assert (newest["payload_differs"], same["payload_differs"]) == (True, False)
    assert newest["run_id"] == same["run_id"] == first["run_id"]


async def test_an_event_without_a_valid_key_starts_a_run_each_time(shared_gateway: RunningGateway) -> None:
    year = next(YEARS)
    await put_action(shared_gateway, "keyless")
    await save_template(shared_gateway, "keyless", action="keyless", year=year, month=1)
    answers = [
        await started(shared_gateway, template_id="keyless", idempotency_key="not valid!") for _ in range(2)
    ]
    assert [each["idempotency_key"] for each in answers] == [None, None]
    assert answers[0]["run_id"] != answers[1]["run_id"]
    assert (await month_of(shared_gateway, year))["by_status"]["success"] == 2


async def test_the_key_may_come_in_a_header(shared_gateway: RunningGateway) -> None:
    await put_action(shared_gateway, "headed")
    await save_template(shared_gateway, "headed", action="headed", year=next(YEARS), month=1)
    headers = {"X-Idempotency-Key": "from-header"}
    body = {"template_id": "headed"}
    answers = [await shared_gateway.http.post(EVENTS, json=body, headers=headers) for _ in range(2)]
    assert [answer.json()["duplicate"] for answer in answers] == [False, True]
    assert answers[0].json()["idempotency_key"] == "from-header"


async def test_another_body_than_a_json_object_is_refused_and_audited(own_gateway: RunningGateway) -> None:
    for content in ("[1]", "{", '"text"', '{"payload": "' + "x" * 300_000 + '"}'):
        response = await own_gateway.http.post(EVENTS, content=content)
        assert response.status_code == 422, content[:20]
    row = (await this_month(own_gateway))["recent"][0]
    assert reasons(row) == ("rejected", "validation", "http_422", "retry_after_fix")
    # No body is an empty event.
    assert_refused(await own_gateway.http.post(EVENTS), 404, 55)


async def this_month(gateway: RunningGateway) -> dict[str, Any]:
    return await summary(gateway, f"{datetime.now(UTC):%Y-%m}")


@pytest.mark.parametrize(
    ("templates", "event", "status", "text", "row"),
    [
        (
            {},
            {},
            404,
            "No external_event workflow template was found.",
            ("rejected", "template_not_found", "http_404", "retry_after_fix"),
        ),
        (
            {"a": {}},
            {"template_id": "other"},
            404,
            "Workflow template not found.",
            ("rejected", "template_not_found", "http_404", "retry_after_fix"),
        ),
        (
            {"a": {}},
            {"template_id": "../a"},
            404,
            "Workflow template not found.",
            ("rejected", "template_not_found", "http_404", "retry_after_fix"),
        ),
        (
            {"a": {}},
            {"event_name": "other"},
            404,
            "No external_event workflow template matched event_name.",
            ("rejected", "template_not_found", "http_404", "retry_after_fix"),
        ),
        (
            {"a": {"kind": "manual_start"}},
            {"template_id": "a"},
            409,
            "Template step 1 must use trigger_kind=external_event.",
            ("rejected", "template_conflict", "http_409", "retry_after_fix"),
        ),
        (
            {"a": {}, "b": {"action": "other"}},
            {},
            409,
            "Multiple external_event templates found. Specify template_id.",
            ("rejected", "template_conflict", "http_409", "retry_after_fix"),
        ),
        (
            {"a": {}, "b": {}},
            {"event_name": "CLOSE"},
            409,
            "Multiple templates matched event_name. Specify template_id.",
            ("rejected", "template_conflict", "http_409", "retry_after_fix"),
        ),
        (
            {"a": {"action": "nobody_has_this"}},
            {"template_id": "a"},
            409,
            "external_event action is not executable in MVP: nobody_has_this",
            ("rejected", "unsupported_action", "unsupported_action", "retry_after_fix"),
        ),
        (
            {"a": {"year": 0, "month": 0}},
            {"template_id": "a"},
            400,
            "Workflow event requires valid year/month.",
            ("rejected", "validation", "invalid_year_month", "retry_after_fix"),
        ),
        (
            {"a": {}},
            {"template_id": "a", "year": 2026, "month": 13},
            400,
            "Workflow event requires valid year/month.",
            ("rejected", "validation", "invalid_year_month", "retry_after_fix"),
        ),
    ],
)
async def test_each_refusal_has_its_status_its_text_and_its_row(
    shared_gateway: RunningGateway,
    templates: dict[str, dict[str, Any]],
    event: dict[str, Any],
    status: int,
    text: str,
    row: tuple[str, ...],
) -> None:
    existing = (await shared_gateway.http.get(TEMPLATES, params={"limit": 200})).json()["items"]
    for each in existing:
        assert (await shared_gateway.http.delete(f"{TEMPLATES}/{each['id']}")).status_code == 200
    await put_action(shared_gateway, "close")
    for template_id, fields in templates.items():
        await save_template(shared_gateway, template_id, **fields)
    before = await all_rows(shared_gateway)
    response = await send(shared_gateway, idempotency_key=f"refused-{new_run_id()}", **event)
    assert (response.status_code, response.json()["detail"]) == (status, text)
    assert "queued" not in response.text
    [new] = (await all_rows(shared_gateway)) - before
    assert new[:4] == row
    jobs = (await shared_gateway.http.get(f"{EVENTS}/retry-jobs", params={"limit": 200})).json()["jobs"]
    assert not [job for job in jobs if job["idempotency_key"].startswith("refused-")]


async def all_rows(gateway: RunningGateway) -> set[tuple[str, ...]]:
    """The rows of this month and of the templates' month: reasons, time and key."""
    months = [await this_month(gateway), await summary(gateway, "2026-10", recent_limit=200)]
    return {(*reasons(row), row["at"], row["idempotency_key"]) for month in months for row in month["recent"]}


async def test_a_template_that_forbids_overlap_refuses_a_second_open_run(
    shared_gateway: RunningGateway,
) -> None:
    year = next(YEARS)
    await put_action(shared_gateway, "alone")
    await save_template(shared_gateway, "alone", action="alone", year=year, month=1, overlap="forbid")
    first = await started(shared_gateway, template_id="alone", idempotency_key="1")
    # The duplicate is known before the overlap.
    assert (await started(shared_gateway, template_id="alone", idempotency_key="1"))["duplicate"]
    refused = await send(shared_gateway, template_id="alone", idempotency_key="2")
    assert_refused(refused, 409, 59)
    assert refused.json()["detail"] == f"A run of this workflow template is active: {first['run_id']}."
    row = (await month_of(shared_gateway, year))["recent"][0]
    assert reasons(row) == ("rejected", "run_conflict", "http_409", "retry_with_backoff")
    jobs = (await shared_gateway.http.get(f"{EVENTS}/retry-jobs")).json()["jobs"]
    [job] = [each for each in jobs if each["template_id"] == "alone"]
    assert (job["status"], job["attempts"], job["idempotency_key"]) == ("pending", 0, "2")

    await shared_gateway.http.post(f"/runs/{first['run_id']}/cancel")
    again = await started(shared_gateway, template_id="alone", idempotency_key="3")
    assert again["triggered"]


async def test_an_unexpected_error_is_a_503_and_a_failed_row(
    shared_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    year = next(YEARS)
    await put_action(shared_gateway, "broken")
    await save_template(shared_gateway, "broken", action="broken", year=year, month=1)

    async def fail(*_: Any) -> bool:
        raise ZeroDivisionError("a secret detail")

    with monkeypatch.context() as patch:
        patch.setattr(DurableStarter, "ensure_run", fail)
        response = await send(shared_gateway, template_id="broken", idempotency_key="b-1")
    assert response.status_code == 503
    assert "secret" not in response.text
    row = (await month_of(shared_gateway, year))["recent"][0]
    assert reasons(row) == ("failed", "infra", "exception", "retry_with_backoff")
    drained = await shared_gateway.http.post(f"{EVENTS}/retry-jobs/drain", json={"force": True, "limit": 50})
    assert drained.json()["succeeded"] >= 1
    assert (await started(shared_gateway, template_id="broken", idempotency_key="b-1"))["duplicate"]


async def test_another_error_of_the_start_is_an_infra_failure_with_its_status(
    shared_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    year = next(YEARS)
    await put_action(shared_gateway, "large")
    await save_template(shared_gateway, "large", action="large", year=year, month=1)

    async def refuse(*_: Any) -> bool:
        raise WorkflowTooLarge("the job takes 9 bytes")

    with monkeypatch.context() as patch:
        patch.setattr(DurableStarter, "ensure_run", refuse)
        assert_refused(await send(shared_gateway, template_id="large", idempotency_key="l-1"), 413, 16)
    row = (await month_of(shared_gateway, year))["recent"][0]
    assert reasons(row) == ("failed", "infra", "http_413", "retry_with_backoff")
    # It has left no receipt: the same key starts the run.
    assert not (await started(shared_gateway, template_id="large", idempotency_key="l-1"))["duplicate"]


async def test_an_empty_month_is_all_zeros(shared_gateway: RunningGateway) -> None:
    month = await summary(shared_gateway, "2099-12")
    assert (month["status"], month["ym"], month["event_type"]) == ("ok", "2099-12", "workflow_event")
    assert (month["total"], month["first_at"], month["last_at"], month["recent"]) == (0, None, None, [])
    assert set(month["by_status"].values()) == {0}
    assert month["by_reason_class"] == month["by_reason_code"] == month["by_retry_advice"] == []
    assert month["duplicate"] == {"true": 0, "false": 0, "unknown": 0}
    assert month["receipt_retention"] == {"ttl_days": 90, "max_receipts": 1000}
    assert month["retry_queue"]["policy"] == {
        "max_attempts": 3,
        "base_delay_seconds": 30,
        "terminal_ttl_days": 30,
        "max_jobs": 2000,
    }
    assert month["notification"]["source"] == "none"


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"ym": "2026-13"}, 400),
        ({"ym": "2026-00"}, 400),
        ({"ym": "2026-1"}, 400),
        ({"ym": "november"}, 400),
        ({}, 422),
        ({"ym": "2026-01", "recent_limit": "0"}, 422),
        ({"ym": "2026-01", "recent_limit": "201"}, 422),
        ({"ym": "2026-01", "limit": "1"}, 422),
    ],
)
async def test_a_wrong_query_of_a_summary_is_refused(
    shared_gateway: RunningGateway, query: dict[str, str], status: int
) -> None:
    assert (await shared_gateway.http.get(f"{EVENTS}/summary", params=query)).status_code == status


async def test_the_sample_of_a_template_starts_nothing(shared_gateway: RunningGateway) -> None:
    year = next(YEARS)
    await put_action(shared_gateway, "sample", params={"fixed": True}, tag="gpu")
    await save_template(shared_gateway, "sample", action="sample", year=year, month=1)
    path = f"{TEMPLATES}/sample/test"
    tested = (await shared_gateway.http.post(path, json={"payload": 1, "event_id": "e-1"})).json()
    assert (tested["flow_name"], tested["tag"], tested["idempotency_key"]) == ("noop", "gpu", "e-1")
    assert (tested["params"]["year"], tested["params"]["payload"], tested["params"]["fixed"]) == (
        year,
        1,
        True,
    )
    assert (tested["problem"], tested["problem_status"]) == (None, None)
    wrong = (await shared_gateway.http.post(path, json={"year": 1, "month": 1})).json()
    assert (wrong["problem"], wrong["problem_status"]) == ("Workflow event requires valid year/month.", 400)
    assert (await month_of(shared_gateway, year))["total"] == 0
    assert not (await started(shared_gateway, template_id="sample", idempotency_key="e-1"))["duplicate"]


async def test_further_steps_of_a_template_are_not_executed(shared_gateway: RunningGateway) -> None:
    year = next(YEARS)
    await put_action(shared_gateway, "first")
    await put_action(shared_gateway, "second")
    steps = [
        {"action": "first", "trigger_kind": "external_event", "execution_mode": "manual_confirm"},
        {"action": "second", "trigger_kind": "after_previous", "execution_mode": "auto"},
    ]
    await save_template(shared_gateway, "two-steps", steps=steps, year=year, month=1)
    answer = await started(shared_gateway, template_id="two-steps", idempotency_key="k")
    assert answer["action_key"] == "first"
    runs = (await shared_gateway.http.get("/runs", params={"cause": "event:template:two-steps"})).json()
    # At once, without a confirmation, and nothing else.
    assert [run["run_id"] for run in runs] == [answer["run_id"]]
