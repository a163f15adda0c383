"""The home screen: warnings, figures, the chart, and the first steps on a fresh server."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Route, expect

from pyoco_server.broker.client.write_state import WriteCause, WriteProblem
from pyoco_server.broker.storage.free_space import DISK, FreeSpace
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus
from pyoco_server.records.workers.worker_models import WheelSyncResult, WheelSyncState
from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import Tab
from tests.support.broker.stored_runs import ended, snapshot, write_many
from tests.support.broker.stored_waits import a_wait
from tests.support.broker.worker_records import a_record, put_record

pytestmark = pytest.mark.asyncio(loop_scope="session")

ERRORS = {
    "sync_customers": "ConnectionError: crm.example.internal:443 did not answer within 30 s",
    "train_model": "torch.cuda.OutOfMemoryError: CUDA out of memory",
    "invoice_mail": "ValueError: row 1,204 has no customer id",
}


def a_day(now: float) -> list[RunSnapshot]:
    """Ended runs of 24 hours: more by day than by night; one flow fails for two hours."""
    runs: list[RunSnapshot] = []
    flows = ("daily_sales", "sync_customers", "train_model", "invoice_mail", "clean_up")
    for half_hour in range(48):
        busy = 3 + (half_hour * 7) % 5 + (6 if 6 < half_hour < 30 else 0)
        for number in range(busy):
            flow = flows[(half_hour + number) % 5]
            at = now - half_hour * 1800 - number * 90 - 60
            outage = flow == "sync_customers" and 8 < half_hour < 13
            if outage or (flow in ERRORS and (half_hour + number) % 13 == 0):
                runs.append(ended(RunStatus.FAILED, at=at, flow_name=flow, error=ERRORS[flow]))
            elif (half_hour + number) % 17 == 3:
                runs.append(ended(RunStatus.CANCELLED, at=at, flow_name=flow))
            else:
                runs.append(ended(at=at, flow_name=flow))
    under_way: dict[str, Any] = {"status": RunStatus.RUNNING, "start_time": now - 40, "updated_at": now}
    return [*runs, *(snapshot(flow_name=flow, **under_way) for flow in flows[:2])]


def a_minute_later(overview: dict[str, Any]) -> dict[str, Any]:
    _, *kept = overview["ended"]
    nothing = {**kept[-1], "at": kept[-1]["at"] + 60, "completed": 0, "failed": 0, "cancelled": 0}
    return {**overview, "ended": [*kept, nothing]}


def warning(tab: Tab, kind: str) -> Locator:
    return tab.page.locator(f"[data-warning='{kind}']")


async def test_a_fresh_server_shows_the_first_steps(tab: Tab, worker: PyocoNatsWorker) -> None:
    await tab.open("/")
    await expect(tab.page.get_by_text("1 worker is online.")).to_be_visible()
    await tab.screenshot("home-fresh")
    await tab.is_accessible()
    await tab.gateway.ends(await tab.gateway.submit("noop"))
    await expect(tab.page.get_by_role("heading", name="Ended runs")).to_be_visible()
    await expect(tab.page.get_by_text("Nothing needs attention")).to_be_visible()
    await tab.page.get_by_role("link", name="Submit a run").click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/submit")


async def a_busy_day(tab: Tab, now: float) -> list[RunSnapshot]:
    """A day of runs, and workers, questions and dead letters that cause every warning."""
    inside = tab.gateway.inside
    runs = a_day(now)
    await write_many(inside.connection, runs)
    broken = WheelSyncState(
        enabled=True, last_result=WheelSyncResult.ERROR, error="no wheel fits this Python"
    )
    for record in (
        a_record("build-1", seen_at=now + 600, slots=8, slots_busy=2),
        a_record("build-2", seen_at=now + 600, slots=4, wheel_sync=broken),
        a_record("build-3", seen_at=now - 900),
        a_record("gpu-1", seen_at=now + 600, tags=["gpu"], paused=True),
    ):
        await put_record(inside.connection, record)
    await tab.gateway.submit("train_model", delay_sec=7200)
    sleeping = snapshot(status=RunStatus.WAITING, start_time=now, updated_at=now)
    await write_many(inside.connection, [sleeping])
    for tag in ("gpu", "edge", "edge"):
        await tab.gateway.submit("train_model", tag=tag)
    for number, message in enumerate(
        ("Release version 4.2 to production?", "Is the amount of 1,240 € right?")
    ):
        deadline = now + 1500 + number * 7200
        await inside.waits.store.create(
            a_wait(runs[-1].run_id, message, message=message, deadline_at=deadline)
        )
    for _ in range(6):
        letter = DeadLetter(timestamp=now, reason="execution_error", error="x", run_id=None, flow_name=None)
        await inside.dead_letters.publish(letter, tag="default")
    return runs


async def test_warnings_come_first_and_each_figure_links_to_its_runs(tab: Tab) -> None:
    runs = await a_busy_day(tab, time.time())
    await tab.open("/")
    page = tab.page
    await expect(warning(tab, "noWorker")).to_contain_text("2 runs with tag “edge” are waiting")
    await expect(warning(tab, "noWorker")).to_contain_text(
        re.compile(r"pyoco-worker --flows \./flows --nats-url nats://\S+ --tag edge")
    )
    await expect(warning(tab, "allHeld")).to_contain_text("gpu")
    await expect(warning(tab, "expiring")).to_contain_text("expires in 2")
    await expect(warning(tab, "disconnected")).to_contain_text("build-3")
    await expect(warning(tab, "wheels")).to_contain_text("no wheel fits this Python")
    await expect(warning(tab, "letters")).to_contain_text("6 dead letters")
    await tab.screenshots("home")
    await tab.set_language("en")
    await page.set_viewport_size({"width": 1280, "height": 1300})
    await tab.screenshot("home-whole")

    failed = sum(run.status is RunStatus.FAILED for run in runs)
    figures = page.get_by_role("list", name="Runs and workers at a glance")
    await expect(figures.get_by_role("link", name="Failed")).to_contain_text(str(failed))
    await expect(figures.get_by_role("link", name="Scheduled")).to_contain_text("1")
    sleeping = figures.get_by_role("link", name="Waiting", exact=False).filter(has_text="signal or event")
    await expect(sleeping).to_have_attribute("href", "#/runs?status=WAITING")
    await figures.get_by_role("link", name="Failed").click()
    await expect(page).to_have_url(f"{tab.url}/#/runs?status=FAILED&since=24h")
    await expect(page.get_by_role("button", name=f"Failed {failed}")).to_be_visible()


async def test_cards_name_their_period_and_queues_are_above_the_fold(tab: Tab) -> None:
    await a_busy_day(tab, time.time())
    page = tab.page
    await page.set_viewport_size({"width": 1440, "height": 900})
    await tab.open("/")
    figures = page.get_by_role("list", name="Runs and workers at a glance")
    await expect(figures).to_contain_text("Failed, last 24 h")
    await expect(figures).to_contain_text("Completed, last 24 h")
    queues = page.locator("section").filter(has=page.get_by_role("heading", name="Queues"))
    # Two that wait, that of the running ones, and the heading.
    await expect(queues.get_by_role("row")).to_have_count(4)
    await expect(page.locator("[data-warning]")).to_have_count(6)
    await expect(queues).to_be_in_viewport(ratio=1)
    await tab.screenshot("home-1440")
    await page.get_by_text("1 hour", exact=True).click()
    await expect(figures).to_contain_text("Failed, last hour")


async def test_failing_flows_are_shown_by_rate_and_count(tab: Tab) -> None:
    page, now = tab.page, time.time()
    runs = [
        *(ended(RunStatus.FAILED, at=now - 60, flow_name="busy") for _ in range(3)),
        *(ended(at=now - 90, flow_name="busy") for _ in range(9)),
        ended(RunStatus.FAILED, at=now - 60, flow_name="broken"),
    ]
    await write_many(tab.gateway.inside.connection, runs)
    await tab.open("/")
    card = page.locator("section").filter(has=page.get_by_role("heading", name="Failing flows"))
    first = card.get_by_role("listitem").first
    await expect(first).to_contain_text("busy25% 3 of 12 failed")
    await expect(first.get_by_role("img", name="How runs of busy ended over time")).to_be_visible()
    await card.get_by_text("Rate", exact=True).click()
    await expect(first).to_contain_text("broken100% 1 of 1 failed")
    await expect(page.get_by_text("No open questions", exact=True)).to_be_visible()
    await tab.is_accessible()
    await first.get_by_role("link", name="1 of 1 failed").click()
    await expect(page).to_have_url(f"{tab.url}/#/runs?status=FAILED&since=24h&flow=broken")
    await expect(page.locator("[data-run]")).to_have_count(1)


async def test_running_is_one_number_on_every_screen(
    tab: Tab, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    """Runs that wait for a person or sleep are not running, wherever one looks."""
    page, gateway = tab.page, tab.gateway
    asking = await gateway.submit("ask")
    sleeping = await gateway.submit("nap", params={"notes": str(tmp_path / "notes")})
    await gateway.reaches(asking, RunStatus.WAITING_HUMAN)
    await gateway.reaches(sleeping, RunStatus.WAITING)
    running = await gateway.submit("waiting", params={"path": str(tmp_path / "go on")})
    await gateway.reaches(running, RunStatus.RUNNING)
    await tab.open("/")
    figures = page.get_by_role("list", name="Runs and workers at a glance")
    await expect(figures.get_by_role("link", name="Running")).to_contain_text("1")
    await expect(figures.get_by_role("link", name="Workers")).to_contain_text("1 of 2 slots busy")
    queue = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="default"))
    await expect(queue.get_by_role("cell").nth(2).get_by_role("link")).to_have_text("1")
    await expect(page.get_by_role("columnheader", name="Running")).to_be_visible()
    await tab.open("/runs?status=RUNNING")
    await expect(page.locator("[data-run]")).to_have_count(1)
    await tab.open("/workers")
    await expect(page.get_by_text("1 of 2 slots busy")).to_be_visible()
    (tmp_path / "go on").touch()
    await gateway.ends(running)


async def test_a_bar_links_to_its_runs_and_keeps_the_focus_when_a_minute_passes(tab: Tab) -> None:
    page, now = tab.page, time.time()
    runs = a_day(now)
    await write_many(tab.gateway.inside.connection, runs)
    # Frozen until the test adds the next minute: all bars move with it.
    responses: list[dict[str, Any]] = []

    async def frozen_overview(route: Route) -> None:
        if not responses:
            responses.append(await (await route.fetch()).json())
        await route.fulfill(json=responses[-1])

    await page.route("**/overview?*window=1h*", frozen_overview)
    await tab.open("/?window=1h")
    bars = page.get_by_role("list", name="Ended runs over time").get_by_role("link")
    await bars.last.focus()
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("ArrowLeft")
    await expect(bars.nth(-3)).to_be_focused()
    label = await bars.nth(-3).get_attribute("aria-label") or ""
    its_time = page.get_by_text(label.rpartition(": ")[0], exact=True)
    await expect(its_time).to_be_visible()

    responses.append(a_minute_later(responses[-1]))
    await expect(bars.nth(-4)).to_be_focused()
    await expect(its_time).to_be_visible()
    await page.keyboard.press("ArrowLeft")
    await expect(bars.nth(-5)).to_be_focused()

    [latest] = [run for run in runs if run.updated_at == now - 60]
    at = latest.updated_at // 60 * 60
    await page.locator(f"ol a[href*='updated_after={at:.0f}&']").click()
    await page.unroute_all(behavior="wait")
    await expect(page.locator(f"[data-run='{latest.run_id}']")).to_be_visible()


async def test_an_outage_is_shown_with_the_last_figures(tab: Tab) -> None:
    await write_many(tab.gateway.inside.connection, [ended(at=time.time() - 5)])
    await tab.open("/")
    await expect(tab.page.get_by_role("heading", name="Ended runs")).to_be_visible()
    await tab.page.route("**/health", lambda route: route.abort())
    await tab.page.route("**/overview*", lambda route: route.abort())
    connection = tab.page.locator("nav [data-health]")
    await expect(connection).to_contain_text("Gateway not responding")
    await expect(tab.page.get_by_role("heading", name="Ended runs")).to_be_visible()
    await tab.page.unroute_all()
    await expect(connection).to_contain_text("Connected")


async def test_it_warns_that_nats_cannot_write_and_that_its_disk_is_almost_full(tab: Tab) -> None:
    inside = tab.gateway.inside
    # Its next round would find the real state.
    await inside.storage.close()
    inside.connection.writes.problem = WriteProblem(
        WriteCause.DISK_FULL,
        "its disk is full (0 bytes free)",
        time.time(),
        streams=(),
        subjects=("unused.",),
    )
    await tab.open("/")
    await expect(warning(tab, "storage")).to_contain_text("NATS cannot write, so no run can be accepted")
    await expect(warning(tab, "storage")).to_contain_text("its disk is full")
    await expect(warning(tab, "storage")).to_contain_text("Free disk space")
    await expect(tab.page.locator("nav").get_by_text("NATS cannot write", exact=True)).to_be_visible()
    inside.connection.writes.problem = None
    inside.storage.space = [FreeSpace(DISK, 4_000_000, 50_000_000_000)]
    await expect(warning(tab, "space")).to_contain_text(
        "The disk of NATS is almost full: 4.0 MB of 50.0 GB left"
    )
    await expect(warning(tab, "storage")).to_have_count(0)
