"""Alerts of tenants: what an operator does to them, and hosts that a tenant may not name."""

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from tests.integration.alerts.alerting import FAST, fail, history, is_delivered, received, save, webhook
from tests.integration.audit.test_audit_log import audit
from tests.support.running.hook_senders import SECRETS_KEY
from tests.support.running.tenants import OPERATOR, Tenant, having_tenants
from tests.support.waiting import eventually
from tests.support.webhooks import webhook_receiver

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHANNEL = {"name": "ops", "kind": "webhook", "url": "https://hooks.example.com/very-secret"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenants(shared_config: NatsBackendConfig) -> AsyncIterator[list[Tenant]]:
    # A message is under way for longer than a test takes, if its receiver does not respond.
    config = replace(shared_config, secrets_keys=SECRETS_KEY, notify_timeout_sec=60.0, **FAST)
    async with having_tenants(config, "acme", OPERATOR, "slow", "quick") as tenants:
        yield tenants


async def test_a_tenant_knows_what_an_operator_did_without_its_key(tenants: list[Tenant]) -> None:
    acme, operator, *_ = tenants
    await save(acme, "orders", condition="run_failed", flow_name="orders", channels=[CHANNEL])
    named = {"tenant": "acme"}
    muted = await operator.http.post("/alerts/orders/mute", params=named, json={"note": "a move"})
    assert muted.status_code == 200, muted.text
    mute = (await acme.json("/alerts/orders"))["mute"]
    assert (mute["note"], mute["api_key_id"]) == ("a move", None)
    deleted = await operator.http.delete("/alerts/orders", params=named)
    assert deleted.status_code == 200, deleted.text
    entries = await audit(acme, target="orders")
    assert [each["action"] for each in entries] == ["alert.delete", "alert.mute", "alert.save"]
    assert entries[0]["actor"]["api_key_id"] is None


async def test_an_entry_follows_only_a_tenant_that_the_endpoint_knows(tenants: list[Tenant]) -> None:
    acme, operator, *_ = tenants
    saved = await acme.http.put("/alerts/own", params={"tenant": OPERATOR}, json={"channels": []})
    assert saved.status_code == 422
    await save(acme, "own", condition="run_failed", flow_name="orders", channels=[CHANNEL])
    await acme.http.put("/views/mine", params={"tenant": OPERATOR}, json={})
    found = [each for each in await audit(operator) if each["target"]["id"] in ("own", "mine")]
    assert {each["tenant_id"] for each in found} == {"acme"}


async def test_the_overview_names_alerts_that_fire_and_are_not_muted(tenants: list[Tenant]) -> None:
    acme, operator, _, other = tenants
    rule = {"condition": "failures", "flow_name": "nightly", "count": 1, "window_sec": 3600}
    await save(acme, "nightly", **rule, channels=[CHANNEL])
    await fail(acme, "nightly", tenant_id="acme")

    async def is_named(tenant: Tenant) -> bool:
        firing = (await tenant.json("/overview"))["firing_alerts"]
        assert firing["total"] == len(firing["first"])
        return "nightly" in firing["first"]

    for tenant in (acme, operator):
        await eventually(partial(is_named, tenant), describe="the alert is named")
    assert not await is_named(other)
    assert (await acme.http.post("/alerts/nightly/mute", json={})).status_code == 200

    async def is_quiet() -> bool:
        return not await is_named(acme)

    await eventually(is_quiet, describe="a muted alert is not named")


@pytest.mark.parametrize("host", ["a..b", "xn--a", f"{'a' * 64}.example"])
async def test_a_test_message_to_a_host_that_is_no_name_says_so(tenants: list[Tenant], host: str) -> None:
    channel = {**CHANNEL, "url": f"http://{host}/very-secret"}
    await save(tenants[0], "odd", condition="run_failed", flow_name="orders", channels=[channel])
    tested = await tenants[0].http.post("/alerts/odd/test")
    assert tested.status_code == 200, tested.text
    assert tested.json()["channels"] == [{"channel": "ops", "ok": False, "error": "the URL is not valid"}]


@pytest.mark.parametrize("note", [b'"\xff"', b"1e999"])
async def test_a_body_that_cannot_be_read_is_no_internal_error(tenants: list[Tenant], note: bytes) -> None:
    headers = {"content-type": "application/json"}
    refused = await tenants[0].http.post(
        "/alerts/none/mute", content=b'{"note": ' + note + b"}", headers=headers
    )
    assert refused.status_code == 422, refused.text


async def test_receivers_of_a_tenant_that_hang_delay_no_other_tenant(tenants: list[Tenant]) -> None:
    *_, slow, quick = tenants
    rule = {"condition": "run_failed", "flow_name": "import"}
    names = [f"slow-{number}" for number in range(16)]
    with webhook_receiver() as hanging, webhook_receiver() as receiver:
        hanging.responding.clear()
        for name in names:
            await save(slow, name, **rule, channels=[webhook(hanging)])
        await save(quick, "quick", **rule, channels=[webhook(receiver)])
        await fail(slow, "import", tenant_id="slow")
        # As many as one tenant may have under way.
        await received(hanging, 8)
        await fail(quick, "import", tenant_id="quick")
        await is_delivered(quick, "quick")
        fired = [(await history(slow, name))[0]["fired"][0] for name in names]
        assert ({each["error"] for each in fired}, sum(each["attempts"] for each in fired)) == ({""}, 8)
        for name in names:
            assert (await slow.http.delete(f"/alerts/{name}")).status_code == 200
