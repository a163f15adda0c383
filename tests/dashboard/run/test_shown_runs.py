"""What the screen of a run shows of runs in different states, which nothing changes."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from pyoco_server.records.runs.run_models import DeliveryId, EarlierAttempt, RunStatus, TaskStatus
from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import NARROW, WIDE, Tab
from tests.dashboard.module_fixtures import module_gateway, module_worker
from tests.dashboard.run.run_page import details, part, status, task_in
from tests.support.broker.stored_runs import ended, snapshot, write_many
from tests.support.broker.worker_records import a_record, put_record

pytestmark = pytest.mark.asyncio(loop_scope="session")
gateway = module_gateway()
worker = module_worker()


@pytest.fixture
def tab(shared_tab: Tab) -> Tab:
    return shared_tab


async def test_a_click_selects_the_task_everywhere(tab: Tab, worker: PyocoNatsWorker) -> None:
    run_id = await tab.gateway.submit("sales", params={"flaky": True})
    await tab.gateway.ends(run_id)
    await tab.open(f"/runs/{run_id}")
    await task_in(tab, "Flow", "extract").click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs/{run_id}?task=extract")
    await expect(task_in(tab, "Timeline", "extract")).to_have_attribute("aria-pressed", "true")
    await expect(details(tab)).to_contain_text("2026-11-14")
    await expect(part(tab, "Log")).to_contain_text("4 lines")
    await expect(part(tab, "Log")).not_to_contain_text("dropped 12 duplicates")
    await tab.screenshots("run-task")
    await tab.set_language("en")
    await tab.page.reload()

    await part(tab, "Log").get_by_text("All tasks").click()
    await part(tab, "Log").get_by_role("button", name="clean").click()
    await expect(task_in(tab, "Flow", "clean")).to_have_attribute("aria-pressed", "true")
    await task_in(tab, "Timeline", "rates").click()
    await expect(task_in(tab, "Flow", "rates")).to_have_attribute("aria-pressed", "true")
    await expect(details(tab)).to_contain_text("3 times")

    await task_in(tab, "Flow", "rates").press("ArrowRight")
    await expect(tab.page).to_have_url(re.compile("task=join"))
    await expect(task_in(tab, "Flow", "join")).to_be_focused()
    await tab.page.keyboard.press("j")
    await expect(tab.page).to_have_url(re.compile("task=report"))
    await tab.page.keyboard.press("Escape")
    await expect(tab.page).not_to_have_url(re.compile("task="))


async def test_a_loop_is_one_task_with_its_count(tab: Tab, worker: PyocoNatsWorker) -> None:
    run_id = await tab.gateway.submit("batches")
    await tab.gateway.ends(run_id)
    await tab.open(f"/runs/{run_id}")
    await expect(part(tab, "Flow").locator("[data-task]")).to_have_count(3)
    await expect(task_in(tab, "Flow", "batch")).to_contain_text("4")


async def test_a_number_that_json_does_not_have_is_named(tab: Tab, worker: PyocoNatsWorker) -> None:
    run_id = await tab.gateway.submit("measuring")
    await tab.gateway.ends(run_id)
    await tab.open(f"/runs/{run_id}")
    await task_in(tab, "Flow", "measure").click()
    await expect(details(tab)).to_contain_text("they were replaced: output.mean: NaN")
    await tab.screenshot("run-not-json")


async def test_parallel_tasks_are_tiles(tab: Tab, worker: PyocoNatsWorker) -> None:
    run_id = await tab.gateway.submit("beside")
    await tab.gateway.ends(run_id)
    await tab.open(f"/runs/{run_id}")
    tiles = part(tab, "Flow").get_by_role("listbox")
    await expect(tiles.get_by_role("option")).to_have_count(30)
    await tiles.press("ArrowRight")
    await tiles.press("ArrowRight")
    await expect(tiles.get_by_role("option", selected=True)).to_have_count(1)
    await expect(details(tab)).to_contain_text("Rerun from here")
    await tab.is_accessible()


async def test_an_open_question_is_linked(tab: Tab, worker: PyocoNatsWorker, tmp_path: Path) -> None:
    run_id = await tab.gateway.submit("approval", params={"notes": str(tmp_path / "notes")})
    await tab.open(f"/runs/{run_id}")
    await expect(status(tab)).to_have_text("Needs answer")
    await expect(task_in(tab, "Flow", "approve")).to_have_attribute("data-state", "WAITING_HUMAN")
    await tab.page.get_by_role("tab", name="Events").click()
    await expect(details(tab)).to_contain_text("Is the amount right?")
    await tab.screenshot("run-waiting")
    await tab.is_accessible()
    run = await tab.gateway.get(run_id)
    link = tab.page.get_by_role("link", name="Answer")
    await expect(link).to_have_attribute("href", f"#/waits/{run['open_waits'][0]['wait_id']}")


async def test_a_thousand_tasks_stay_usable(tab: Tab, worker: PyocoNatsWorker) -> None:
    run_id = await tab.gateway.submit("thousand")
    await tab.gateway.ends(run_id)
    await tab.open(f"/runs/{run_id}")
    await expect(part(tab, "Flow").get_by_role("option")).to_have_count(1000)
    await expect(part(tab, "Timeline").locator("[data-task]").first).to_be_visible()
    assert await part(tab, "Timeline").locator("[data-task]").count() < 60
    for name in ("step_0400", "step_0700", "step_0999"):
        await tab.page.locator(f"[role=option][data-task={name}]").click()
    await expect(task_in(tab, "Timeline", "step_0999")).to_be_visible()
    await expect(tab.page).to_have_url(re.compile("task=step_0999"))
    await tab.screenshot("run-thousand")
    await tab.resize(NARROW)
    await tab.set_theme("dark")
    await tab.screenshot("run-thousand-dark-390")
    await tab.resize(WIDE)


async def test_an_unknown_run(tab: Tab) -> None:
    await tab.open("/runs/00000000-0000-4000-8000-000000000000")
    await expect(tab.page.get_by_text("Run not found")).to_be_visible()
    await tab.screenshot("run-missing")
    await tab.is_accessible()


async def test_the_history_keeps_the_attempts_of_workers_that_died(tab: Tab) -> None:
    now = time.time()
    earlier = EarlierAttempt(
        number=1, worker_id="first-worker", started_at=now - 100, last_heartbeat_at=now - 60, lost_at=now - 50
    )
    run = ended(
        at=now,
        submitted_at=now - 101,
        start_time=now - 100,
        worker_id="second-worker",
        attempt=2,
        attempt_started_at=now - 40,
        earlier_attempts=[earlier],
        tasks={"load": TaskStatus.SUCCEEDED},
    )
    await write_many(tab.gateway.inside.connection, [run])
    await tab.open(f"/runs/{run.run_id}?panel=events")
    events = details(tab).get_by_role("listitem")
    await expect(events.filter(has_text=re.compile("^Started"))).to_contain_text("first-worker")
    lost = events.filter(has_text="Worker lost")
    await expect(lost).to_contain_text("first-worker")
    restarted = events.filter(has_text="Restarted, attempt 2")
    await expect(restarted).to_contain_text("second-worker")
    for event in (lost, restarted):
        await expect(event.locator("time")).to_be_visible()
    timeline = part(tab, "Timeline")
    await expect(timeline.locator("[data-attempt='1']")).to_contain_text("first-worker lost at ")
    await expect(timeline.locator("[data-attempt='2']")).to_contain_text("second-worker")
    await tab.screenshots("run-attempts")


async def test_tasks_that_never_ran_are_not_pending_when_the_run_has_ended(tab: Tab) -> None:
    tasks = {"load": TaskStatus.SUCCEEDED, "clean": TaskStatus.CANCELLED, "mail": TaskStatus.PENDING}
    run = ended(RunStatus.CANCELLED, at=time.time(), flow_name="never_ran", tasks=tasks)
    await write_many(tab.gateway.inside.connection, [run])
    await tab.open(f"/runs/{run.run_id}")
    for task in ("clean", "mail"):
        await expect(task_in(tab, "Timeline", task)).to_have_attribute("data-state", "NOT_RUN")
    await expect(part(tab, "Flow")).to_contain_text("2 Not run")
    await expect(part(tab, "Flow")).not_to_contain_text("Pending")
    await task_in(tab, "Timeline", "mail").click()
    await expect(part(tab, "Log")).to_contain_text("mail has no output.")
    await tab.open("/runs?flow=never_ran")
    await expect(tab.page.locator(f"[data-run='{run.run_id}']")).to_contain_text("1/3")


async def test_a_task_took_the_same_time_wherever_it_is_shown(tab: Tab) -> None:
    """From its first try on, of which the record of the last one says nothing."""
    began = time.time() - 100
    record = {
        "started_at": began + 0.889,
        "ended_at": began + 1.5,
        "duration_ms": 611.0,
        "calls": 2,
        "latest_calls": [
            {"started_at": began, "ended_at": began + 0.4, "error": "refused"},
            {"started_at": began + 0.889, "ended_at": began + 1.5},
        ],
    }
    times: dict[str, Any] = {"submitted_at": began - 1, "start_time": began, "end_time": began + 1.5}
    tasks = {"fetch": TaskStatus.SUCCEEDED}
    run = ended(at=began + 1.5, flow_name="retried", tasks=tasks, task_records={"fetch": record}, **times)
    await write_many(tab.gateway.inside.connection, [run])
    await tab.open(f"/runs/{run.run_id}?task=fetch")
    # Not the whole timeline, whose axis has a 1.5s of its own.
    for shown in (task_in(tab, "Timeline", "fetch"), details(tab)):
        await expect(shown).to_contain_text("1.5s")
        await expect(shown).not_to_contain_text("611ms")


async def test_a_later_attempt_is_silent_only_since_it_began(tab: Tab) -> None:
    now, later = time.time(), time.time() + 600
    await put_record(tab.gateway.inside.connection, a_record("second-worker", seen_at=later, slots_busy=1))
    run = snapshot(
        status=RunStatus.RUNNING,
        flow_name="attempts",
        tasks={"load": TaskStatus.RUNNING},
        worker_id="second-worker",
        attempt=2,
        delivery=DeliveryId(1, 2),
        start_time=now - 7900,
        attempt_started_at=now - 11,
        heartbeat_at=later,
        updated_at=later,
    )
    await write_many(tab.gateway.inside.connection, [run])
    await tab.open(f"/runs/{run.run_id}")
    why = part(tab, "Why")
    await expect(why).to_contain_text("no task has finished for 1")
    await expect(why).not_to_contain_text("2h")
