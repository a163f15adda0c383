"""Connections per tab, motion, and parts of the page that are loaded on demand."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import Tab
from tests.support.waiting import eventually

# Another theme changes the colours of every element. The events of transitions arrive within two frames.
TRANSITIONS_OF_A_NEW_THEME = """async () => {
  let begun = 0;
  addEventListener("transitionrun", () => { begun += 1; });
  document.documentElement.dataset.theme = "dark";
  for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
  return begun;
}"""

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_many_tabs_with_a_live_run_leave_a_connection_for_requests(
    tab: Tab, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    run_id = await tab.gateway.submit("sales", params={"release": str(release), "flaky": True})
    pages = [await tab.page.context.new_page() for _ in range(3)]
    for page in pages:
        await page.goto(f"{tab.url}/#/runs/{run_id}")
    for page in pages:
        await expect(page.get_by_text("joining orders and rates").first).to_be_visible()
    await tab.open("/workers")
    await expect(tab.page.get_by_text("1 worker").first).to_be_visible()
    release.touch()
    for page in pages:
        await expect(page.locator("header [data-status=COMPLETED]")).to_be_visible()


async def test_nothing_moves_for_who_wants_no_motion(
    tab: Tab, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    """The tabs of all tests are such a reader's."""
    release = tmp_path / "release"
    await tab.open(f"/runs/{await tab.gateway.submit('sales', params={'release': str(release)})}")
    await expect(tab.page.locator("header [data-status=RUNNING]")).to_be_visible()

    async def is_still() -> bool:
        return bool(await tab.page.evaluate("document.getAnimations().length === 0"))

    try:
        await eventually(is_still, describe="no animation is left")
        assert await tab.page.evaluate(TRANSITIONS_OF_A_NEW_THEME) == 0
    finally:
        release.touch()


async def test_a_part_that_cannot_be_loaded_leaves_the_page_unchanged(tab: Tab) -> None:
    page = await tab.page.context.new_page()
    loads: list[str] = []
    page.on("load", lambda loaded: loads.append(loaded.url))
    await page.goto(f"{tab.url}/#/runs")
    await expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    screens = f"{tab.url}/static/assets/**"
    await page.route(screens, lambda route: route.abort())
    await page.route(f"{tab.url}/", lambda route: route.abort())
    await page.get_by_role("link", name="Workers").click()
    problem = page.get_by_role("alert").filter(has_text="The gateway is not responding")
    await expect(problem).to_be_visible()
    # The gateway is back without the part: an error, not an endless retry.
    await page.unroute(f"{tab.url}/")
    await page.get_by_role("link", name="Submit").click()
    await expect(page.get_by_text("An unexpected error occurred")).to_be_visible()
    assert len(loads) == 1
    # With the part, one click loads it.
    await page.unroute(screens)
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("heading", name="Submit")).to_be_visible()
    await eventually(lambda: len(loads) == 2, describe="one more load")
