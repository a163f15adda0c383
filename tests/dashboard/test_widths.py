"""Everything that can be clicked is in view at every width of the window, in both languages."""

import re
import time
from typing import Final

import pytest
from playwright.async_api import Locator, expect

from pyoco_server import __version__
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.workers.worker_models import WheelSyncResult, WheelSyncState, WorkerHost
from tests.dashboard.browser import Lang, Tab
from tests.support.broker.stored_runs import ended, write_many
from tests.support.broker.worker_records import a_record, put_record
from tests.support.waiting import NEVER_SEC, eventually_equals

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Beside the sidebar, which is there from 761 px on, a list has 258 px less than the window.
WIDTHS: Final = (320, 390, 640, 760, 762, 804, 840, 900, 1024, 1154, 1200, 1280)
HEIGHT: Final = 1800
LANGUAGES: Final[tuple[Lang, ...]] = ("en", "ja")
# What the pointer does not hit at the middle of each edge: it is cut off, outside, or below something else.
_OUT_OF_REACH: Final = """controls => controls.filter((control) => {
  const { left, right, top, bottom } = control.getBoundingClientRect();
  const [x, y] = [(left + right) / 2, (top + bottom) / 2];
  return [[x, y], [left + 2, y], [right - 2, y], [x, top + 2], [x, bottom - 2]]
    .some((at) => !control.contains(document.elementFromPoint(...at)));
}).map((control) => control.ariaLabel ?? control.textContent)"""
# The page and its lists: a list cuts off what does not fit.
_SIDEWAYS: Final = """() => Math.max(...[...document.querySelectorAll("html, main, main ul")].map(
  (each) => each.scrollWidth - each.clientWidth))"""


async def everything_is_in_reach(tab: Tab, controls: Locator, count: int) -> None:
    """These are shown, and in reach at every width, in both languages."""
    for lang in LANGUAGES:
        await tab.set_language(lang)
        await expect(controls).to_have_count(count)
        await _is_in_reach_at_every_width(tab, controls, lang)


async def _is_in_reach_at_every_width(tab: Tab, controls: Locator, lang: Lang) -> None:
    for width in WIDTHS:
        await tab.page.set_viewport_size({"width": width, "height": HEIGHT})

        async def out_of_reach() -> tuple[list[str], int]:
            return await controls.evaluate_all(_OUT_OF_REACH), await tab.page.evaluate(_SIDEWAYS)

        nothing: tuple[list[str], int] = ([], 0)
        await eventually_equals(out_of_reach, nothing, describe=f"all is in reach at {width} px, {lang}")


async def test_the_actions_of_schedules_are_in_reach(tab: Tab) -> None:
    specs = {
        "nightly-report-of-all-regions": {"cron": ["0 2 * * *"], "timezone": "Asia/Tokyo"},
        "often": {"every_sec": 900},
    }
    for schedule_id, spec in specs.items():
        body = {
            "schedule_id": schedule_id,
            "flow_name": "noop",
            "spec": spec,
            "paused": schedule_id == "often",
        }
        assert (await tab.http.post("/schedules", json=body)).status_code == 201
    await tab.open("/schedules")
    actions = tab.page.locator("[data-schedule] button")
    await everything_is_in_reach(tab, actions, 6)


async def test_the_actions_of_workers_are_in_reach(tab: Tab) -> None:
    now = time.time()
    wheels = WheelSyncState(
        enabled=True, last_result=WheelSyncResult.ERROR, error="No space left", last_attempt_at=now
    )
    host = WorkerHost(name="build-7.tokyo.example.com", system="Linux x86_64", python="3.12.1", cpus=4)
    for worker_id in ("gpu-1", "a-worker-with-a-long-name-7"):
        record = a_record(
            worker_id,
            seen_at=now + NEVER_SEC,
            last_progress_at=now - 5000,
            tags=["gpu", "linux"],
            slots=4,
            version=__version__,
            wheel_sync=wheels,
            host=host,
        )
        await put_record(tab.gateway.inside.connection, record)
    await tab.open("/workers")
    workers = tab.page.locator("[data-worker]")
    await expect(workers).to_have_count(2)
    await everything_is_in_reach(tab, workers.locator("button"), 4)


async def test_the_actions_on_selected_runs_are_in_reach(tab: Tab) -> None:
    now = time.time()
    runs = [ended(RunStatus.FAILED, at=now - each) for each in range(3)]
    await write_many(tab.gateway.inside.connection, runs)
    await tab.open("/runs")
    checks = tab.page.locator("[data-run] input")
    await expect(checks).to_have_count(3)
    for at in range(2):
        await checks.nth(at).check()
    bar = tab.page.get_by_role("region", name=re.compile("selected|選択"))
    controls = bar.locator("button, a")
    # All loaded ones, rerun, cancel, compare, clear.
    await everything_is_in_reach(tab, controls, 5)
