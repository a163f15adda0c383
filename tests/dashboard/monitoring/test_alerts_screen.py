"""Alerts: created with a live check, tested, fired with a history, muted, edited and deleted."""

import re
from collections.abc import Iterator

import pytest
from playwright.async_api import expect

from tests.dashboard.browser import Tab
from tests.dashboard.module_fixtures import module_gateway
from tests.integration.alerts.alerting import FAST, fail, is_delivered, save, webhook
from tests.support.running.hook_senders import SECRETS_KEY
from tests.support.webhooks import WebhookReceiver, webhook_receiver

pytestmark = pytest.mark.asyncio(loop_scope="session")
gateway = module_gateway(secrets_keys=SECRETS_KEY, **FAST)


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with webhook_receiver() as found:
        yield found


async def test_an_alert_is_created_with_a_live_check_tested_and_fires(
    tab: Tab, receiver: WebhookReceiver
) -> None:
    page = tab.page
    await fail(tab.gateway, "shop", 2)
    await tab.open("/alerts")
    await expect(page.get_by_text("No alerts yet")).to_be_visible()
    await tab.screenshots("alerts-empty")
    await tab.set_language("en")
    await page.get_by_role("link", name="New alert").first.click()
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_label("Id", exact=True)).to_be_focused()
    await page.get_by_label("Id", exact=True).fill("shop-failing")
    await page.get_by_label("Condition").select_option("Number of failures")
    await page.get_by_label("Flow", exact=True).fill("shop")
    await page.get_by_label("Failures", exact=True).fill("5")
    now = page.get_by_role("status", name="Now")
    await expect(now).to_contain_text("Not met now")
    await page.get_by_label("Failures", exact=True).fill("3")
    await page.get_by_label("URL", exact=True).fill("ftp://example.com/x")
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_label("URL", exact=True)).to_have_attribute("aria-invalid", "true")
    await tab.screenshot("alert-form-wrong")
    await tab.is_accessible()
    await page.get_by_label("URL", exact=True).fill(receiver.url)
    await page.keyboard.press("ControlOrMeta+Enter")
    await expect(page.get_by_role("heading", name="shop-failing")).to_be_visible()
    await expect(page.get_by_text("It has not fired yet.")).to_be_visible()
    await expect(page.get_by_text(re.compile("Fingerprint [0-9a-f]{12}"))).to_be_visible()
    assert receiver.url not in await page.content()

    await page.get_by_role("button", name="Send a test").click()
    receiver.statuses.append(500)
    send = page.get_by_role("button", name="Send test message")
    await send.click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Not delivered: the receiver answered with 500")
    await send.click()
    await expect(dialog.get_by_text("Delivered", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Close", exact=True).last.click()

    await fail(tab.gateway, "shop")
    await is_delivered(tab.gateway, "shop-failing")
    history = page.get_by_role("table", name="History")
    await expect(history.locator("tbody tr")).to_have_count(1)
    await expect(history).to_contain_text("3 runs of shop failed within 1h (limit")
    await expect(history).to_contain_text("Delivered")
    await expect(page.get_by_text("Firing", exact=True)).to_be_visible()
    await tab.screenshots("alert")
    await expect(page.get_by_role("table", name="履歴")).to_contain_text("失敗しました")
    await tab.set_language("en")
    await tab.open("/alerts")
    row = page.locator('[data-alert="shop-failing"]')
    await expect(row).to_contain_text("Firing")
    await tab.screenshots("alerts")


async def test_an_alert_is_muted_edited_and_deleted(tab: Tab, receiver: WebhookReceiver) -> None:
    page = tab.page
    await save(
        tab.gateway, "gpu", condition="queue_age", tag="gpu", after_sec=600, channels=[webhook(receiver)]
    )
    await tab.open("/alerts/gpu")
    await page.get_by_role("button", name="Mute").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Why").fill("a move")
    await dialog.get_by_role("button", name="Mute").click()
    await expect(page.get_by_text("a move")).to_be_visible()
    await page.get_by_role("button", name="Unmute").click()
    await expect(page.get_by_text("a move")).to_have_count(0)

    await page.get_by_role("link", name="Edit").click()
    await expect(page.get_by_text(re.compile("Leave it empty to keep it"))).to_be_visible()
    await page.get_by_role("button", name="Add a channel").click()
    await page.get_by_label("Kind").last.select_option("Slack channel")
    await page.get_by_label("URL", exact=True).last.fill(f"{receiver.url}/slack")
    await tab.screenshots("alert-form")
    await tab.set_language("en")
    await page.get_by_role("button", name="Save").click()
    channels = page.get_by_role("table", name="Channels")
    await expect(channels.locator("tbody tr")).to_have_count(2)
    await page.get_by_role("button", name="More actions").click()
    await page.get_by_role("menuitem", name="Delete…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="Alerts", exact=True)).to_be_visible()
    await expect(page.locator('[data-alert="gpu"]')).to_have_count(0)
