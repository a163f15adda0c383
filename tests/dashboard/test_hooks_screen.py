"""Hooks: created with a secret shown once, tested, their deliveries looked at and sent again."""

import re
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import Tab
from tests.dashboard.module_fixtures import module_gateway, module_worker
from tests.support.running.hook_senders import SECRETS_KEY, HookSender, a_hook

pytestmark = pytest.mark.asyncio(loop_scope="session")
gateway = module_gateway(secrets_keys=SECRETS_KEY)
worker = module_worker()


async def hook(tab: Tab, hook_id: str, kind: str = "token", **fields: Any) -> HookSender:
    return await a_hook(tab.gateway.http, kind, hook_id=hook_id, **fields)


async def stored(tab: Tab, hook_id: str) -> dict[str, Any]:
    response = await tab.gateway.http.get(f"/hooks/{hook_id}")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def part(tab: Tab, name: str) -> Locator:
    return tab.page.get_by_role("region", name=name, exact=True)


async def choose(tab: Tab, action: str) -> None:
    await tab.page.get_by_role("button", name="More actions").click()
    await tab.page.get_by_role("menuitem", name=action).click()


async def test_a_hook_is_created_and_its_secret_is_shown_once(tab: Tab) -> None:
    await tab.open("/hooks?q=nothing-yet")
    page = tab.page
    await expect(page.get_by_text("No hook matches")).to_be_visible()
    await tab.open("/hooks")
    await page.get_by_role("link", name="New hook").first.click()
    # Before anybody tries.
    await expect(page.locator("[data-required]")).to_have_count(2)
    for label in ("Id", "Flow"):
        await expect(page.get_by_label(label, exact=True)).to_have_attribute("aria-required", "true")
    await tab.screenshots("hook-new")
    await tab.set_language("en")
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_text("Enter an id.")).to_be_visible()
    await expect(page.get_by_text("Required.")).to_be_visible()
    await expect(page.get_by_label("Id", exact=True)).to_be_focused()

    await page.get_by_label("Id", exact=True).fill("a.b")
    await page.get_by_label("Kind").select_option("HMAC signature")
    await page.get_by_label("Header", exact=True).fill("X-Proof")
    await page.get_by_label("Flow", exact=True).fill("noop")
    await page.get_by_label("Params of the run").fill("order: /order/id")
    await expect(page.get_by_text("Expected name = value: order: /order/id")).to_be_visible()
    await page.get_by_label("Params of the run").fill("order = order.id")
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_label("Id", exact=True)).to_have_attribute("aria-invalid", "true")
    await page.get_by_label("Id", exact=True).fill("made-orders")
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_label("Params of the run")).to_have_attribute("aria-invalid", "true")
    await expect(page.get_by_role("alert")).to_contain_text("JSON pointer")
    await tab.screenshots("hook-form-wrong")
    await tab.set_language("en")
    await page.get_by_label("Id", exact=True).fill("made-orders")
    await page.get_by_label("Kind").select_option("HMAC signature")
    await page.get_by_label("Header", exact=True).fill("X-Proof")
    await page.get_by_label("Flow", exact=True).fill("noop")
    await page.get_by_label("Params of the run").fill("order = /order/id\nshop = header:X-Shop")
    await page.get_by_label("Only if").fill("/live = true")
    await page.get_by_label("If a run is still open").select_option("Accept the delivery, start nothing")
    await page.get_by_label("Note").fill("of the shop")
    await page.keyboard.press("ControlOrMeta+Enter")

    await expect(page).to_have_url(f"{tab.url}/#/hooks/made-orders")
    dialog = page.get_by_role("dialog", name="The secret of made-orders")
    await expect(dialog).to_contain_text("it is shown this once")
    await expect(dialog).to_contain_text(f"{tab.url}/hooks/made-orders")
    secret = await dialog.locator("code").first.text_content()
    assert secret is not None
    assert len(secret) >= 8
    await expect(dialog.get_by_role("region", name="Example for a terminal")).to_contain_text(secret)
    await tab.screenshot("hook-secret")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="I have copied it").click()
    await expect(page.get_by_text(secret)).to_have_count(0)
    await expect(part(tab, "Send a delivery")).to_contain_text("-H 'X-Proof: '\"$SIGNATURE\"")
    saved = await stored(tab, "made-orders")
    assert saved["map"] == {"order": "/order/id", "shop": "header:X-Shop"}
    assert (saved["only_if"], saved["overlap"], saved["note"]) == ({"/live": True}, "skip", "of the shop")
    await page.reload()
    await expect(page.get_by_role("heading", name="made-orders")).to_be_visible()
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_a_sample_shows_the_params_and_starts_nothing(tab: Tab) -> None:
    await hook(tab, "sampled", map={"order": "/order/id", "shop": "header:X-Shop"}, only_if={"/live": True})
    await tab.open("/hooks/sampled")
    page = tab.page
    await page.get_by_role("button", name="Test").click()
    dialog = page.get_by_role("dialog", name="Test sampled")
    await dialog.get_by_label("Body of the delivery").fill('{"live": }')
    await expect(dialog).to_contain_text("Invalid JSON at line 1, column 10.")
    await dialog.get_by_label("Body of the delivery").fill(
        '{"live": true, "order": {"id": 9007199254740993}}'
    )
    await dialog.get_by_label("Headers").fill("X-Shop")
    await expect(dialog).to_contain_text("Expected name = value: X-Shop")
    await expect(dialog.get_by_role("button", name="Test")).to_be_disabled()
    await dialog.get_by_label("Headers").fill("X-Shop = north")
    await dialog.get_by_role("button", name="Test").click()
    result = dialog.get_by_role("region", name="Result of the test")
    await expect(result).to_contain_text("This would start a run.")
    await expect(result).to_contain_text("9007199254740993")
    await expect(result).to_contain_text('"north"')
    await tab.screenshot("hook-test")
    await tab.is_accessible()
    await dialog.get_by_label("Body of the delivery").fill('{"live": false}')
    await dialog.get_by_role("button", name="Test").click()
    await expect(result).to_contain_text("The conditions (only if) do not match.")
    runs = (await tab.gateway.http.get("/runs", params={"cause": "event:hook:sampled"})).json()
    assert runs == []


async def test_deliveries_are_seen_and_sent_again(tab: Tab, worker: PyocoNatsWorker) -> None:
    sender = await hook(tab, "seen-orders", "github", map={"order": "/order/id"})
    run_id = await sender.started({"order": {"id": 7}}, "d-1")
    await sender.send({"order": {"id": 7}}, "d-1")
    wrong = await sender.send({"order": {"id": 8}}, headers={"x-hub-signature-256": "sha256=00"})
    assert wrong.status_code == 401
    await sender.deliveries(3)
    await tab.open("/hooks/seen-orders")
    page = tab.page
    deliveries = part(tab, "Deliveries")
    await expect(deliveries.locator("[data-delivery]")).to_have_count(3)
    await expect(deliveries.locator("[data-outcome=started]")).to_have_count(1)
    await expect(deliveries.locator("[data-outcome=duplicate]")).to_have_count(1)
    await expect(deliveries.locator("[data-outcome=refused]")).to_have_count(1)
    await tab.screenshots("hook")
    await tab.set_language("en")
    await expect(deliveries.locator("[data-delivery]")).to_have_count(3)
    await page.keyboard.press("j")
    await expect(deliveries.locator("[data-row]").first).to_be_focused()
    await deliveries.get_by_label("Status").select_option("Started")
    await expect(deliveries.locator("[data-delivery]")).to_have_count(1)

    await deliveries.get_by_role("button", name=re.compile("Show delivery")).click()
    dialog = page.get_by_role("dialog", name=re.compile("Delivery #"))
    await expect(dialog.get_by_role("region", name="Body")).to_contain_text('"id": 7')
    await expect(dialog).to_contain_text("x-github-delivery")
    await expect(dialog).not_to_contain_text(sender.secret)
    await expect(dialog).to_contain_text("Answer to the sender (202)")
    await expect(dialog.get_by_role("link", name=run_id[:8])).to_be_visible()
    await tab.screenshot("hook-delivery")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Redeliver").click()
    await expect(page.get_by_text("processed again: Duplicate")).to_be_visible()
    await deliveries.get_by_role("button", name=re.compile("Show delivery")).click()
    await dialog.get_by_role("button", name="Start another run").click()
    await expect(page.get_by_text("The delivery has started a run")).to_be_visible()
    runs = (await tab.gateway.http.get("/runs", params={"cause": "event:hook:seen-orders"})).json()
    assert len(runs) == 2

    await page.get_by_role("link", name="Show the run").last.click()
    cause = page.locator("dl").filter(has_text="Cause")
    await cause.get_by_role("link", name="hook:seen-orders").click()
    await expect(page).to_have_url(f"{tab.url}/#/hooks/seen-orders")
    await page.get_by_role("link", name="Show its runs").click()
    await expect(page.locator("[data-run]")).to_have_count(2)


async def test_a_secret_is_rotated_and_the_old_one_ended(tab: Tab) -> None:
    sender = await hook(tab, "turned")
    await tab.open("/hooks/turned")
    page = tab.page
    await choose(tab, "Rotate the secret…")
    dialog = page.get_by_role("dialog", name="Rotate the secret of turned?")
    await tab.screenshot("hook-rotate")
    await dialog.get_by_role("button", name="Make a new secret").click()
    shown = page.get_by_role("dialog", name="The secret of turned")
    assert sender.secret not in await shown.inner_text()
    await shown.get_by_role("button", name="I have copied it").click()
    await expect(page.get_by_text("The old secret is valid as well")).to_be_visible()
    assert (await sender.send()).status_code == 202
    await choose(tab, "End the old secret…")
    await page.get_by_role("button", name="End the old secret").click()
    await expect(page.get_by_text("Only the new secret of turned is valid")).to_be_visible()
    assert (await sender.send()).status_code == 401


async def test_an_edit_keeps_what_somebody_else_has_changed(tab: Tab) -> None:
    await hook(tab, "edited", note="first")
    await tab.open("/hooks/edited/edit")
    page = tab.page
    await page.get_by_label("Labels").fill("mine")
    changed = await tab.gateway.http.patch("/hooks/edited", json={"note": "theirs"})
    assert changed.status_code == 200, changed.text
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert")).to_contain_text("Somebody else has changed it")
    await page.get_by_role("button", name="Load their version").click()
    await expect(page.get_by_label("Note")).to_have_value("theirs")
    await expect(page.get_by_label("Labels")).to_have_value("mine")
    await page.get_by_role("button", name="Save").click()
    await expect(page).to_have_url(f"{tab.url}/#/hooks/edited")
    saved = await stored(tab, "edited")
    assert (saved["note"], saved["tags"]) == ("theirs", ["mine"])


async def test_hooks_are_listed_filtered_and_deleted(tab: Tab) -> None:
    await hook(tab, "list-orders", "github", note="of the shop")
    await hook(tab, "list-paid", "stripe", tag="gpu")
    await tab.open("/hooks?q=list-")
    page = tab.page
    await expect(page.locator("[data-hook]")).to_have_count(2)
    await tab.screenshots("hooks")
    await tab.set_language("en")
    await expect(page.locator("[data-hook]")).to_have_count(2)
    await page.get_by_label("Kind").select_option("Stripe")
    await expect(page.locator("[data-hook]")).to_have_count(1)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{tab.url}/#/hooks/list-paid")
    await choose(tab, "Delete…")
    dialog = page.get_by_role("dialog", name="Delete list-paid?")
    await dialog.get_by_role("button", name="Delete", exact=True).click()
    await expect(page).to_have_url(f"{tab.url}/#/hooks")
    await expect(page.locator("[data-hook='list-orders']")).to_be_visible()
    await expect(page.locator("[data-hook='list-paid']")).to_have_count(0)
    await tab.open("/hooks/list-paid")
    await expect(page.get_by_text("Hook not found")).to_be_visible()
