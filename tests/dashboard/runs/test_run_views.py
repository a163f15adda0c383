"""Saved views of the list of runs: shared by a team, or of one browser."""

import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus
from tests.dashboard.browser import Tab, opened_tab
from tests.support.broker.stored_runs import ended, write_many
from tests.support.running.gateway import RunningGateway, running_gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def gateway(
    shared_config: NatsBackendConfig, dashboard_folder: Path, dashboard_port: int
) -> AsyncIterator[RunningGateway]:
    """With 4 failed and 16 completed runs."""
    async with running_gateway(shared_config, port=dashboard_port) as running:
        statuses = [RunStatus.FAILED if each % 5 == 0 else RunStatus.COMPLETED for each in range(20)]
        runs = [ended(status, at=time.time() - at, flow_name="etl") for at, status in enumerate(statuses)]
        await write_many(running.inside.connection, runs)
        yield running


def tabs(tab: Tab) -> Locator:
    return tab.page.get_by_role("navigation", name="Views").get_by_role("link")


async def save(tab: Tab, name: str, *, whom: str | None = None) -> None:
    await tab.page.get_by_role("button", name="Save as a view…").click()
    dialog = tab.page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill(name)
    if whom is not None:
        await dialog.get_by_text(whom).click()
    await dialog.get_by_role("button", name="Save", exact=True).click()


async def test_a_team_shares_a_view(tab: Tab, browser: Browser, gateway: RunningGateway) -> None:
    await tab.open("/runs?status=FAILED&sort=duration")
    await save(tab, "Broken ones")
    await expect(tabs(tab).filter(has_text="Broken ones")).to_have_attribute("aria-current", "page")
    await tab.screenshots("run-views")
    await tab.set_language("en")
    async with opened_tab(browser, gateway) as colleague:
        await colleague.open("/runs")
        await tabs(colleague).filter(has_text="Broken ones").click()
        await expect(colleague.page).to_have_url(re.compile("view=Broken"))
        await expect(colleague.page.locator("[data-run]")).to_have_count(4)

        # A change is marked, and saved for both.
        await tab.page.get_by_role("button", name=re.compile("^Running")).click()
        await expect(tabs(tab).filter(has_text="changed")).to_have_count(1)
        await colleague.page.get_by_role("button", name=re.compile("^Completed")).click()
        await expect(tabs(colleague).filter(has_text="Broken ones")).to_contain_text("changed")
        await colleague.screenshot("run-views-changed")
        await colleague.is_accessible()
        await colleague.page.get_by_role("button", name="Save the changes").click()
        await expect(colleague.page.get_by_text("View “Broken ones” saved")).to_be_visible()
        await expect(tabs(colleague).filter(has_text="changed")).to_have_count(0)

        # The other one has changed an older revision: nothing is overwritten.
        await tab.page.get_by_role("button", name="Save the changes").click()
        refusal = tab.page.get_by_text("The view exists already, or was changed meanwhile")
        await expect(refusal.first).to_be_visible()
        [view] = (await gateway.http.get("/views")).json()["views"]
        assert sorted(view["filter"]["status"]) == ["COMPLETED", "FAILED"]

        # Renamed, opened by its link, deleted.
        await colleague.page.get_by_role("button", name="View “Broken ones”").click()
        await colleague.page.get_by_role("menuitem", name="Rename…").click()
        await colleague.page.get_by_role("textbox", name="Name").fill("夜間の失敗")
        await colleague.page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).click()
        await expect(tabs(colleague).filter(has_text="夜間の失敗")).to_have_attribute("aria-current", "page")
        await colleague.open("/runs?open=夜間の失敗")
        await expect(colleague.page).to_have_url(re.compile("status=COMPLETED&status=FAILED.*view="))
        await expect(colleague.page.locator("[data-run]")).to_have_count(20)
        await colleague.page.get_by_role("button", name="View “夜間の失敗”").click()
        await colleague.page.get_by_role("menuitem", name="Delete…").click()
        await colleague.page.get_by_role("button", name="Delete the view").click()
        await expect(tabs(colleague).filter(has_text="夜間の失敗")).to_have_count(0)
        assert (await gateway.http.get("/views")).json() == {"views": []}
        await expect(colleague.page.locator("[data-run]")).to_have_count(20)


async def test_a_view_keeps_columns_and_one_of_this_browser_stays_here(
    tab: Tab, gateway: RunningGateway
) -> None:
    await tab.open("/runs?status=FAILED&columns=status,flow_name,submitted_at")
    heads = tab.page.get_by_role("columnheader")
    await expect(heads.filter(has_text="Submitted")).to_have_count(1)
    await expect(heads.filter(has_text="Duration")).to_have_count(0)
    await save(tab, "Mine", whom="This browser only")
    await expect(tabs(tab).filter(has_text="Mine")).to_have_attribute("aria-current", "page")
    assert "Mine" not in (await gateway.http.get("/views")).text
    await tabs(tab).filter(has_text="All runs").click()
    await expect(heads.filter(has_text="Duration")).to_have_count(1)
    await tab.page.reload()
    await tabs(tab).filter(has_text="Mine").click()
    await expect(heads.filter(has_text="Duration")).to_have_count(0)
    await expect(tab.page.locator("[data-run]")).to_have_count(4)
