"""A trigger that waits for the end of an earlier run: there is no run yet, and perhaps never."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.async_api import expect

from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import Tab
from tests.support.inspection import started_pid

pytestmark = pytest.mark.asyncio(loop_scope="session")


@contextmanager
def released(path: Path) -> Iterator[None]:
    """The run that waits for the file ends also when the test fails: its worker waits for it."""
    try:
        yield
    finally:
        path.touch()


async def test_the_id_of_a_replaced_trigger_is_found_and_no_link(
    tab: Tab, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    page, http = tab.page, tab.gateway.http
    release, marker = tmp_path / "release", tmp_path / "started"
    body = {
        "schedule_id": "buffered",
        "flow_name": "waiting",
        "spec": {"cron": ["0 2 1 1 *"]},
        "params": {"path": str(release), "started": str(marker)},
        "overlap": "buffer_all",
    }
    with released(release):
        assert (await http.post("/schedules", json=body)).status_code == 201
        assert (await http.post("/schedules/buffered/trigger")).json()["outcome"] == "started"
        await started_pid(marker)
        buffered = (await http.post("/schedules/buffered/trigger")).json()
        assert buffered["outcome"] == "buffered"

        await tab.open("/schedules/buffered")
        history = page.get_by_role("region", name="Recent decisions")
        first = history.locator("li", has_text=buffered["run_id"][:8])
        await expect(first).to_contain_text("Buffered")
        await expect(first.get_by_role("link")).to_have_count(0)
        await page.get_by_role("button", name="Trigger now…").click()
        await page.get_by_role("dialog").get_by_role("button", name="Trigger now").click()
        toast = page.get_by_text("A run of buffered starts when the earlier run has ended")
        await expect(toast).to_be_visible()
        await expect(page.get_by_role("link", name="Show the run")).to_have_count(0)

        replacing = await http.post("/schedules/buffered/trigger", json={"overlap": "terminate_other"})
        assert replacing.status_code == 200, replacing.text
        await expect(first).to_contain_text("Skipped")
        await expect(first).to_contain_text("A later start took its place in the buffer.")
        await expect(first.get_by_role("link")).to_have_count(0)
        await tab.screenshots("schedule-replaced-trigger")
