"""The screen of one run: graph, timeline, log, details, actions."""

import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Route, expect

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import DeliveryId, EarlierAttempt, RunStatus, TaskStatus
from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import NARROW, WIDE, Tab
from tests.dashboard.run.run_page import details, part, status, task_in
from tests.support.broker.stored_runs import ended, snapshot, write_many
from tests.support.broker.worker_records import a_record, put_record
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def gateway(
    shared_config: NatsBackendConfig, dashboard_folder: Path, dashboard_port: int
) -> AsyncIterator[RunningGateway]:
    """One for all: each test shows runs of its own."""
    async with running_gateway(shared_config, port=dashboard_port) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def worker(gateway: RunningGateway) -> AsyncIterator[PyocoNatsWorker]:
    async with serving_worker(gateway.inside.config, concurrency=2) as serving:
        yield serving


async def test_a_run_is_followed_from_its_submission_to_its_end(
    tab: Tab, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    run_id = await tab.gateway.submit("sales", params={"release": str(release), "flaky": True})
    await tab.open(f"/runs/{run_id}")
    await expect(tab.page.get_by_role("heading", name="sales")).to_be_visible()
    await expect(task_in(tab, "Flow", "join")).to_have_attribute("data-state", "RUNNING")
    await expect(task_in(tab, "Timeline", "join")).to_have_attribute("data-state", "RUNNING")
    await expect(task_in(tab, "Flow", "report")).to_have_attribute("data-state", "PENDING")
    await expect(part(tab, "Log")).to_contain_text("joining orders and rates")
    await expect(part(tab, "Log")).to_contain_text("More lines may follow")
    await tab.screenshot("run-live")

    release.touch()
    await expect(status(tab)).to_have_text("Completed")
    await expect(task_in(tab, "Flow", "notify")).to_have_attribute("data-state", "SUCCEEDED")
    await expect(part(tab, "Log")).to_contain_text("sent: revenue 48210.50")
    await expect(task_in(tab, "Flow", "rates")).to_contain_text("3")
    await tab.page.get_by_role("tab", name="Events").click()
    await expect(details(tab)).to_contain_text(re.compile(r"Failed, retried:\s*rates"))
    await tab.screenshot("run-done")
    await tab.is_accessible()


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


async def test_a_failed_run_shows_its_traceback_and_is_rerun(tab: Tab, worker: PyocoNatsWorker) -> None:
    run_id = await tab.gateway.submit("sales", params={"fails": True})
    await tab.gateway.ends(run_id)
    await tab.open(f"/runs/{run_id}")
    await expect(status(tab)).to_have_text("Failed")
    await expect(details(tab)).to_contain_text("no such channel: #sales-reports")
    await expect(details(tab).get_by_role("region", name="Traceback")).to_contain_text("in notify")
    await tab.page.get_by_role("button", name=re.compile("Why, and what to do")).click()
    await expect(tab.page.get_by_role("region", name="Why")).to_contain_text("If nothing is done")
    await tab.screenshot("run-failed")
    await tab.is_accessible()

    await tab.page.get_by_role("button", name="Rerun", exact=True).click()
    await tab.page.get_by_role("menuitem", name="What failed or never ran").click()
    await expect(tab.page.get_by_text("Rerun of", exact=True)).to_be_visible()
    await expect(status(tab)).to_have_text("Failed")
    await expect(task_in(tab, "Timeline", "extract")).to_contain_text("reused")
    await tab.screenshot("run-rerun")
    await tab.page.get_by_role("link", name=run_id[:8], exact=True).click()
    await expect(tab.page.get_by_text("Reruns", exact=True)).to_be_visible()


async def test_a_rerun_keeps_the_answers_of_people(tab: Tab, worker: PyocoNatsWorker) -> None:
    run_id = await tab.gateway.submit("ask")
    wait = (await tab.gateway.reaches(run_id, "WAITING_HUMAN"))["open_waits"][0]
    await tab.gateway.http.post(f"/waits/{wait['wait_id']}/respond", json={"payload": "yes"})
    await tab.gateway.ends(run_id)
    await tab.open(f"/runs/{run_id}")
    await tab.page.get_by_role("button", name="Rerun", exact=True).click()
    await tab.page.get_by_role("menuitemcheckbox", name="Keep the answers of people").click()
    await tab.screenshot("run-rerun-menu")
    await tab.page.get_by_role("menuitem", name="From the start").click()
    await expect(tab.page.get_by_text("Rerun of", exact=True)).to_be_visible()
    await expect(status(tab)).to_have_text("Completed")
    again = await tab.gateway.get(tab.page.url.rpartition("/")[2].partition("?")[0])
    assert (again["origin_run_id"], again["keep_answers"]) == (run_id, True)


async def test_a_run_is_cancelled_with_a_reason(tab: Tab, worker: PyocoNatsWorker, tmp_path: Path) -> None:
    run_id = await tab.gateway.submit("sales", params={"release": str(tmp_path / "never")})
    await tab.open(f"/runs/{run_id}")
    await expect(task_in(tab, "Flow", "join")).to_have_attribute("data-state", "RUNNING")
    await tab.page.get_by_role("button", name="Cancel the run").click()
    dialog = tab.page.get_by_role("dialog", name="Cancel the run of sales?")
    await dialog.get_by_label("Reason").fill("the wrong day")
    await tab.screenshot("run-cancel")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Cancel the run").click()
    await expect(status(tab)).to_have_text("Cancelled")
    await tab.page.get_by_role("tab", name="Events").click()
    await expect(details(tab)).to_contain_text("the wrong day")
    assert (await tab.gateway.get(run_id))["cancel_reason"] == "the wrong day"


async def test_the_log_is_searched_filtered_and_downloaded(
    tab: Tab, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    run_id = await tab.gateway.submit("chattering", params={"release": str(release)})
    await tab.open(f"/runs/{run_id}")
    log = part(tab, "Log")
    await expect(log).to_contain_text("3,000 lines")
    await expect(log).to_contain_text("line 2999 of a long story")
    assert await log.locator("[data-index]").count() < 100, "only visible lines are rendered"
    lines = log.get_by_role("log")
    await lines.evaluate("box => box.scrollTo(0, 0)")
    await expect(log).to_contain_text("line 0 of a long story")
    release.touch()
    await expect(log).to_contain_text("3,001 lines")
    await expect(log).not_to_contain_text("the end of the story")
    # By the keyboard: the page above grows when the run ends, which moves the button.
    await log.get_by_role("button", name="To the end").press("Enter")
    await expect(log).to_contain_text("the end of the story")

    await tab.search("line 77")
    await expect(log).to_contain_text("1 of 11 matches")
    await tab.page.keyboard.press("Enter")
    await expect(log).to_contain_text("2 of 11 matches")
    await log.get_by_role("button", name="Only matches").click()
    await log.get_by_label("Lines around each match").select_option("0")
    await expect(log.get_by_text("11 lines", exact=True)).to_be_visible()
    await expect(log.locator("mark").first).to_have_text("line 77")
    await expect(tab.page).to_have_url(re.compile(r"search=line\+77"))
    async with tab.page.expect_download() as download:
        await log.get_by_role("button", name="Download").click()
    file = await download.value
    assert file.suggested_filename == f"{run_id}.log"
    text = Path(await file.path()).read_text()
    assert text.count("\n") == 11
    await tab.screenshot("run-log-search")

    await log.get_by_role("button", name="Filter", exact=True).click()
    await tab.page.get_by_role("menuitemcheckbox", name="stdout").click()
    await tab.page.keyboard.press("Escape")
    await expect(log).to_contain_text("No line matches")


async def test_a_very_long_log_is_cut_at_its_beginning(tab: Tab, worker: PyocoNatsWorker) -> None:
    run_id = await tab.gateway.submit("noop")
    await tab.gateway.ends(run_id)
    common = {"ts": 1.0, "task": "nothing", "stream": "stdout", "attempt": 1}
    lines = [{"id": f"{each}-0", "text": f"line {each}", **common} for each in range(60_000)]

    async def respond(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        if "follow" in query:
            events = "".join(f"event: line\ndata: {json.dumps(line)}\n\n" for line in lines)
            await route.fulfill(body=f"{events}event: end\ndata: {{}}\n\n", content_type="text/event-stream")
            return
        begin = int(query["after"][0]) if "after" in query else 0
        page = {"run_id": run_id, "lines": lines[begin : begin + 5000], "next_after": str(begin + 5000)}
        await route.fulfill(json={**page, "complete": begin + 5000 >= len(lines)})

    await tab.page.route(f"**/runs/{run_id}/logs?*", respond)
    await tab.open(f"/runs/{run_id}")
    log = part(tab, "Log")
    await expect(log).to_contain_text(re.compile(r"[0-9,]+ earlier lines are not shown here"))
    await expect(log).to_contain_text("line 59999")
    await tab.screenshot("run-log-cut")
    async with tab.page.expect_download() as download:
        await log.get_by_role("button", name="Download").click()
    text = Path(await (await download.value).path()).read_text()
    assert text.count("\n") == len(lines)
    await log.get_by_placeholder("Search the log").fill("line 3")
    await expect(log).to_contain_text(
        re.compile(r"[0-9,]+ earlier lines are not shown and not searched here")
    )
    await expect(log).not_to_contain_text("More lines may follow")


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


async def test_a_sleep_and_a_signal_are_spans_and_the_signal_is_sent(
    tab: Tab, worker: PyocoNatsWorker
) -> None:
    run_id = await tab.gateway.submit("order")
    await tab.open(f"/runs/{run_id}")
    page = tab.page
    await expect(status(tab)).to_have_text("Waiting")
    sleep = task_in(tab, "Timeline", "cooling_off").locator("[data-span=sleep]")
    await expect(sleep).to_have_attribute("title", re.compile("^Sleeps until "))
    signal = task_in(tab, "Timeline", "payment").locator("[data-span=signal]")
    await expect(signal).to_have_attribute("title", re.compile("^Waits for signal paid"))
    await page.get_by_role("tab", name="Events").click()
    await expect(details(tab)).to_contain_text(re.compile(r"Waits for signal\s*paid"))
    await expect(page.get_by_role("link", name="Answer")).to_have_count(0)
    await tab.screenshots("run-parked")
    await tab.set_language("en")

    await page.get_by_role("button", name="Send signal…").click()
    dialog = page.get_by_role("dialog", name="Send a signal to order")
    await expect(dialog.get_by_label("Signal", exact=True)).to_have_value("paid")
    await dialog.get_by_label("Data").fill('{"amount": 12')
    await expect(dialog).to_contain_text("Invalid JSON at line 1, column 14.")
    await expect(dialog.get_by_role("button", name="Send signal")).to_be_disabled()
    await dialog.get_by_label("Data").fill('{"amount": 12}')
    await tab.screenshot("run-signal")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Send signal").click()
    await expect(page.get_by_text("Signal paid was sent")).to_be_visible()
    await expect(task_in(tab, "Timeline", "payment")).to_have_attribute("data-state", "SUCCEEDED")
    await expect(details(tab)).to_contain_text(re.compile(r"Received signal\s*paid"))
    await expect(page.get_by_role("button", name="Send signal…")).to_have_count(0)
    # The sleep goes on.
    await expect(status(tab)).to_have_text("Waiting")
    await expect(sleep).to_be_visible()


async def test_a_delayed_run_says_when_it_starts(tab: Tab) -> None:
    run_id = await tab.gateway.submit("noop", delay_sec=7200)
    await tab.open(f"/runs/{run_id}")
    await expect(status(tab)).to_have_text("Scheduled")
    starts = tab.page.locator("dl").filter(has_text="Starts").first
    await expect(starts).to_contain_text(re.compile("in [12]h"))
    await tab.screenshot("run-scheduled")
    await tab.is_accessible()
    await tab.page.get_by_role("button", name="Cancel the run").click()
    await tab.page.get_by_role("dialog").get_by_role("button", name="Cancel the run").click()
    await expect(status(tab)).to_have_text("Cancelled")


async def test_an_expired_question_is_asked_again(tab: Tab, worker: PyocoNatsWorker, tmp_path: Path) -> None:
    params = {"notes": str(tmp_path / "notes"), "timeout_ms": 200}
    run_id = await tab.gateway.submit("approval", params=params)
    assert (await tab.gateway.ends(run_id))["reason"] == "human_timeout"
    await tab.open(f"/runs/{run_id}")
    await expect(status(tab)).to_have_text("Failed")
    await tab.screenshot("run-unanswered")
    await tab.page.get_by_role("button", name="Ask again").click()
    # The second question may expire before the page loads; its event remains.
    await expect(details(tab)).to_be_visible()
    await tab.page.get_by_role("tab", name="Events").click()
    await expect(details(tab).get_by_text("Is the amount right?")).to_have_count(2)


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
    for shown in (part(tab, "Timeline"), details(tab)):
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
