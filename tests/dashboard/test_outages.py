"""The page during a restart of its gateway."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from pyoco_server.config import NatsBackendConfig
from tests.dashboard.browser import opened_tab
from tests.support.running.gateway import running_gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_restart_of_the_gateway_needs_no_reload(
    browser: Browser, config: NatsBackendConfig, dashboard_folder: Path
) -> None:
    first = running_gateway(config)
    gateway = await first.__aenter__()
    port = gateway.http.base_url.port
    assert port is not None
    async with opened_tab(browser, gateway) as tab:
        await tab.open("/runs")
        await expect(tab.page.get_by_text("No runs yet")).to_be_visible()
        # As the command does it: event streams end with their gateway.
        gateway.inside.stopping.set()
        await first.__aexit__(None, None, None)
        await expect(tab.page.get_by_text("Gateway not responding")).to_be_visible()
        await expect(tab.page.get_by_text("Reconnecting…")).to_be_visible()
        await tab.screenshot("gateway-away")
        async with running_gateway(config, port=port) as second:
            run_id = await second.submit("noop")
            await expect(tab.page.locator(f"[data-run='{run_id}']")).to_be_visible()
            await expect(tab.page.get_by_text("Connected")).to_be_visible()
            await tab.page.close()
