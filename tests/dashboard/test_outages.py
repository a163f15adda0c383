"""The page while its gateway is restarted or frozen: one truth about the connection, shown once."""

import re
import signal
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Locator, expect

from pyoco_server.config import NatsBackendConfig
from tests.dashboard.browser import NARROW, Tab, opened_tab
from tests.support.programs import SERVER, forked
from tests.support.running.gateway import running_gateway
from tests.support.waiting import LIMIT_SEC

pytestmark = pytest.mark.asyncio(loop_scope="session")


def connection_of(tab: Tab) -> Locator:
    return tab.page.locator("nav [data-health]")


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
        await expect(connection_of(tab)).to_contain_text("Gateway not responding")
        await expect(connection_of(tab)).to_contain_text("This screen shows the state of")
        await expect(tab.page.get_by_text("Connected")).to_have_count(0)
        await tab.screenshot("gateway-away")
        async with running_gateway(config, port=port) as second:
            run_id = await second.submit("noop")
            await expect(tab.page.locator(f"[data-run='{run_id}']")).to_be_visible()
            await expect(connection_of(tab)).to_contain_text("Connected")
            await tab.page.close()


@pytest.mark.parametrize("screen", ["/", "/runs", "/inbox"])
async def test_a_frozen_gateway_is_noticed_on_every_screen(
    browser: Browser, config: NatsBackendConfig, dashboard_folder: Path, screen: str
) -> None:
    with forked(SERVER, "up", "--port", "0", PYOCO_NATS_URL=config.nats_url or "") as program:
        program.writes("http://")
        shown = re.search(r"http://[\w.]+:\d+", program.stdout + program.stderr)
        assert shown is not None
        async with (
            httpx.AsyncClient(base_url=shown[0], timeout=LIMIT_SEC) as http,
            opened_tab(browser, http=http) as tab,
        ):
            await tab.open(screen)
            await expect(connection_of(tab)).to_contain_text("Connected")
            await expect(connection_of(tab)).to_contain_text("This screen is up to date")
            program.send(signal.SIGSTOP)
            await expect(connection_of(tab)).to_contain_text("Gateway not responding")
            await expect(connection_of(tab)).to_contain_text("This screen shows the state of")
            # Nothing else says that all is well.
            for word in ("Connected", "Live", "Reconnecting", "All well"):
                await expect(tab.page.get_by_text(re.compile(rf"\b{word}(?![a-z])"))).to_have_count(0)
            await tab.resize(NARROW)
            await expect(tab.page.locator("header [data-health]")).to_be_visible()
            await tab.screenshot("gateway-frozen-390")
            program.send(signal.SIGCONT)
            await expect(tab.page.locator("header [data-health]")).to_contain_text("Connected")
