"""Who sees and changes which schedules: tenants, operators and scopes."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from pyoco_server.auth.scopes import Scope
from pyoco_server.config import NatsBackendConfig
from tests.support.problems import assert_problem
from tests.support.running.tenants import OPERATOR, Tenant, a_key, having_tenants
from tests.support.samples.schedules import a_schedule

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = {"cron": ["0 2 * * *"]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenants(shared_config: NatsBackendConfig) -> AsyncIterator[list[Tenant]]:
    async with having_tenants(shared_config, "acme", "rival", OPERATOR) as found:
        yield found


async def create(tenant: Tenant, schedule_id: str, **fields: Any) -> httpx.Response:
    body = {"schedule_id": schedule_id, "flow_name": "noop", "tag": "unserved", "spec": SPEC, **fields}
    return await tenant.http.post("/schedules", json=body)


async def test_each_tenant_has_ids_of_its_own(tenants: list[Tenant]) -> None:
    acme, rival, _ = tenants
    first = (await create(acme, "nightly", note="acme's")).json()
    second = (await create(rival, "nightly", note="rival's")).json()
    assert (first["tenant_id"], second["tenant_id"]) == ("acme", "rival")
    assert first["api_key_id"] == acme.api_key_id
    assert (await acme.json("/schedules/nightly"))["note"] == "acme's"
    assert (await acme.json("/schedules", q="nightly"))["total"] == 1
    await rival.http.delete("/schedules/nightly")
    assert_problem(await rival.http.get("/schedules/nightly"), 404, 47)
    assert_problem(await rival.http.get("/schedules/nightly", params={"tenant": "acme"}), 404, 47)
    assert (await rival.json("/schedules"))["items"] == []
    assert (await acme.json("/schedules/nightly"))["note"] == "acme's"


async def test_its_runs_belong_to_the_tenant_and_the_key(tenants: list[Tenant]) -> None:
    acme, rival, _ = tenants
    await create(acme, "runs")
    run_id = (await acme.http.post("/schedules/runs/trigger")).json()["run_id"]
    run = await acme.json(f"/runs/{run_id}")
    assert (run["tenant_id"], run["api_key_id"]) == ("acme", acme.api_key_id)
    assert_problem(await rival.http.get(f"/runs/{run_id}"), 404, 5)


async def test_an_operator_names_the_tenant(tenants: list[Tenant]) -> None:
    acme, _, operator = tenants
    await create(acme, "helped")
    listed = await operator.json("/schedules", q="helped")
    assert [(item["tenant_id"], item["schedule_id"]) for item in listed["items"]] == [("acme", "helped")]
    assert_problem(await operator.http.get("/schedules/helped"), 404, 47)
    paused = await operator.http.post("/schedules/helped/pause", params={"tenant": "acme"})
    assert (paused.json()["paused"], paused.json()["tenant_id"]) == (True, "acme")
    changed = await operator.http.patch(
        "/schedules/helped", params={"tenant": "acme"}, json={"overlap": "allow_all"}
    )
    # Its runs stay those of acme's key.
    assert changed.json()["api_key_id"] == acme.api_key_id


async def test_an_operator_names_a_schedule_without_a_tenant(tenants: list[Tenant]) -> None:
    acme, _, operator = tenants
    # As a gateway that asked for no API keys has stored it.
    await operator.inside.schedules.store.create(a_schedule("unowned", tag="unserved", paused=True))
    without = {"tenant": "="}
    found = await operator.json("/schedules/unowned", **without)
    assert (found["schedule_id"], found["tenant_id"]) == ("unowned", None)
    for params in ({}, without):
        assert_problem(await acme.http.get("/schedules/unowned", params=params), 404, 47)
        assert_problem(await acme.http.delete("/schedules/unowned", params=params), 404, 47)
    assert_problem(await operator.http.get("/schedules/unowned"), 404, 47)
    noted = await operator.http.post("/schedules/unowned/pause", params=without, json={"note": "until May"})
    assert (noted.json()["note"], noted.json()["tenant_id"]) == ("until May", None)
    assert (await operator.http.delete("/schedules/unowned", params=without)).is_success


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        (Scope.READ, {"list", "get", "next", "backfills", "preview"}),
        (
            Scope.SUBMIT,
            {"create", "patch", "delete", "pause", "resume", "trigger", "backfill", "cancel", "preview"},
        ),
        (Scope.OPERATE, {"pause", "resume", "cancel"}),
        (Scope.ANSWER, set()),
    ],
)
async def test_a_key_may_do_what_its_scope_allows(
    tenants: list[Tenant], scope: Scope, allowed: set[str]
) -> None:
    acme = tenants[0]
    name = f"scoped-{scope}"
    await create(acme, name, overlap="allow_all")
    path = f"/schedules/{name}"
    period = {"from": "2026-01-01", "to": "2026-01-04"}
    begun = (await acme.http.post(f"{path}/backfill", json=period)).json()
    new = {"schedule_id": f"new-{scope}", "flow_name": "noop", "spec": SPEC}
    requests: dict[str, tuple[str, str, Any]] = {
        "list": ("GET", "/schedules", None),
        "get": ("GET", path, None),
        "next": ("GET", f"{path}/next", None),
        "preview": ("POST", "/schedules/preview", {"spec": SPEC}),
        "create": ("POST", "/schedules", new),
        "patch": ("PATCH", path, {"note": "changed"}),
        "pause": ("POST", f"{path}/pause", None),
        "resume": ("POST", f"{path}/resume", None),
        "trigger": ("POST", f"{path}/trigger", None),
        "backfill": ("POST", f"{path}/backfill", {**period, "dry_run": True}),
        "backfills": ("GET", f"{path}/backfills", None),
        "cancel": ("DELETE", f"{path}/backfills/{begun['backfill_id']}", None),
        "delete": ("DELETE", path, None),
    }
    async with a_key(acme, "acme", scopes=[scope]) as key:
        for what, (method, address, body) in requests.items():
            response = await key.http.request(method, address, json=body)
            if what in allowed:
                assert response.is_success, f"{what}: {response.text}"
            else:
                assert_problem(response, 403, 32)
