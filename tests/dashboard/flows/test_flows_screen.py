"""The flows of workers: the list, one flow with its form, and what its runs made."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect

from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import Tab
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

GREET = '''"""Says hello to somebody."""
from typing import Literal
from pyoco import task
from pyoco.core.models import Flow

@task
def words(name: str, tone: Literal["warm", "cold"] = "warm", times: int = 1):
    """Finds the words."""
    if name == "nobody":
        raise ValueError("there is nobody to greet")
    return {"text": f"Hello, {name}!", "tone": tone, "id": 9007199254740993}

@task
def say(words):
    return words

greet = Flow("greet") >> words >> say
'''


@pytest_asyncio.fixture(loop_scope="session")
async def worker(tab: Tab, tmp_path: Path) -> AsyncIterator[PyocoNatsWorker]:
    folder = tmp_path / "flows"
    folder.mkdir()
    (folder / "greetings.py").write_text(GREET)
    async with serving_worker(tab.gateway.inside.config, flows=folder) as serving:

        async def is_listed() -> bool:
            listed = (await tab.http.get("/flows")).json()["flows"]
            return any(flow["name"] == "greet" and flow["workers"] for flow in listed)

        await eventually(is_listed, describe="the flow is listed")
        yield serving


async def test_flows_are_listed_with_how_their_runs_ended(tab: Tab, worker: PyocoNatsWorker) -> None:
    for name in ("Ada", "Grace", "nobody"):
        await tab.gateway.ends(await tab.gateway.submit("greet", params={"name": name}))
    await tab.open("/flows")
    row = tab.page.locator("[data-flow=greet]")
    await expect(row).to_contain_text("Says hello to somebody.")
    await expect(row).to_contain_text("1 worker")
    await expect(row).to_contain_text("66.7%")
    await expect(row.get_by_role("img", name="Ended runs of greet")).to_be_visible()
    await tab.screenshots("flows")
    await tab.set_language("en")
    await tab.page.get_by_role("searchbox").fill("nothing like it")
    await expect(tab.page.get_by_text("No flow matches")).to_be_visible()
    await tab.page.get_by_role("button", name="Clear the search").click()
    await row.get_by_role("link", name="greet").click()
    await expect(tab.page.get_by_role("heading", name="greet", exact=True)).to_be_visible()


async def test_a_flow_is_run_with_a_form_of_its_parameters(tab: Tab, worker: PyocoNatsWorker) -> None:
    await tab.gateway.ends(await tab.gateway.submit("greet", params={"name": "nobody"}))
    await tab.open("/flows/greet")
    page = tab.page
    await expect(page.get_by_role("region", name="Flow", exact=True)).to_contain_text("words")
    await expect(page.get_by_text("there is nobody to greet").first).to_be_visible()
    run = page.get_by_role("button", name="Run", exact=True)
    await run.click()
    await expect(page.get_by_text("This field is required.")).to_be_visible()
    await page.get_by_label("name").fill("Ada")
    await page.get_by_label("times").fill("2")
    await page.get_by_label("name").fill("")
    await page.get_by_label("name").fill("Ada")
    await expect(page.get_by_text("This field is required.")).to_have_count(0)
    await page.set_viewport_size({"width": 1440, "height": 900})
    await tab.screenshot("flow-1440")
    await tab.screenshots("flow")
    await tab.set_language("en")
    await page.get_by_label("name").fill("Ada")
    await run.click()
    await expect(page.locator("header [data-status]")).to_have_text("Completed")
    result = page.locator("[data-result]")
    await expect(result).to_contain_text("Hello, Ada!")
    await expect(result).to_contain_text("9007199254740993")
    await tab.screenshots("run-result")


async def test_a_run_is_repeated_with_other_params(tab: Tab, worker: PyocoNatsWorker) -> None:
    origin = await tab.gateway.submit("greet", params={"name": "nobody", "tone": "cold"})
    await tab.gateway.ends(origin)
    await tab.open(f"/runs/{origin}")
    page = tab.page
    await page.get_by_role("button", name="Rerun", exact=True).click()
    await page.get_by_role("menuitem", name="With other params…").click()
    dialog = page.get_by_role("dialog", name="Rerun with other params")
    await expect(dialog.get_by_label("name")).to_have_value("nobody")
    await dialog.get_by_label("name").fill("Grace")
    await tab.screenshot("rerun-params")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Rerun", exact=True).click()
    await expect(page.locator("header [data-status]")).to_have_text("Completed")
    again = await tab.gateway.get(page.url.rsplit("/", 1)[1].split("?")[0])
    assert again["origin_run_id"] == origin
    assert again["params"] == {"name": "Grace", "tone": "cold"}


async def test_an_unknown_flow_suggests_others(tab: Tab, worker: PyocoNatsWorker) -> None:
    await tab.open("/flows/gret")
    await expect(tab.page.get_by_text("Flow not found")).to_be_visible()
    await expect(tab.page.get_by_role("main")).to_contain_text("greet")
