"""The list of runs: live updates, filters in the URL, bulk actions."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus, TaskStatus
from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import Tab
from tests.support.broker.stored_runs import ended, snapshot, write_many
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

FLOWS = ("daily_sales", "sync_customers", "train_model", "invoice_mail", "clean_up")


def some_runs(count: int) -> list[RunSnapshot]:
    """Most have completed, some failed or were cancelled, a few are running."""
    now = time.time()
    runs = []
    for number in range(count):
        at = now - 40 * number - 3
        over = {f"task{each}": TaskStatus.SUCCEEDED for each in range(1 + number % 6)}
        common: dict[str, Any] = {
            "flow_name": FLOWS[number % 5],
            "worker_id": f"worker-{number % 3 + 1}",
            "tasks": over,
            "tag": "gpu" if number % 7 == 0 else "default",
        }
        if number % 9 == 4:
            error = "ValueError: row 1,204 has no customer id"
            runs.append(ended(RunStatus.FAILED, at=at, error=error, reason="execution_error", **common))
        elif number % 11 == 2:
            runs.append(ended(RunStatus.CANCELLED, at=at, **common))
        elif number in (0, 3):
            tasks = {**over, "publish": TaskStatus.RUNNING, "notify": TaskStatus.PENDING}
            common["tasks"] = tasks
            runs.append(snapshot(status=RunStatus.RUNNING, start_time=now - 50, updated_at=at, **common))
        elif number == 6:
            runs.append(snapshot(status=RunStatus.WAITING_HUMAN, start_time=at, updated_at=at, **common))
        else:
            runs.append(ended(at=at, **common))
    return runs


async def fill(tab: Tab, count: int) -> list[RunSnapshot]:
    runs = some_runs(count)
    await write_many(tab.gateway.inside.connection, runs)
    return runs


def row(tab: Tab, run_id: str) -> Locator:
    return tab.page.locator(f"[data-run='{run_id}']")


async def test_a_run_appears_and_changes_without_a_refresh(
    tab: Tab, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    await tab.open("/runs")
    await expect(tab.page.get_by_text("No runs yet")).to_be_visible()
    await tab.screenshot("runs-empty")
    run_id = await tab.gateway.submit("waiting", params={"path": str(tmp_path / "go")})
    await expect(row(tab, run_id)).to_contain_text("Running")
    (tmp_path / "go").touch()
    await expect(row(tab, run_id)).to_contain_text("Completed")
    await row(tab, run_id).get_by_role("link").click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs/{run_id}")


async def test_the_filters_are_in_the_url(tab: Tab) -> None:
    await fill(tab, 60)
    await tab.open("/runs")
    await expect(tab.page.get_by_text("60 runs")).to_be_visible()
    await tab.screenshots("runs")
    await tab.set_language("en")

    await tab.search("flow:train_model customer")
    await tab.page.keyboard.press("Enter")
    await tab.page.get_by_role("button", name=re.compile("^Failed")).click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs?flow=train_model&q=customer&status=FAILED")
    rows = tab.page.locator("[data-run]")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("train_model")
    await tab.screenshot("runs-filtered")

    await tab.page.go_back()
    await tab.page.go_back()
    await expect(tab.page.get_by_text("60 runs")).to_be_visible()
    begin = int(time.time()) - 300
    await tab.open(f"/runs?updated_after={begin}&updated_before={begin + 240}")
    await expect(tab.page.get_by_text("6 runs")).to_be_visible()
    await tab.screenshot("runs-between")
    await tab.page.get_by_role("button", name=re.compile("Remove the filter Updated after")).click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs?updated_before={begin + 240}")
    await tab.page.get_by_role("button", name="Clear all").click()
    await expect(tab.page.get_by_text("60 runs")).to_be_visible()
    await tab.open("/runs?q=nowhere")
    await expect(tab.page.get_by_text("No run matches")).to_be_visible()
    await tab.page.get_by_role("button", name="Clear the filters").click()
    await expect(tab.page.get_by_text("60 runs")).to_be_visible()


async def test_runs_are_filtered_by_cause_and_linked_to_it(tab: Tab) -> None:
    now = time.time()
    nightly = Cause(kind=CauseKind.SCHEDULE, id="nightly", at=now - 60)
    hourly = Cause(kind=CauseKind.SCHEDULE, id="hourly", at=now - 60)
    stored = [
        ended(at=now, flow_name="etl", cause=nightly),
        ended(at=now, flow_name="report", cause=hourly),
        snapshot(status=RunStatus.WAITING, updated_at=now, start_time=now, flow_name="naps"),
    ]
    await write_many(tab.gateway.inside.connection, stored)
    later = await tab.gateway.submit("noop", delay_sec=7200)
    await tab.open("/runs")
    page = tab.page
    await page.get_by_role("button", name="Columns").click()
    await page.get_by_role("menuitemcheckbox", name="Cause").click()
    await page.keyboard.press("Escape")
    await expect(row(tab, later)).to_contain_text("Scheduled")
    await expect(row(tab, later)).to_contain_text(re.compile("Starts in [12]h"))
    await expect(row(tab, stored[2].run_id)).to_contain_text("Waiting")
    await tab.screenshots("runs-causes")
    await tab.set_language("en")
    await page.get_by_role("button", name="Scheduled 1").click()
    await expect(page.locator("[data-run]")).to_have_count(1)
    await page.get_by_role("button", name="Scheduled 1").click()

    await page.get_by_label("Cause").select_option("Schedule")
    await expect(page).to_have_url(f"{tab.url}/#/runs?cause=schedule")
    await expect(page.locator("[data-run]")).to_have_count(2)
    await tab.search("cause:schedule:nightly")
    await page.keyboard.press("Enter")
    await expect(page.locator("[data-run]")).to_have_count(1)
    await row(tab, stored[0].run_id).get_by_role("link", name="nightly").click()
    await expect(page).to_have_url(f"{tab.url}/#/schedules/nightly")


async def test_a_long_list_keeps_its_place_while_new_runs_arrive(tab: Tab) -> None:
    await fill(tab, 450)
    await tab.open("/runs")
    await expect(tab.page.get_by_text("450 runs")).to_be_visible()
    table = tab.page.get_by_role("region", name="Runs")

    async def is_at_the_last_run() -> bool:
        # Each time that the end is reached, more are loaded.
        await table.evaluate("table => table.scrollTo(0, table.scrollHeight)")
        return await tab.page.locator("[aria-rowindex='451']").count() == 1

    await eventually(is_at_the_last_run, describe="all runs are loaded")
    assert await tab.page.locator("[data-run]").count() < 80, "only visible rows are rendered"

    await table.evaluate("table => table.scrollTo(0, 12_000)")
    seen = tab.page.locator("[aria-rowindex='350']")
    read = await seen.get_attribute("data-run")
    run_id = await tab.gateway.submit("clean_up")
    # Back from a run: the same place, and the runs that have arrived since.
    await expect(tab.page.get_by_role("button", name="1 new run")).to_be_visible()
    await seen.get_by_role("link").click()
    await expect(tab.page).to_have_url(re.compile("/#/runs/.{36}$"))
    another = await tab.gateway.submit("clean_up")
    await tab.page.go_back()
    await expect(seen).to_be_visible()
    await expect(seen).to_have_attribute("data-run", read or "")
    await expect(table).to_have_js_property("scrollTop", 12_000)
    await tab.page.get_by_role("button", name="2 new runs").click()
    await expect(row(tab, another)).to_be_visible()
    await expect(row(tab, run_id)).to_be_visible()


async def test_keyboard_navigation_and_selection(tab: Tab, worker: PyocoNatsWorker) -> None:
    first, second = [await tab.gateway.submit("noop") for _ in range(2)]
    for run_id in (first, second):
        await tab.gateway.ends(run_id)
    await tab.open("/runs")
    await expect(row(tab, second)).to_be_visible()
    await tab.page.keyboard.press("?")
    await expect(tab.page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Next run")
    await tab.screenshot("keyboard-help")
    await tab.is_accessible()
    await tab.page.keyboard.press("Escape")
    await expect(tab.page.get_by_role("dialog")).to_have_count(0)
    for key in ("j", "x", "j", "x"):
        await tab.page.keyboard.press(key)
    await expect(tab.page.get_by_text("2 runs selected")).to_be_visible()
    await tab.page.get_by_role("button", name="Rerun 2", exact=True).click()
    await expect(tab.page.get_by_text("Rerunning 2 runs")).to_be_visible()
    await expect(tab.page.locator("[data-run]")).to_have_count(4)
    await tab.press_in_one_moment("g", "s")
    await expect(tab.page).to_have_url(f"{tab.url}/#/settings")


async def test_a_bulk_cancel_counts_first(tab: Tab) -> None:
    """Only what can be cancelled is counted, and it is named."""
    active = [await tab.gateway.submit("noop") for _ in range(3)]
    other = await tab.gateway.submit("chain")
    over = [ended(RunStatus.COMPLETED, at=time.time() - each, flow_name="noop") for each in range(20)]
    await write_many(tab.gateway.inside.connection, over)
    await tab.open("/runs?flow=noop")
    await expect(tab.page.get_by_text("23 runs")).to_be_visible()
    await tab.page.get_by_role("button", name="Bulk actions").click()
    await tab.page.get_by_role("menuitem", name="Cancel all matching…").click()
    dialog = tab.page.get_by_role("dialog", name="Cancel all matching runs")
    await expect(dialog).to_contain_text("3 matching runs")
    await expect(dialog).to_contain_text("noop ×3")
    await expect(dialog).to_contain_text("20 other runs have ended")
    for run_id in active:
        await expect(dialog.locator(f"[data-touched='{run_id}']")).to_contain_text("noop")
    await tab.screenshot("runs-bulk-cancel")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Cancel 3 runs").click()
    await expect(dialog).to_contain_text("3 done")
    await dialog.get_by_role("button", name="Close").last.click()
    await expect(tab.page.locator("[data-status=CANCELLED]")).to_have_count(3)
    assert (await tab.gateway.get(other))["status"] == "PENDING"

    # A list of ended runs has nothing to cancel.
    await tab.open("/runs?status=COMPLETED")
    await tab.page.get_by_role("button", name="Bulk actions").click()
    await tab.page.get_by_role("menuitem", name="Cancel all matching…").click()
    await expect(dialog).to_contain_text("None of the matching runs can be cancelled")
    await expect(dialog.get_by_role("button", name=re.compile("^Cancel "))).to_have_count(0)


async def test_a_bulk_rerun_keeps_the_answers_of_people(tab: Tab) -> None:
    origin = ended(RunStatus.FAILED, at=time.time(), flow_name="invoices")
    await write_many(tab.gateway.inside.connection, [origin])
    await tab.open("/runs?flow=invoices")
    await tab.page.get_by_role("button", name="Bulk actions").click()
    await tab.page.get_by_role("menuitem", name="Rerun all matching…").click()
    dialog = tab.page.get_by_role("dialog", name="Rerun all matching runs")
    await dialog.get_by_label("Keep the answers of people").check()
    await tab.screenshot("runs-bulk-rerun")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Rerun 1 run").click()
    await expect(dialog).to_contain_text("1 done")
    await dialog.get_by_role("button", name="Close").last.click()
    await expect(tab.page.locator("[data-status=PENDING]")).to_have_count(1)
    [again] = (await tab.gateway.http.get("/runs", params={"origin": origin.run_id})).json()
    assert (await tab.gateway.get(again["run_id"]))["keep_answers"] is True


async def test_selected_runs_are_cancelled(tab: Tab) -> None:
    first, second, other = [await tab.gateway.submit("noop") for _ in range(3)]
    over = ended(RunStatus.COMPLETED, at=time.time())
    await write_many(tab.gateway.inside.connection, [over])
    await tab.open("/runs")
    for run_id in (first, second, over.run_id):
        await row(tab, run_id).get_by_role("checkbox").check()
    await tab.page.get_by_role("button", name="Cancel 2", exact=True).click()
    dialog = tab.page.get_by_role("dialog", name="Cancel 2 selected runs?")
    await expect(dialog).to_contain_text("1 other run has ended")
    await dialog.get_by_label("Reason").fill("the wrong day")
    await tab.screenshot("runs-cancel-selected")
    await dialog.get_by_role("button", name="Cancel 2 runs").click()
    for run_id in (first, second):
        await expect(row(tab, run_id)).to_contain_text("Cancelled")
        assert (await tab.gateway.get(run_id))["cancel_reason"] == "the wrong day"
    assert (await tab.gateway.get(other))["status"] == "PENDING"
    assert (await tab.gateway.get(over.run_id))["status"] == "COMPLETED"
