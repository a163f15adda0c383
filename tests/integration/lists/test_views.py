"""Saved views: `GET`, `PUT` and `DELETE /views`, shared by a tenant."""

import asyncio
from typing import Any

import httpx
import pytest

from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.stores.runs import saved_view_store
from pyoco_server.config import NatsBackendConfig
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.tenants import a_key, having_tenants

FAILED: dict[str, Any] = {
    "filter": {"status": ["FAILED"], "flow": "nightly", "since": "24h"},
    "sort": "duration",
    "order": "asc",
    "columns": ["status", "params"],
}


async def saved(http: httpx.AsyncClient, view_name: str, **body: Any) -> dict[str, Any]:
    response = await http.put(f"/views/{view_name}", json=body)
    assert response.status_code == 200, response.text
    view: dict[str, Any] = response.json()
    return view


async def names(http: httpx.AsyncClient) -> list[str]:
    return [view["name"] for view in (await http.get("/views")).json()["views"]]


async def test_a_view_is_saved_read_changed_and_deleted(gateway: RunningGateway) -> None:
    http = gateway.http
    assert (await http.get("/views")).json() == {"views": []}
    view = await saved(http, "Failed tonight", **FAILED)
    assert (view["name"], view["sort"], view["order"]) == ("Failed tonight", "duration", "asc")
    assert view["filter"]["status"] == ["FAILED"]
    assert (view["filter"]["since"], view["filter"]["worker"]) == ("24h", None)
    assert view["columns"] == ["status", "params"]
    assert (await http.get("/views/Failed tonight")).json() == view
    await saved(http, "夜間の失敗", filter={"q": "x"})
    assert await names(http) == ["Failed tonight", "夜間の失敗"]

    changed = await saved(http, "Failed tonight", filter={"tag": "gpu"}, revision=view["revision"])
    assert changed["filter"]["tag"] == "gpu"
    assert changed["columns"] == [], "a PUT replaces the whole view"
    assert changed["revision"] > view["revision"]
    assert changed["created_at"] == view["created_at"]

    deleted = await http.delete("/views/Failed tonight", params={"revision": changed["revision"]})
    assert deleted.json() == {"name": "Failed tonight", "deleted": True}
    assert await names(http) == ["夜間の失敗"]
    gone = await http.get("/views/Failed tonight")
    assert (gone.status_code, gone.json()["err_id"]) == (404, "ERR-PYOCO-0077")
    assert (await http.delete("/views/Failed tonight")).status_code == 404


async def test_a_view_is_renamed(gateway: RunningGateway) -> None:
    http = gateway.http
    view = await saved(http, "slow", **FAILED)
    await saved(http, "other")
    taken = await http.put("/views/slow", json={**FAILED, "name": "other"})
    assert (taken.status_code, taken.json()["err_id"]) == (409, "ERR-PYOCO-0078")
    renamed = await saved(http, "slow", **FAILED, name="Slowest", revision=view["revision"])
    assert (renamed["name"], renamed["filter"]) == ("Slowest", view["filter"])
    assert await names(http) == ["other", "Slowest"]
    assert (await http.put("/views/slow", json={"name": "again"})).status_code == 404


async def test_of_two_changes_at_two_gateways_one_wins(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    """Each names the revision that it has read; changes of other views do not conflict."""
    async with running_gateway(config) as other:
        view = await saved(gateway.http, "mine", filter={"flow": "a"})
        body = {"revision": view["revision"], "filter": {"flow": "b"}}
        answers = await asyncio.gather(
            *(each.http.put("/views/mine", json=body) for each in (gateway, other)),
            *(each.http.put(f"/views/{at}", json={}) for at, each in enumerate((gateway, other) * 5)),
        )
        assert sorted(answer.status_code for answer in answers[:2]) == [200, 409]
        assert {answer.status_code for answer in answers[2:]} == {200}
        assert len(await names(other.http)) == 11
        stale = await other.http.delete("/views/mine", params={"revision": view["revision"]})
        assert stale.status_code == 409

        # Created twice.
        created = await asyncio.gather(
            *(each.http.put("/views/new", json={"revision": 0}) for each in (gateway, other))
        )
        assert sorted(answer.status_code for answer in created) == [200, 409]


async def test_a_revision_of_a_deleted_view_is_not_used_again(gateway: RunningGateway) -> None:
    http = gateway.http
    first = await saved(http, "mine", filter={"flow": "a"})
    await http.delete("/views/mine")
    again = await saved(http, "mine", filter={"flow": "b"})
    assert again["revision"] != first["revision"]
    late = await http.put("/views/mine", json={"revision": first["revision"]})
    assert late.status_code == 409


async def test_views_belong_to_a_tenant(config: NatsBackendConfig) -> None:
    async with having_tenants(config, "acme", "rival") as (acme, rival):
        async with a_key(acme, "acme", name="Ada", scopes=("read", "operate")) as ada:
            view = await saved(ada.http, "Failed", **FAILED)
            assert (view["created_by"], view["updated_by"]) == ("Ada", "Ada")
        assert await names(acme.http) == ["Failed"]
        assert await names(rival.http) == []
        assert (await rival.http.get("/views/Failed")).status_code == 404
        assert (await rival.http.delete("/views/Failed")).status_code == 404
        await saved(rival.http, "Failed", filter={"flow": "theirs"})
        assert (await acme.json("/views/Failed"))["filter"]["flow"] == "nightly"
        async with a_key(acme, "acme", name="Eve", scopes=("read",)) as reader:
            assert await names(reader.http) == ["Failed"]
            refused = await reader.http.put("/views/Failed", json={})
            assert refused.status_code == 403
            assert (await reader.http.delete("/views/Failed")).status_code == 403


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"filter": {"status": ["BROKEN"]}}, "filter.status[0]", "expected one of SCHEDULED, PENDING"),
    ({"filter": {"flow": ""}}, "filter.flow", "length >= 1"),
    ({"filter": {"flwo": "a"}}, "filter.flwo", "did you mean"),
    ({"filter": {"cause": "moon"}}, "filter.cause", "such as schedule:nightly"),
    ({"filter": {"since": "2h"}}, "filter.since", "expected one of 1h, 24h, 7d, 30d"),
    ({"filter": {"origin": "x"}}, "filter.origin", "run id"),
    ({"sort": "size"}, "sort", "expected one of updated_at"),
    ({"order": "up"}, "order", "expected one of"),
    ({"columns": ["status", "size"]}, "columns[1]", "expected one of attempt, cause"),
    ({"name": "a/b"}, "name", "without / or"),
    ({"name": " a"}, "name", "without a space"),
    ({"revision": -1}, "revision", ">= 0"),
]


async def test_a_wrong_field_is_named_with_its_cure(gateway: RunningGateway) -> None:
    for body, field, expected in WRONG:
        response = await gateway.http.put("/views/wrong", json=body)
        assert response.status_code == 422, response.text
        [error] = response.json()["errors"]
        assert (error["field"], expected in error["message"]) == (field, True), error
        assert "<" not in error.get("value", ""), "a name of Python"
    for name in ("%20", "a%0Ab", "%5C", "...", "a" * 81, "a%20"):
        response = await gateway.http.put(f"/views/{name}", json={})
        assert response.status_code == 422, response.text
        assert response.json()["errors"][0]["field"] == "view_name"
    assert await names(gateway.http) == []


async def test_a_tenant_has_a_limit(gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_view_store, "MAX_VIEWS", 2)
    await saved(gateway.http, "a")
    await saved(gateway.http, "b")
    full = await gateway.http.put("/views/c", json={})
    assert full.status_code == 422
    [error] = full.json()["errors"]
    assert (error["field"], error["value"]) == ("name", "c")
    assert "delete one first" in error["message"]
    await saved(gateway.http, "b", filter={"flow": "x"})


async def test_a_record_that_cannot_be_read_is_reported(gateway: RunningGateway) -> None:
    connection = gateway.inside.connection
    await Bucket(connection, connection.config.views_kv_bucket).create("=", b"{broken")
    response = await gateway.http.get("/views")
    assert (response.status_code, response.json()["err_id"]) == (409, "ERR-PYOCO-0045")
