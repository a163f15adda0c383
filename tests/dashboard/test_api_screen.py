"""The API reference: every operation from the gateway's own document, and a form that sends it."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.config import NatsBackendConfig
from tests.dashboard.browser import Tab, opened_tab
from tests.support.running.api_keys import new_key
from tests.support.running.gateway import running_gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")


def operation(tab: Tab, name: str) -> Locator:
    return tab.page.get_by_role("article", name=name, exact=True)


def response(tab: Tab) -> Locator:
    return tab.page.get_by_role("region", name="Response", exact=True)


async def test_docs_lead_to_every_operation(tab: Tab) -> None:
    page = tab.page
    await page.goto(f"{tab.url}/docs")
    await expect(page).to_have_url(f"{tab.url}/#/api")
    await expect(page.get_by_role("heading", name="API reference")).to_be_visible()
    links = page.get_by_role("navigation", name="Operations").get_by_role("link")
    routes = sorted(each.route for each in ENDPOINTS if each.in_schema)
    # They come with the gateway's document, after the heading.
    await expect(links).to_have_count(len(routes))
    assert sorted(" ".join(text.split()) for text in await links.all_inner_texts()) == routes
    await page.get_by_label("Find an operation").fill("submit yaml")
    await expect(links).to_have_count(1)
    await links.first.click()
    form = operation(tab, "POST /runs/yaml")
    await form.get_by_label("flow_name").fill("first")
    await form.get_by_label("workflow").set_input_files(
        {"name": "flow.yaml", "mimeType": "text/yaml", "buffer": b"flow: nonsense"}
    )
    await form.get_by_role("button", name="Send request").click()
    await expect(response(tab)).to_contain_text("422")
    await expect(response(tab)).to_contain_text("ERR-PYOCO-")
    await tab.screenshots("api-form")


async def test_a_run_is_submitted_and_read_with_the_forms(tab: Tab) -> None:
    page = tab.page
    await tab.open("/api?op=POST+%2Fruns")
    form = operation(tab, "POST /runs")
    body = form.get_by_label("Body (JSON)")
    await expect(body).to_have_value(re.compile(r'^\{\s*"flow_name": "string"\s*\}$'))
    await body.fill('{"flow_name": ')
    await expect(form.get_by_text("This is not JSON")).to_be_visible()
    await body.fill('{"flow_name": "noop", "params": {"it\'s": 1}}')
    command = form.get_by_role("group", name="As a command")
    await expect(command).to_contain_text(f"curl -X POST '{tab.url}/runs'")
    await expect(command).to_contain_text(r"""-d '{"flow_name": "noop", "params": {"it'\''s": 1}}'""")
    await form.get_by_role("button", name="Send request").click()
    await expect(response(tab)).to_contain_text("200 OK after")
    shown = await response(tab).get_by_role("group", name="Response").inner_text()
    run_id = json.loads(shown)["run_id"]
    assert (await tab.gateway.get(run_id))["params"] == {"it's": 1}
    await tab.screenshots("api-submitted")

    await tab.open("/api?op=GET+%2Fruns%2F%7Brun_id%7D")
    await tab.set_language("en")
    form = operation(tab, "GET /runs/{run_id}")
    await form.get_by_role("button", name="Send request").click()
    await expect(form.get_by_text("A value is required here.")).to_be_visible()
    await expect(response(tab)).to_have_count(0)
    await form.get_by_label("run_id").fill(run_id)
    await form.get_by_role("button", name="Send request").click()
    await expect(response(tab)).to_contain_text(f'"run_id": "{run_id}"')
    await form.get_by_text("Example", exact=True).first.click()
    await page.get_by_text('"flow_name": "string"').first.scroll_into_view_if_needed()


async def test_a_stream_is_shown_while_it_comes_and_can_be_stopped(tab: Tab) -> None:
    await tab.open("/api?op=GET+%2Fruns%2Fwatch")
    form = operation(tab, "GET /runs/watch")
    await form.get_by_role("button", name="Send request").click()
    await expect(response(tab)).to_contain_text("200 OK, receiving")
    run_id = await tab.gateway.submit("noop")
    await expect(response(tab)).to_contain_text(run_id)
    await form.get_by_role("button", name="Stop").click()
    await expect(response(tab)).to_contain_text("200 OK after")
    await expect(form.get_by_role("button", name="Send request")).to_be_enabled()


@pytest_asyncio.fixture(loop_scope="session")
async def keyed_tab(
    browser: Browser, config: NatsBackendConfig, dashboard_folder: Path
) -> AsyncIterator[tuple[Tab, str]]:
    keyed = replace(config, http_auth_mode="api_key", http_api_key_header="X-Team-Key")
    async with running_gateway(keyed) as gateway, opened_tab(browser, gateway) as opened:
        key = await new_key(keyed)
        await gateway.inside.authentication.keys.confirm()
        yield opened, key.text


async def test_the_reference_needs_no_key_and_sends_that_of_the_tab(keyed_tab: tuple[Tab, str]) -> None:
    tab, key = keyed_tab
    await tab.open("/api?op=GET+%2Fkey")
    form = operation(tab, "GET /key")
    await expect(form.get_by_text("this tab has none")).to_be_visible()
    await form.get_by_role("button", name="Send request").click()
    await expect(response(tab)).to_contain_text("ERR-PYOCO-0014")
    await tab.is_accessible()
    await form.get_by_role("link", name="Enter a key").click()
    await tab.page.get_by_label("API key").fill(key)
    await tab.page.get_by_role("button", name="Use this key").click()
    await tab.open("/api?op=GET+%2Fkey")
    await expect(form.get_by_text("this tab has none")).to_have_count(0)
    await form.get_by_role("button", name="Send request").click()
    await expect(response(tab)).to_contain_text("200 OK after")
    # The command is for a shell whose history others may read.
    command = form.get_by_role("group", name="As a command")
    await expect(command).to_contain_text('-H "X-Team-Key: $PYOCO_API_KEY"')
    assert key not in await tab.page.content()
