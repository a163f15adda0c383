"""The list of schedules, and the screen of one: calendar, decisions, actions."""

import re
import time
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from pyoco_server.broker.stores.schedules.schedule_store import ScheduleStore
from pyoco_server.records.schedules.schedule_models import (
    DecisionOutcome,
    ScheduleDecision,
    ScheduleSpec,
    SkipReason,
)
from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import Tab
from tests.dashboard.module_fixtures import module_gateway, module_worker
from tests.support.samples.schedules import a_schedule

pytestmark = pytest.mark.asyncio(loop_scope="session")
gateway = module_gateway()
worker = module_worker()

NIGHTLY = {"cron": ["0 2 * * *"], "timezone": "Asia/Tokyo"}
HOURLY = {"cron": ["@hourly"]}
DAY = 86_400.0


async def create(tab: Tab, schedule_id: str, spec: dict[str, Any] = NIGHTLY, **fields: Any) -> None:
    body = {"schedule_id": schedule_id, "flow_name": "noop", "spec": spec, **fields}
    response = await tab.gateway.http.post("/schedules", json=body)
    assert response.status_code == 201, response.text


async def stored(tab: Tab, schedule_id: str) -> dict[str, Any]:
    response = await tab.gateway.http.get(f"/schedules/{schedule_id}")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def row(tab: Tab, schedule_id: str) -> Locator:
    return tab.page.locator(f"[data-schedule='{schedule_id}']")


def part(tab: Tab, name: str) -> Locator:
    return tab.page.get_by_role("region", name=name, exact=True)


async def choose(tab: Tab, action: str) -> None:
    await tab.page.get_by_role("button", name="More actions").click()
    await tab.page.get_by_role("menuitem", name=action).click()


async def test_the_list_shows_when_and_pauses_and_triggers_in_place(tab: Tab) -> None:
    await create(tab, "list-nightly", flow_name="daily_sales")
    await create(tab, "list-minutes", {"every_sec": 900}, tag="gpu")
    await create(tab, "list-launch", {"at": ["2031-01-01T00:00:00Z"]}, paused=True, note="after the move")
    await tab.open("/schedules?q=list-")
    page = tab.page
    await expect(row(tab, "list-nightly")).to_contain_text("Every day at 02:00")
    await expect(row(tab, "list-nightly")).to_contain_text("Asia/Tokyo")
    await expect(row(tab, "list-nightly").get_by_text("Pause", exact=True)).to_be_visible()
    await expect(row(tab, "list-launch").get_by_text("Resume", exact=True)).to_be_visible()
    await expect(row(tab, "list-minutes")).to_contain_text("Every 15m")
    await expect(row(tab, "list-launch")).to_contain_text("Paused")
    await expect(row(tab, "list-launch")).to_contain_text("after the move")
    await expect(page.get_by_text("3 schedules")).to_be_visible()
    await tab.screenshots("schedules")
    await tab.set_language("en")

    await row(tab, "list-nightly").get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog", name="Pause list-nightly?")
    await dialog.get_by_label("Note").fill("waits for OPS-12")
    await tab.screenshot("schedules-pause")
    await dialog.get_by_role("button", name="Pause", exact=True).click()
    await expect(row(tab, "list-nightly")).to_contain_text("waits for OPS-12")
    assert (await stored(tab, "list-nightly"))["paused"] is True
    await page.get_by_label("State").select_option("Paused")
    await expect(page).to_have_url(f"{tab.url}/#/schedules?q=list-&state=paused")
    await expect(page.locator("[data-schedule]")).to_have_count(2)
    await page.get_by_label("State").select_option("Active and paused")
    await row(tab, "list-nightly").get_by_role("button", name="Resume").click()
    await expect(row(tab, "list-nightly").locator("[data-schedule-state=active]")).to_be_visible()

    await row(tab, "list-nightly").get_by_role("button", name="Trigger now").click()
    await page.get_by_role("link", name="Show the run").click()
    await expect(page).to_have_url(re.compile(r"/#/runs/[0-9a-f-]{36}$"))
    cause = page.locator("dl").filter(has_text="Cause")
    await cause.get_by_role("link", name="list-nightly").click()
    await expect(page).to_have_url(f"{tab.url}/#/schedules/list-nightly")


async def test_filters_narrow_the_list(tab: Tab) -> None:
    await create(tab, "find-one", flow_name="alpha")
    await create(tab, "find-two", flow_name="beta")
    await tab.open("/schedules")
    page = tab.page
    await expect(row(tab, "find-two")).to_be_visible()
    await tab.search("flow:alpha find")
    await page.keyboard.press("Enter")
    await expect(page.locator("[data-schedule]")).to_have_count(1)
    await page.get_by_role("button", name="Remove the filter Flow alpha").click()
    await expect(row(tab, "find-two")).to_be_visible()
    await tab.open("/schedules?q=nowhere-at-all")
    await expect(page.get_by_text("No schedule matches")).to_be_visible()
    await page.get_by_role("button", name="Clear the filters").click()
    await expect(row(tab, "find-one")).to_be_visible()
    await page.keyboard.press("j")
    await expect(page.locator("[data-row]").first).to_be_focused()


async def test_a_schedule_shows_what_became_of_each_occurrence(tab: Tab, worker: PyocoNatsWorker) -> None:
    now = time.time()
    midnight = now - now % DAY
    skipped = ScheduleDecision(
        at=now,
        outcome=DecisionOutcome.SKIPPED,
        scheduled_for=midnight - DAY + 3600,
        reason=SkipReason.OVERLAP,
        detail="run 1234 is still open",
    )
    missed = ScheduleDecision(
        at=now,
        outcome=DecisionOutcome.MISSED,
        scheduled_for=midnight - DAY + 7200,
        until=midnight - DAY + 4 * 7200,
        count=4,
        reason=SkipReason.CATCHUP_WINDOW,
    )
    schedule = a_schedule(
        schedule_id="seen",
        flow_name="noop",
        spec=ScheduleSpec(cron=["0 1 * * *"]),
        cursor=now,
        decisions=[skipped, missed],
        params={"region": "emea"},
    )
    await tab.gateway.inside.schedules.store.create(schedule)
    page = tab.page
    await tab.open("/schedules/seen")
    await expect(page.get_by_role("heading", name="seen")).to_be_visible()
    await page.get_by_role("button", name="Trigger now…").click()
    dialog = page.get_by_role("dialog", name="Trigger seen now?")
    await dialog.get_by_label("Params").fill('{"day": }')
    await expect(dialog).to_contain_text("Invalid JSON at line 1, column 9.")
    await expect(dialog.get_by_role("button", name="Trigger now")).to_be_disabled()
    await dialog.get_by_label("Params").fill('{"day": 9007199254740993}')
    await tab.screenshot("schedule-trigger")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Trigger now").click()

    decisions = part(tab, "Recent decisions")
    await expect(decisions.locator("[data-status=COMPLETED]")).to_be_visible()
    await expect(decisions).to_contain_text("An earlier run was still open.")
    await expect(decisions).to_contain_text("4 occurrences")
    [run] = (await tab.gateway.http.get("/runs", params={"cause": "schedule:seen"})).json()
    whole = await tab.gateway.get(run["run_id"])
    assert whole["params"] == {"region": "emea", "day": 9007199254740993}
    await expect(part(tab, "Runs").locator(f"[data-run='{run['run_id']}']")).to_be_visible()

    calendar = part(tab, "Calendar")
    today = calendar.locator("[aria-current=date]")
    await expect(today).to_contain_text("1 Completed")
    await today.press("ArrowLeft")
    yesterday = calendar.locator("[aria-pressed=true]")
    await expect(yesterday).to_contain_text("not started")
    await expect(yesterday).to_be_focused()
    await expect(calendar).to_contain_text("No gateway could start it within the catch-up window.")
    await tab.screenshots("schedule")
    await tab.set_language("en")
    await calendar.get_by_role("button", name="Next month").click()
    await expect(calendar.get_by_role("button", name=re.compile(": 1 coming")).first).to_be_attached()
    await part(tab, "Runs").get_by_role("link", name="All runs").click()
    await expect(page).to_have_url(f"{tab.url}/#/runs?cause=schedule%3Aseen")
    await expect(page.locator("[data-run]")).to_have_count(1)


async def test_a_skip_is_not_shown_as_the_run_that_was_open(tab: Tab, worker: PyocoNatsWorker) -> None:
    """A skip names that run; the calendar and the decisions show the skip, with a link to it."""
    run_id = await tab.gateway.submit("noop")
    now = time.time()
    noon = now - now % DAY - DAY / 2
    started = ScheduleDecision(at=now, outcome=DecisionOutcome.STARTED, scheduled_for=noon, run_id=run_id)
    skipped = ScheduleDecision(
        at=now,
        outcome=DecisionOutcome.SKIPPED,
        scheduled_for=noon + 10,
        until=noon + 30,
        count=3,
        reason=SkipReason.OVERLAP,
        run_id=run_id,
    )
    spec = ScheduleSpec(cron=["0 12 * * *"])
    schedule = a_schedule(
        schedule_id="overlapping", flow_name="noop", spec=spec, cursor=now, decisions=[started, skipped]
    )
    await tab.gateway.inside.schedules.store.create(schedule)
    refused: list[str] = []
    tab.page.on("response", lambda answer: refused.append(answer.url) if answer.status >= 400 else None)
    await tab.open("/schedules/overlapping")
    newest = part(tab, "Recent decisions").get_by_role("listitem").first
    await expect(newest).to_contain_text("Skipped")
    await expect(newest).to_contain_text("12:00:10 UTC to 12:00:30")
    await expect(newest).to_contain_text("An earlier run was still open.")
    await expect(newest.get_by_role("link")).to_have_attribute("href", f"#/runs/{run_id}")
    calendar = part(tab, "Calendar")
    await calendar.locator("[aria-current=date]").press("ArrowLeft")
    yesterday = calendar.locator("[aria-pressed=true]")
    await expect(yesterday).to_contain_text("3 not started")
    # With seconds everywhere, since some have them.
    await expect(calendar.get_by_role("listitem").first).to_contain_text("12:00:00")
    await expect(part(tab, "Runs")).to_contain_text("No runs yet.")
    assert refused == []


async def test_a_schedule_without_remaining_runs_has_ended(tab: Tab) -> None:
    await create(tab, "over", HOURLY, remaining_runs=0)
    await create(tab, "twice", {"cron": ["0 0 1 * *"]}, remaining_runs=2)
    await tab.open("/schedules/over")
    await expect(tab.page.locator("main [data-schedule-state=ended]")).to_be_visible()
    await expect(tab.page.locator("dl").filter(has_text="Next run")).to_contain_text("no further run")
    days = part(tab, "Calendar").locator("[data-day]")
    await expect(days.first).to_be_visible()
    await expect(days.filter(has_text="coming")).to_have_count(0)
    await tab.open("/schedules/twice")
    calendar = part(tab, "Calendar")
    for _ in range(2):
        await calendar.get_by_role("button", name="Next month").click()
        await expect(calendar.locator("[aria-pressed=true]")).to_contain_text("1 coming")
    await calendar.get_by_role("button", name="Next month").click()
    await expect(calendar.locator("[aria-pressed=true]")).to_contain_text("no occurrences")


async def test_a_long_day_is_shown_from_now_on(tab: Tab) -> None:
    now = time.time()
    # Where it is noon now, so that the next 1,000 occurrences are all of today.
    zone = f"Etc/GMT{time.gmtime(now).tm_hour - 12:+d}"
    spec = ScheduleSpec(every_sec=20, timezone=zone)
    schedule = a_schedule(schedule_id="often", spec=spec, cursor=now + DAY, paused=True, tag="gpu-farm")
    await tab.gateway.inside.schedules.store.create(schedule)
    await tab.open("/schedules/often")
    calendar = part(tab, "Calendar")
    await expect(calendar.get_by_text("Only the next 1,000 occurrences are shown.")).to_be_visible()
    await expect(calendar.locator("[data-day]").filter(has_text="+ coming")).to_have_count(1)
    await expect(calendar.get_by_text("more on this day.")).to_be_visible()
    await expect(tab.page.get_by_text("No worker serves the tag gpu-farm right now")).to_be_visible()
    await tab.screenshots("schedule-often")
    await tab.open("/schedules?q=often", lang="en")
    await expect(row(tab, "often")).to_contain_text("no worker for the tag gpu-farm")


async def test_a_backfill_counts_before_it_starts_runs(tab: Tab, worker: PyocoNatsWorker) -> None:
    await create(tab, "fill", HOURLY)
    await tab.open("/schedules/fill")
    page = tab.page
    await choose(tab, "Backfill…")
    dialog = page.get_by_role("dialog", name="Backfill fill")
    await expect(dialog).to_contain_text("24 runs will be started.")
    await dialog.get_by_label("To", exact=True).fill("2020-01-01T00:00")
    await expect(dialog.get_by_role("alert")).to_be_visible()
    await expect(dialog.get_by_role("button", name="Start")).to_be_disabled()
    await dialog.get_by_label("From", exact=True).fill("2026-11-10T03:30")
    await dialog.get_by_label("To", exact=True).fill("2026-11-10T06:00")
    await expect(dialog).to_contain_text("2 runs will be started.")
    await tab.screenshot("schedule-backfill")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Start 2 runs").click()
    await expect(page.get_by_text("2 runs are being started")).to_be_visible()
    await expect(part(tab, "Runs").locator("[data-status=COMPLETED]")).to_have_count(2)
    await expect(part(tab, "Recent decisions")).to_contain_text("backfill")


async def test_enter_submits_a_dialog_with_several_inputs(tab: Tab) -> None:
    await create(tab, "typed", HOURLY)
    await tab.open("/schedules/typed")
    await choose(tab, "Backfill…")
    dialog = tab.page.get_by_role("dialog", name="Backfill typed")
    await dialog.get_by_label("From", exact=True).fill("2026-11-10T03:30")
    until = dialog.get_by_label("To", exact=True)
    await until.fill("2026-11-10T06:00")
    await expect(dialog.get_by_role("button", name="Start 2 runs")).to_be_enabled()
    await until.press("Enter")
    await expect(tab.page.get_by_text("2 runs are being started")).to_be_visible()


async def test_a_schedule_is_deleted_after_a_confirmation(tab: Tab) -> None:
    await create(tab, "doomed")
    await tab.open("/schedules/doomed")
    page = tab.page
    await choose(tab, "Delete…")
    await page.get_by_role("button", name="Keep it").click()
    await choose(tab, "Delete…")
    dialog = page.get_by_role("dialog", name="Delete doomed?")
    await tab.screenshot("schedule-delete")
    await dialog.get_by_role("button", name="Delete", exact=True).click()
    await expect(page).to_have_url(f"{tab.url}/#/schedules")
    await expect(row(tab, "doomed")).to_have_count(0)
    await tab.open("/schedules/doomed")
    await expect(page.get_by_text("Schedule not found")).to_be_visible()
    await tab.is_accessible()


async def test_a_backfill_in_progress_is_cancelled(tab: Tab) -> None:
    # No worker has this tag: its first run stays open.
    await create(tab, "mistaken", HOURLY, tag="unserved")
    body = {"from": "2026-01-01", "to": "2026-01-21T20:00"}
    begun = (await tab.gateway.http.post("/schedules/mistaken/backfill", json=body)).json()
    await tab.open("/schedules/mistaken")
    page = tab.page
    listed = page.locator(f"[data-backfill='{begun['backfill_id']}']")
    await expect(listed).to_contain_text("1 started, 499 remaining")
    await tab.screenshots("schedule-backfills")
    await tab.set_language("en")
    await listed.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog", name="Cancel this backfill?")
    await expect(dialog).to_contain_text("499 occurrences that have not started yet will be skipped.")
    await expect(dialog).to_contain_text("1 run that it has started stays")
    await tab.is_accessible()
    await tab.screenshot("schedule-cancel-backfill")
    await dialog.get_by_role("button", name="Cancel the backfill").click()
    await expect(listed).to_have_count(0)
    await expect(part(tab, "Recent decisions")).to_contain_text("The backfill was cancelled.")
    assert (await stored(tab, "mistaken"))["backfills"] == []


async def test_a_problem_is_shown_in_the_list_and_on_the_page(tab: Tab) -> None:
    # The search for its next time takes too long.
    spec = ScheduleSpec(every_sec=60, exclude=["0-29 * * * *", "30-59 * * * *"])
    record = a_schedule("stuck-one", spec=spec, cursor=time.time())
    await ScheduleStore(tab.gateway.inside.connection).create(record)
    await tab.open("/schedules?q=stuck-")
    await expect(row(tab, "stuck-one")).to_contain_text("no occurrence is found until")
    await expect(row(tab, "stuck-one").locator("[data-schedule-state=active]")).to_be_visible()
    await tab.screenshots("schedules-problem")
    await tab.open("/schedules/stuck-one", lang="en")
    await expect(tab.page.get_by_text("no occurrence is found until")).to_be_visible()
    await tab.screenshots("schedule-problem")
