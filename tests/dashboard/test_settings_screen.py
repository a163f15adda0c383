"""The settings screen: theme, language and API key."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from pyoco_server.auth.scopes import Scope
from pyoco_server.config import NatsBackendConfig
from tests.dashboard.browser import Tab, opened_tab
from tests.support.broker.stored_waits import ask
from tests.support.broker.worker_records import a_record, put_record
from tests.support.running.api_keys import new_key, revoke
from tests.support.running.gateway import running_gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_theme_and_language_are_kept_and_apply_to_every_tab(tab: Tab) -> None:
    other = await tab.page.context.new_page()
    await other.goto(f"{tab.url}/#/runs")
    await expect(other.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    await tab.open("/settings")
    await tab.screenshots("settings")
    await tab.set_language("en")
    await tab.page.get_by_text("Dark", exact=True).click()
    await expect(tab.page.locator("html")).to_have_attribute("data-theme", "dark")
    await tab.page.get_by_text("日本語", exact=True).click()
    await expect(tab.page.get_by_role("heading", name="設定")).to_be_visible()
    await expect(other.locator("html[data-theme=dark][lang=ja]")).to_be_attached()
    await tab.page.reload()
    await expect(tab.page.get_by_role("heading", name="設定")).to_be_visible()
    await expect(tab.page.locator("html")).to_have_attribute("data-theme", "dark")


async def test_the_palette_finds_screens_and_runs(tab: Tab) -> None:
    run_id = await tab.gateway.submit("noop")
    await tab.open("/settings")
    await expect(tab.page.get_by_role("heading", name="Settings")).to_be_visible()
    await tab.page.keyboard.press("Control+k")
    await expect(tab.page.get_by_role("dialog").get_by_role("combobox")).to_be_focused()
    await tab.page.keyboard.type("noop")
    await expect(tab.page.get_by_role("option", name=run_id[:8])).to_be_visible()
    await tab.screenshot("palette")
    await tab.is_accessible()
    await tab.page.get_by_role("option", name=run_id[:8]).click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs/{run_id}")


@pytest.fixture
def keyed(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, http_auth_mode="api_key", http_api_key_header="X-Team-Key", dashboard_lang="ja")


@pytest_asyncio.fixture(loop_scope="session")
async def keyed_tab(browser: Browser, keyed: NatsBackendConfig, dashboard_folder: Path) -> AsyncIterator[Tab]:
    async with running_gateway(keyed) as gateway, opened_tab(browser, gateway) as opened:
        yield opened


async def test_a_missing_and_a_revoked_key_are_asked_for(keyed_tab: Tab, keyed: NatsBackendConfig) -> None:
    page = keyed_tab.page
    await keyed_tab.open("/runs")
    await expect(page.locator("html")).to_have_attribute("lang", "ja")
    await keyed_tab.set_language("en")
    await expect(page.get_by_role("heading", name="This gateway requires an API key")).to_be_visible()
    await page.get_by_label("API key").fill("pyoco_nonsense")
    await page.get_by_role("button", name="Use this key").click()
    await expect(page.get_by_text("ERR-PYOCO-0015")).to_be_visible()
    await keyed_tab.screenshot("key-refused")
    await keyed_tab.is_accessible()
    key = await new_key(keyed)
    await page.get_by_label("API key").fill(key.text)
    await page.get_by_role("button", name="Use this key").click()
    await expect(page.get_by_text("No runs yet")).to_be_visible()
    await page.reload()
    await expect(page.get_by_text("No runs yet")).to_be_visible()
    assert await page.evaluate("JSON.stringify(localStorage)") == '{"pyoco.language":"\\"en\\""}'
    await revoke(keyed, key)
    await expect(page.get_by_text("ERR-PYOCO-0015")).to_be_visible()


async def test_what_a_key_may_not_do_is_said_beforehand(keyed_tab: Tab, keyed: NatsBackendConfig) -> None:
    page, inside = keyed_tab.page, keyed_tab.gateway.inside
    await put_record(inside.connection, a_record("steady", seen_at=4e9))
    [wait] = await ask(inside, tenant_id="acme")
    await keyed_tab.open("/workers")
    await keyed_tab.set_language("en")
    for scopes, may in (([Scope.READ], False), ([Scope.READ, Scope.WORKERS, Scope.ANSWER], True)):
        key = await new_key(keyed, "acme", scopes=scopes)
        await inside.authentication.keys.confirm()
        await keyed_tab.open("/settings" if may else "/workers")
        if may:
            await page.get_by_role("button", name="Forget key").click()
        await page.get_by_label("API key").fill(key.text)
        await page.get_by_role("button", name="Use this key").click()
        await keyed_tab.open("/workers")
        await page.get_by_role("button", name="Actions for steady").click()
        await expect(page.get_by_text("needs a key with the scope workers")).to_have_count(0 if may else 1)
        for name in ("Pause", "Hide", "Drain"):
            item = page.get_by_role("menuitem", name=name)
            await (expect(item).to_be_enabled() if may else expect(item).to_be_disabled())
        await page.keyboard.press("Escape")
        await keyed_tab.open(f"/waits/{wait.wait_id}")
        await expect(page.get_by_role("article", name=wait.message)).to_be_visible()
        await expect(page.get_by_text("that needs the scope answer")).to_have_count(0 if may else 1)
        await expect(page.locator("form")).to_have_count(1 if may else 0)
        await keyed_tab.is_accessible()
