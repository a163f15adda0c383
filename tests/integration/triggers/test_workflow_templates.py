"""Templates and actions over HTTP: what is stored, what is refused, and flows of workers as actions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import datetime
from itertools import cycle
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.triggers.trigger_models import TEMPLATE_ID_EXPECTED
from pyoco_server.triggers.workflow_events import template_service
from tests.support.broker.worker_records import a_record, put_record
from tests.support.problems import assert_field_problem
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workflow_events import (
    ACTIONS,
    TEMPLATES,
    assert_refused,
    put_action,
    save_template,
    started,
    template,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def both(config: NatsBackendConfig) -> AsyncIterator[list[RunningGateway]]:
    """Two gateways of one installation."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(running_gateway(config)) for _ in range(2)]


async def saved_at_once(both: list[RunningGateway], bodies: list[dict[str, Any]]) -> list[httpx.Response]:
    """Send each to the next of the gateways, all at the same moment."""
    sent = (gateway.http.post(TEMPLATES, json=body) for gateway, body in zip(cycle(both), bodies))
    return await asyncio.gather(*sent)


async def test_a_template_is_stored_changed_and_deleted(shared_gateway: RunningGateway) -> None:
    http = shared_gateway.http
    steps = [
        {"action": "close", "trigger_kind": "webhook", "title": "Close", "execution_mode": "auto"},
        {"action": "report", "trigger_kind": "after_step", "timer_minutes": 5},
    ]
    created = await http.post(TEMPLATES, json={"name": "Monthly", "steps": steps, "notes": "n"})
    assert (created.status_code, created.json()["created"]) == (200, True)
    found = created.json()["template"]
    assert found["id"].startswith("tpl_")
    assert [(step["id"], step["trigger_kind"]) for step in found["steps"]] == [
        ("step-1", "external_event"),
        ("step-2", "after_previous"),
    ]
    assert (found["year"], found["month"], found["overlap"]) == (0, 0, "allow")
    assert (await http.get(f"{TEMPLATES}/{found['id']}")).json() == found

    body = {"id": found["id"], "name": "Monthly 2", "steps": steps}
    # As a client writes it that has parsed it.
    in_tokyo = datetime.fromisoformat(found["updated_at"]).astimezone(ZoneInfo("Asia/Tokyo")).isoformat()
    changed = await http.post(TEMPLATES, json={**body, "base_updated_at": in_tokyo})
    assert (changed.status_code, changed.json()["created"]) == (200, False)
    assert changed.json()["template"]["created_at"] == found["created_at"]
    assert changed.json()["template"]["updated_at"] > found["updated_at"]
    stale = await http.post(TEMPLATES, json={**body, "base_updated_at": found["updated_at"]})
    assert_refused(stale, 409, 56, template_service.STALE)
    unreadable = await http.post(TEMPLATES, json={**body, "base_updated_at": "yesterday"})
    assert_field_problem(unreadable, "base_updated_at", "in ISO 8601")
    assert_refused(await http.post(TEMPLATES, json=body), 409, 56, template_service.EXISTS)
    assert (await http.delete(f"{TEMPLATES}/{found['id']}")).json() == {
        "status": "ok",
        "id": found["id"],
        "deleted": True,
    }
    assert_refused(await http.get(f"{TEMPLATES}/{found['id']}"), 404, 55, "Workflow template not found.")
    assert_refused(await http.delete(f"{TEMPLATES}/{found['id']}"), 404, 55)


async def test_a_name_is_used_once(shared_gateway: RunningGateway) -> None:
    await save_template(shared_gateway, "named", name="Named")
    twice = await shared_gateway.http.post(TEMPLATES, json=template("other", name="nAMED"))
    assert_refused(twice, 409, 56, template_service.NAME_TAKEN)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"id": "a b"}, "id"),
        ({"name": ""}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"year": 1999}, "year"),
        ({"year": 3001}, "year"),
        ({"month": 13}, "month"),
        ({"mfcloud_url": "ftp://x"}, "mfcloud_url"),
        ({"mfcloud_url": f"https://{'x' * 2048}"}, "mfcloud_url"),
        ({"notes": "x" * 4001}, "notes"),
        ({"steps": []}, "steps"),
        ({"steps": [{"action": "a", "trigger_kind": "manual"}] * 31}, "steps"),
        ({"steps": [{"action": "a", "trigger_kind": "after_previous"}]}, "steps[0].trigger_kind"),
        ({"steps": [{"action": "a"}, {"action": "b", "trigger_kind": "scheduled"}]}, "steps[1].trigger_kind"),
        ({"steps": [{"action": "a", "trigger_kind": "other"}]}, "steps[0].trigger_kind"),
        ({"steps": [{"action": "x" * 49}]}, "steps[0].action"),
        ({"other": 1}, "other"),
    ],
)
async def test_a_wrong_field_is_named(
    shared_gateway: RunningGateway, fields: dict[str, Any], field: str
) -> None:
    response = await shared_gateway.http.post(TEMPLATES, json={**template("wrong"), **fields})
    assert_field_problem(response, field, TEMPLATE_ID_EXPECTED if field == "id" else "")
    assert (await shared_gateway.http.get(f"{TEMPLATES}/wrong")).status_code == 404


async def test_templates_are_searched_sorted_and_paged(own_gateway: RunningGateway) -> None:
    for name in ("b", "a", "c"):
        await save_template(own_gateway, name, name=f"Name {name}", notes=f"about {name}")

    async def ids(**query: Any) -> list[str]:
        answer = (await own_gateway.http.get(TEMPLATES, params=query)).json()
        assert answer["total"] == (1 if "search" in query else 3)
        return [each["id"] for each in answer["items"]]

    assert await ids() == ["c", "a", "b"]
    assert await ids(sort="name") == ["a", "b", "c"]
    assert await ids(sort="-name", limit=2) == ["c", "b"]
    assert await ids(sort="created_at", limit=1, offset=1) == ["a"]
    assert await ids(search="ABOUT b") == ["b"]
    assert (await own_gateway.http.get(TEMPLATES, params={"sort": "size"})).status_code == 422


async def test_templates_are_never_dropped_silently(
    own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_service, "MAX_TEMPLATES", 2)
    for name in ("a", "b"):
        await save_template(own_gateway, name)
    full = await own_gateway.http.post(TEMPLATES, json=template("c"))
    assert_refused(full, 409, 56, template_service.FULL)


async def test_of_two_changes_at_once_one_is_stale(both: list[RunningGateway]) -> None:
    base = (await save_template(both[0], "t"))["updated_at"]
    answers = await saved_at_once(both, [template("t", notes=str(n), base_updated_at=base) for n in range(2)])
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    # Each gateway knows what the other has stored.
    await put_action(both[0])
    assert (await started(both[1], template_id="t"))["triggered"]


async def test_of_two_templates_of_one_name_at_once_one_is_refused(both: list[RunningGateway]) -> None:
    for number in range(20):
        name = f"Name {number}"
        created = await saved_at_once(both, [template(f"{each}{number}", name=name) for each in "ab"])
        assert sorted(answer.status_code for answer in created) == [200, 409]
        refused = next(answer for answer in created if answer.status_code == 409)
        assert_refused(refused, 409, 56, template_service.NAME_TAKEN)


async def test_of_two_renames_at_once_to_one_name_one_is_refused(both: list[RunningGateway]) -> None:
    saved = [await save_template(both[0], each) for each in "ab"]
    for number in range(20):
        bodies = [
            template(each["id"], name=f"Name {number}", base_updated_at=each["updated_at"]) for each in saved
        ]
        renamed = await saved_at_once(both, bodies)
        assert sorted(answer.status_code for answer in renamed) == [200, 409]
        saved = [(await both[0].http.get(f"{TEMPLATES}/{each['id']}")).json() for each in saved]


async def test_templates_of_different_names_at_once_are_all_stored(both: list[RunningGateway]) -> None:
    created = await saved_at_once(both, [template(f"t{number}") for number in range(30)])
    assert {answer.status_code for answer in created} == {200}
    assert (await both[1].http.get(TEMPLATES)).json()["total"] == 30


async def test_an_action_is_stored_replaced_and_deleted(shared_gateway: RunningGateway) -> None:
    http = shared_gateway.http
    yaml = "version: 1\nflow: {graph: load}\ntasks:\n  load: {callable: 'm:load'}\n"
    body = {"flow_name": "etl", "workflow_yaml": yaml, "tag": "gpu", "tags": ["x"], "params": {"a": 1}}
    created = (await http.put(f"{ACTIONS}/etl-1", json=body)).json()
    assert (created["created"], created["action"]["tag"], created["action"]["params"]) == (
        True,
        "gpu",
        {"a": 1},
    )
    assert created["action"]["has_workflow_yaml"]
    replaced = (await http.put(f"{ACTIONS}/etl-1", json={"flow_name": "other"})).json()
    assert (replaced["created"], replaced["action"]["flow_name"], replaced["action"]["tag"]) == (
        False,
        "other",
        "default",
    )
    assert replaced["action"]["created_at"] == created["action"]["created_at"]
    assert (await http.get(f"{ACTIONS}/etl-1")).json() == replaced["action"]
    listed = (await http.get(ACTIONS)).json()["items"]
    assert replaced["action"] in listed
    assert (await http.delete(f"{ACTIONS}/etl-1")).json()["deleted"]
    assert (await http.delete(f"{ACTIONS}/etl-1")).status_code == 404
    assert (await http.get(f"{ACTIONS}/no.such")).status_code == 404


@pytest.mark.parametrize(
    ("key", "body", "field"),
    [
        ("a.b", {"flow_name": "noop"}, "key"),
        ("x" * 49, {"flow_name": "noop"}, "key"),
        ("a", {}, "flow_name"),
        ("a", {"flow_name": ""}, "flow_name"),
        ("a", {"flow_name": "noop", "tag": "a b"}, "tag"),
        ("a", {"flow_name": "noop", "workflow_yaml": "version: 9"}, "version"),
        ("a", {"flow_name": "noop", "other": 1}, "other"),
    ],
)
async def test_a_wrong_action_is_refused(
    shared_gateway: RunningGateway, key: str, body: dict[str, Any], field: str
) -> None:
    response = await shared_gateway.http.put(f"{ACTIONS}/{key}", json=body)
    assert response.status_code == 422
    assert field in response.text


async def test_a_flow_of_a_live_worker_is_an_action(own_gateway: RunningGateway) -> None:
    record = a_record("w1", seen_at=4e9, tags=["cpu"], flows=["month end", "noop"])
    await put_record(own_gateway.inside.connection, record)
    listed = (await own_gateway.http.get(ACTIONS)).json()["items"]
    assert [(each["key"], each["implied"], each["tag"]) for each in listed] == [
        ("month end", True, "cpu"),
        ("noop", True, "cpu"),
    ]
    await save_template(own_gateway, "t", action="month end")
    answer = await started(own_gateway, event_name="Month End")
    run = await own_gateway.get(answer["run_id"])
    assert (run["flow_name"], run["tag"]) == ("month end", "cpu")
    # An entry decides.
    await put_action(own_gateway, "noop", flow_name="other")
    listed = (await own_gateway.http.get(ACTIONS)).json()["items"]
    assert [(each["key"], each["implied"]) for each in listed] == [("noop", False), ("month end", True)]
