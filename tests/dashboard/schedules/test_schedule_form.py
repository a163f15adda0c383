"""The form of a schedule: live preview, errors at their fields, changes of somebody else."""

import re
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from tests.dashboard.browser import Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def stored(tab: Tab, schedule_id: str) -> dict[str, Any]:
    response = await tab.gateway.http.get(f"/schedules/{schedule_id}")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def preview(tab: Tab) -> Locator:
    return tab.page.get_by_role("region", name="Next times")


async def test_a_schedule_is_created_with_a_preview_of_its_times(tab: Tab) -> None:
    await tab.open("/schedules")
    page = tab.page
    await expect(page.get_by_text("No schedules yet")).to_be_visible()
    await expect(page.get_by_text(f"pyoco-client --server {tab.url} schedules create")).to_be_visible()
    await tab.screenshots("schedules-empty")
    await tab.set_language("en")
    await page.get_by_role("link", name="New schedule").first.click()
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_text("An id is required.")).to_be_visible()
    await expect(page.get_by_text("A name is required.")).to_be_visible()
    # The button is far below.
    await expect(page.get_by_label("Schedule id")).to_be_focused()

    await page.get_by_label("Schedule id").fill("a.b")
    await page.get_by_label("Flow", exact=True).fill("daily_sales")
    await page.get_by_label("Time zone").fill("Asia/Tokyo")
    await expect(preview(tab).get_by_role("row")).to_have_count(9)
    await expect(preview(tab).get_by_role("cell").first).to_contain_text(", 02:00")
    await expect(preview(tab)).to_contain_text("Your time (UTC)")
    await expect(preview(tab).get_by_role("cell").nth(1)).to_contain_text(", 17:00")
    cron = page.get_by_label("Cron expressions")
    await cron.fill("61 2 * * *")
    await expect(cron).to_have_attribute("aria-invalid", "true")
    await expect(page.get_by_role("alert")).to_contain_text("61 2 * * *")
    await expect(preview(tab)).to_contain_text("Correct the marked fields")
    await tab.screenshots("schedule-form-wrong")
    # The input survives a reload.
    await tab.set_language("en")
    await tab.page.reload()
    await expect(cron).to_have_value("61 2 * * *")
    await cron.fill("0 2 * * 1-5")
    await expect(preview(tab)).to_contain_text("Weekdays at 02:00")
    await expect(preview(tab).get_by_role("row")).to_have_count(9)

    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_label("Schedule id")).to_have_attribute("aria-invalid", "true")
    assert (await tab.gateway.http.get("/schedules")).json()["items"] == []
    await page.get_by_label("Schedule id").fill("nightly")
    await page.get_by_label("Labels").fill("sales, daily")
    await page.get_by_label("Skip").fill("2026-12-25")
    await page.get_by_label("Jitter (seconds)").fill("30")
    await page.get_by_label("If a run is still open").select_option("Buffer one run")
    await page.get_by_label("Catch-up window (seconds)").fill("600")
    await page.get_by_label("Remaining runs").fill("5")
    await page.get_by_label("Pause the schedule when a run fails").check()
    await tab.screenshots("schedule-form")
    await tab.set_language("en")
    await tab.page.reload()
    await page.get_by_label("Remaining runs").press("ControlOrMeta+Enter")
    await expect(page).to_have_url(f"{tab.url}/#/schedules/nightly")
    await expect(page.get_by_text("Weekdays at 02:00")).to_be_visible()
    saved = await stored(tab, "nightly")
    spec = {"cron": ["0 2 * * 1-5"], "timezone": "Asia/Tokyo", "jitter_sec": 30, "exclude": ["2026-12-25"]}
    assert spec.items() <= saved["spec"].items()
    assert (saved["flow_name"], saved["tags"], saved["overlap"]) == (
        "daily_sales",
        ["sales", "daily"],
        "buffer_one",
    )
    assert (saved["catchup_window_sec"], saved["remaining_runs"], saved["pause_on_failure"]) == (600, 5, True)


async def test_an_id_that_is_taken_is_said_at_its_field(tab: Tab) -> None:
    body = {"schedule_id": "taken", "flow_name": "etl", "spec": {"cron": ["@daily"]}}
    assert (await tab.gateway.http.post("/schedules", json=body)).status_code == 201
    await tab.open("/new-schedule")
    page = tab.page
    await page.get_by_label("Schedule id").fill("taken")
    await page.get_by_label("Flow", exact=True).fill("etl")
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_label("Schedule id")).to_have_attribute("aria-invalid", "true")
    await page.get_by_label("Schedule id").fill("free")
    await page.get_by_role("button", name="Create").click()
    await expect(page).to_have_url(f"{tab.url}/#/schedules/free")
    assert (await stored(tab, "free"))["tag"] == "default"


async def test_every_error_is_at_its_field_at_once(tab: Tab) -> None:
    await tab.open("/new-schedule")
    page = tab.page
    await page.get_by_label("Schedule id").fill("many wrongs")
    await page.get_by_label("Flow", exact=True).fill("etl")
    await page.get_by_label("Cron expressions").fill("0 0 31 2 *\n61 * * * *")
    await page.get_by_label("Time limit (seconds)").fill("-1")
    await page.get_by_label("Catch-up window (seconds)").fill("soon")
    await page.get_by_label("Remaining runs").fill("1.5")
    await page.get_by_role("button", name="Create").click()
    for label in ("Time limit (seconds)", "Catch-up window (seconds)", "Remaining runs"):
        await expect(page.get_by_label(label)).to_have_attribute("aria-invalid", "true")
    wrong = page.get_by_role("alert").filter(has_text="61 * * * *")
    await expect(wrong).to_contain_text("0 0 31 2 *")
    first, second = (await wrong.inner_text()).splitlines()
    assert "0 0 31 2 *" in first
    assert "61 * * * *" in second
    await expect(preview(tab)).not_to_contain_text("March")
    for label in ("Time limit (seconds)", "Catch-up window (seconds)", "Remaining runs"):
        await page.get_by_label(label).fill("")
    await page.get_by_label("Cron expressions").fill("0 2 * * *")
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_label("Schedule id")).to_have_attribute("aria-invalid", "true")
    await expect(page.get_by_label("Schedule id")).to_be_focused()


async def test_an_interval_and_moments_are_combined(tab: Tab) -> None:
    await tab.open("/new-schedule")
    page = tab.page
    await page.get_by_label("Cron expressions").fill("")
    await page.get_by_text("Interval", exact=True).click()
    await page.get_by_label("Every", exact=True).fill("2")
    await page.get_by_label("Unit").select_option("hours")
    await expect(preview(tab)).to_contain_text("Every 2h")
    await page.get_by_text("Fixed times", exact=True).click()
    await page.get_by_label("Fixed times").last.fill("2031-12-24T18:00\n2031-12-31T23:59")
    await expect(page.get_by_text("The times of all filled-in fields are combined.")).to_be_visible()
    await expect(preview(tab)).to_contain_text("Every 2h; 2 fixed times, from 2031-12-24T18:00")
    await page.get_by_label("Start", exact=True).fill("2031-01-01T00:00")
    await page.get_by_label("End", exact=True).fill("2030-01-01T00:00")
    await expect(page.get_by_label("End", exact=True)).to_have_attribute("aria-invalid", "true")


async def test_changes_of_somebody_else_are_kept_beside_the_own_ones(tab: Tab) -> None:
    body = {
        "schedule_id": "shared",
        "flow_name": "etl",
        "params": {"id": 9007199254740993},
        "spec": {"cron": ["0 2 * * *"], "timezone": "Europe/Berlin", "start_at": "2031-06-01T02:30"},
    }
    assert (await tab.gateway.http.post("/schedules", json=body)).status_code == 201
    before = await stored(tab, "shared")
    await tab.open("/schedules/shared")
    page = tab.page
    await page.get_by_role("link", name="Edit").click()
    await expect(page.get_by_label("Schedule id")).to_be_disabled()
    await expect(page.get_by_label("Start", exact=True)).to_have_value("2031-06-01T02:30")
    await page.get_by_label("Cron expressions").fill("0 3 * * *")
    theirs = {"overlap": "allow_all", "remaining_runs": 3}
    assert (await tab.gateway.http.patch("/schedules/shared", json=theirs)).status_code == 200
    await page.get_by_role("button", name="Save").click()
    notice = page.get_by_role("alert").filter(has_text="changed in the meantime")
    await expect(notice).to_be_visible()
    await tab.screenshot("schedule-form-stale")
    await tab.is_accessible()
    assert (await stored(tab, "shared"))["spec"] == before["spec"]
    await notice.get_by_role("button", name="Load and keep my input").click()
    await expect(page.get_by_text("Your input was kept")).to_be_visible()
    await expect(page.get_by_label("Cron expressions")).to_have_value("0 3 * * *")
    await expect(page.get_by_label("If a run is still open")).to_have_value("allow_all")
    await page.get_by_role("button", name="Save").click()
    await expect(page).to_have_url(re.compile("/#/schedules/shared$"))
    after = await stored(tab, "shared")
    assert after["spec"] == {**before["spec"], "cron": ["0 3 * * *"]}
    assert (after["overlap"], after["remaining_runs"]) == ("allow_all", 3)
    assert after["params"] == {"id": 9007199254740993}
