"""The timeline and the log of a run: gaps, zoom, colours, levels, search, links to lines."""

import json
import math
import re
import time
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Request, expect

from pyoco_server.broker.stores.runs.run_log_store import RunLogs
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.runs.run_models import EarlierAttempt, RunSnapshot, RunStatus, TaskStatus
from tests.dashboard.browser import NARROW, WIDE, Tab
from tests.dashboard.module_fixtures import module_gateway
from tests.support.broker.stored_runs import ended, snapshot, write_many
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
gateway = module_gateway()

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


@pytest_asyncio.fixture(loop_scope="session")
async def tab(shared_tab: Tab) -> Tab:
    await shared_tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    return shared_tab


def part(tab: Tab, name: str) -> Locator:
    return tab.page.get_by_role("region", name=name, exact=True).first


def executed(*periods: tuple[str, float, float]) -> dict[str, Any]:
    """Tasks that were executed from one moment to another, as fields of a snapshot."""
    records = {
        name: {"started_at": begin, "ended_at": end, "duration_ms": (end - begin) * 1000}
        for name, begin, end in periods
    }
    return {"tasks": dict.fromkeys(records, TaskStatus.SUCCEEDED), "task_records": records}


async def shown(tab: Tab, run: RunSnapshot, query: str = "") -> Locator:
    await write_many(tab.gateway.inside.connection, [run])
    await tab.open(f"/runs/{run.run_id}{query}")
    await expect(tab.page.get_by_role("heading", name=run.flow_name)).to_be_visible()
    return part(tab, "Timeline")


async def has_share(bar: Locator, *, above: float = 0.0, below: float = math.inf) -> float:
    """The part of its track that a bar takes, once it is within these limits."""

    async def share() -> float | None:
        found = float(await bar.evaluate("bar => bar.offsetWidth / bar.parentElement.offsetWidth"))
        return found if above < found < below else None

    return await eventually(share, describe=f"the bar takes between {above} and {below} of its track")


def bar_of(timeline: Locator, task: str) -> Locator:
    return timeline.locator(f"[data-task='{task}'] [class*=bar]").first


async def prints(tab: Tab, run: RunSnapshot, *texts: str, task: str = "load", stream: str = "stdout") -> None:
    """As one batch."""
    lines = [LogLine(ts=time.time(), stream=stream, text=text, task=task) for text in texts]
    await RunLogs(tab.gateway.inside.connection).publish(run.run_id, lines)


def printing(name: str, **records: Any) -> RunSnapshot:
    """A run that has just ended, whose log the test writes."""
    now = time.time()
    return ended(at=now, flow_name=name, **(records or executed(("load", now - 1, now))))


def long_queue(now: float) -> RunSnapshot:
    start = now - 10
    return ended(
        at=now,
        flow_name="long_queue",
        submitted_at=start - 4 * MINUTE,
        start_time=start,
        **executed(("load", start, start + 4), ("clean", start + 4, now)),
    )


async def test_time_in_the_queue_is_a_gap_that_can_be_expanded(tab: Tab) -> None:
    timeline = await shown(tab, long_queue(time.time()))
    gap = timeline.locator("[data-gap=queue]")
    await expect(gap).to_have_accessible_name("In queue 4m 0s")
    await expect(gap).to_have_attribute("aria-expanded", "false")
    await has_share(bar_of(timeline, "load"), above=0.25)
    await tab.screenshots("run-timeline-queue")
    await tab.set_language("en")

    await gap.click()
    await expect(gap).to_have_attribute("aria-expanded", "true")
    await has_share(bar_of(timeline, "load"), below=0.05)
    await gap.press("Enter")
    await expect(gap).to_have_attribute("aria-expanded", "false")


async def test_a_wait_of_hours_and_a_lost_worker_leave_room_for_the_tasks(tab: Tab) -> None:
    now = time.time()
    begin = now - 3 * DAY
    lost = EarlierAttempt(
        number=1,
        worker_id="first-worker",
        started_at=begin,
        last_heartbeat_at=begin + 20,
        lost_at=begin + 22,
    )
    run = ended(
        at=now,
        flow_name="long_wait",
        submitted_at=begin - 1,
        start_time=begin,
        worker_id="second-worker",
        attempt=2,
        attempt_started_at=begin + HOUR,
        earlier_attempts=[lost],
        **executed(
            ("load", begin, begin + 20), ("clean", begin + HOUR, begin + HOUR + 30), ("mail", now - 20, now)
        ),
    )
    timeline = await shown(tab, run)
    gaps = timeline.locator("[data-gap=idle]")
    await expect(gaps).to_have_count(2)
    await expect(gaps.nth(1)).to_have_accessible_name("Idle 2d 22h")
    for task in ("load", "clean", "mail"):
        await has_share(bar_of(timeline, task), above=0.1)
    clock = time.strftime("%H:%M:%S", time.localtime(begin + 20))
    await expect(timeline.locator("[data-attempt='1']")).to_contain_text(f"first-worker lost at {clock}")
    await expect(timeline.locator("[data-attempt='2']")).to_contain_text("second-worker")
    await tab.screenshots("run-timeline-wait")
    await tab.set_language("en")


async def test_the_timeline_is_zoomed_and_moved(tab: Tab) -> None:
    timeline = await shown(tab, long_queue(time.time()))
    bar, row = bar_of(timeline, "load"), timeline.locator("[data-task=load]")
    # When the last part of the page is there, nothing moves the bars any more.
    await expect(part(tab, "Log")).to_contain_text("This run has no output.")
    await timeline.get_by_role("button", name="Zoom in").click()
    zoomed = await has_share(bar, above=0.45)
    left = await bar.evaluate("bar => bar.offsetLeft")

    box = await timeline.locator("[data-task=clean]").bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] * 0.6, box["y"] + 10
    await tab.page.mouse.move(*middle)
    await tab.page.mouse.down()
    await tab.page.mouse.move(middle[0] + 120, middle[1], steps=4)
    await tab.page.mouse.up()

    async def has_followed() -> bool:
        return bool(await bar.evaluate("bar => bar.offsetLeft") > left + 50)

    await eventually(has_followed, describe="the bars follow the pointer")
    await expect(tab.page).not_to_have_url(re.compile("task="))

    await tab.page.keyboard.down("Control")
    await tab.page.mouse.wheel(0, -120)
    await tab.page.keyboard.up("Control")
    await expect(timeline.get_by_role("button", name="Show the whole run")).to_be_enabled()
    await tab.screenshot("run-timeline-zoomed")
    await row.focus()
    await row.press("0")
    await expect(timeline.get_by_role("button", name="Show the whole run")).to_be_disabled()
    for key in ("+", "ArrowRight", "+"):
        await row.press(key)
    await expect(timeline.get_by_role("button", name="Show the whole run")).to_be_enabled()
    await timeline.get_by_role("button", name="Show the whole run").click()
    await has_share(bar, below=zoomed)


@pytest.mark.parametrize(
    ("name", "seconds", "count"), [("instant", 0.05, 3), ("sixty", 90.0, 60), ("week", 7 * DAY, 5)]
)
async def test_runs_of_every_length_fill_the_timeline(
    tab: Tab, name: str, seconds: float, count: int
) -> None:
    now = time.time()
    begin, step = now - seconds, seconds / count
    periods = [(f"step_{at}", begin + at * step, begin + (at + 1) * step) for at in range(count)]
    run = ended(
        at=now, flow_name=name, submitted_at=begin - seconds / 100, start_time=begin, **executed(*periods)
    )
    timeline = await shown(tab, run)
    await has_share(bar_of(timeline, "step_0"), above=0.5 / count)
    await tab.resize(NARROW)
    await expect(timeline.locator("[data-task=step_0]")).to_be_visible()
    await tab.screenshot(f"run-timeline-{name}-390")
    fits = "document.documentElement.scrollWidth <= window.innerWidth"
    await eventually(lambda: tab.page.evaluate(fits), describe="the page does not scroll sideways")
    await tab.resize(WIDE)


async def test_a_running_run_grows_to_the_right(tab: Tab) -> None:
    now = time.time()
    run = snapshot(
        status=RunStatus.RUNNING,
        flow_name="growing",
        submitted_at=now - 2,
        start_time=now - 1,
        updated_at=now,
        heartbeat_at=now,
        tasks={"load": TaskStatus.RUNNING},
        task_records={"load": {"started_at": now - 1}},
    )
    timeline = await shown(tab, run)
    took = timeline.locator("[data-task=load] [class*=took]").first
    await expect(took).to_contain_text(re.compile(r"[3-9]"))


ANSI = "\x1b[31mred\x1b[0m plain \x1b[1;38;5;208morange\x1b[0m \x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\"
RECORD = {"level": "error", "message": "no route to host", "host": "db-7", "tries": 3}


async def test_colours_and_levels_of_lines(tab: Tab) -> None:
    run = printing("levels")
    await prints(
        tab,
        run,
        ANSI,
        json.dumps(RECORD),
        "2026-11-15 12:00:00,123 - etl.load - WARNING - slow",
        'ts=12:00 level=debug msg="details"',
        "<img src=x onerror=alert(1)>",
    )
    await shown(tab, run)
    log = part(tab, "Log")
    await expect(log).to_contain_text("red plain orange link")
    await expect(log.locator("[data-ansi]")).to_have_text(["red", "orange"])
    assert await log.get_by_text("red", exact=True).evaluate("it => getComputedStyle(it).color") != (
        await log.get_by_text("plain").evaluate("it => getComputedStyle(it).color")
    )
    await expect(log.locator("img, a[href*=evil]")).to_have_count(0)
    await expect(log).not_to_contain_text("U+001B")
    await expect(log.locator("[data-badge]")).to_have_text(["error", "warning", "debug"])

    line = log.locator("[data-level=error]")
    await expect(line).to_contain_text("no route to host")
    await expect(line).not_to_contain_text("db-7")
    await line.get_by_role("button", name="2 fields").click()
    await expect(line).to_contain_text(re.compile("host\\s*db-7"))
    await tab.screenshots("run-log-levels")
    await tab.set_language("en")

    await log.get_by_role("button", name="Filter", exact=True).click()
    await tab.page.get_by_role("menuitemcheckbox", name="warnings and errors").click()
    await tab.page.keyboard.press("Escape")
    await expect(log).to_contain_text("2 lines")
    await expect(log).not_to_contain_text("details")
    await expect(tab.page).to_have_url(re.compile("level=warning"))


async def test_a_search_keeps_the_other_lines(tab: Tab) -> None:
    run = printing("searched")
    await prints(tab, run, *(f"row {at}{' is odd' if at % 100 == 51 else ''}" for at in range(500)))
    await shown(tab, run)
    log = part(tab, "Log")
    await expect(log).to_contain_text("500 lines")
    await tab.search("is odd")
    await expect(log).to_contain_text("1 of 5 matches")
    current = log.locator("[aria-current]")
    await expect(current).to_contain_text("row 51 is odd")
    await expect(log).to_contain_text("row 52")
    await tab.page.keyboard.press("Enter")
    await expect(current).to_contain_text("row 151 is odd")
    await log.get_by_role("button", name="Previous match").click()
    await log.get_by_role("button", name="Previous match").click()
    await expect(current).to_contain_text("row 451 is odd")
    await expect(log).to_contain_text("5 of 5 matches")
    await expect(log).to_contain_text("500 lines")

    await log.get_by_role("button", name="Only matches").click()
    await expect(log).to_contain_text("25 lines")
    await expect(log).to_contain_text("95 lines without a match")
    await log.get_by_label("Lines around each match").select_option("0")
    await expect(log.get_by_text("5 lines", exact=True)).to_be_visible()
    await tab.screenshots("run-log-matches")
    await tab.set_language("en")
    await expect(tab.page).to_have_url(re.compile("only=0"))


ENTER_WITH_THE_COUNT = """field => new MutationObserver((_, observer) => {
  if (!document.body.textContent.includes("1 of 6 matches")) return;
  observer.disconnect();
  field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
}).observe(document.body, { subtree: true, childList: true, characterData: true })"""


async def test_enter_goes_to_the_next_match_however_soon_it_is_pressed(tab: Tab) -> None:
    run = printing("hurried")
    await prints(tab, run, *(f"row {at}" for at in range(45)))
    await shown(tab, run)
    log = part(tab, "Log")
    await expect(log).to_contain_text("45 lines")
    field = log.get_by_placeholder("Search the log")
    await field.evaluate(ENTER_WITH_THE_COUNT)
    await field.fill("row 4")
    await expect(log).to_contain_text("2 of 6 matches")


async def test_a_link_to_a_line_loads_only_its_part_of_a_long_log(tab: Tab) -> None:
    run = printing("linked")
    for batch in range(12):
        await prints(tab, run, *(f"row {1000 * batch + at}" for at in range(1000)))
    await write_many(tab.gateway.inside.connection, [run])
    near = await tab.http.get(f"/runs/{run.run_id}/logs", params={"search": "row 6123", "limit": 1})
    line = near.json()["lines"][0]["id"]
    asked = list[str]()

    def remember(request: Request) -> None:
        if "/logs" in request.url:
            asked.append(request.url)

    tab.page.on("request", remember)
    await tab.open(f"/runs/{run.run_id}?line={line}")
    log = part(tab, "Log")
    current = log.locator("[aria-current]")
    await expect(current).to_contain_text("row 6123")
    await expect(current).to_be_in_viewport()
    await expect(log).to_contain_text("400 lines of a part of the log")
    assert [url.partition("?")[2] for url in asked] == [f"around={line}&limit=400"]
    tab.page.remove_listener("request", remember)
    await tab.screenshots("run-log-linked")
    await tab.set_language("en")
    await tab.page.reload()

    await expect(current).to_be_in_viewport()
    await log.get_by_role("button", name="Earlier lines").click()
    await expect(log).to_contain_text("1,400 lines of a part")
    await expect(current).to_be_in_viewport()
    await log.get_by_role("button", name="Later lines").click()
    await expect(log).to_contain_text("2,400 lines of a part")
    await current.get_by_role("link", name="Copy a link to this line").click()
    await expect(tab.page.get_by_text("Link to the line copied")).to_be_visible()
    copied = await tab.page.evaluate("navigator.clipboard.readText()")
    assert copied == f"{tab.url}/#/runs/{run.run_id}?line={line}"
    await log.get_by_role("button", name="To the end").click()
    await expect(log).to_contain_text("row 11999")
    await expect(tab.page).not_to_have_url(re.compile("line="))


async def test_a_line_that_is_no_longer_stored_is_reported(tab: Tab) -> None:
    records = executed(("load", 1.0, 2.0))
    records["task_records"]["load"]["stdout"] = "long ago"
    run = printing("forgotten", **records)
    await shown(tab, run, "?line=7-0")
    log = part(tab, "Log")
    await expect(log).to_contain_text("The linked line is no longer stored.")
    await expect(log).to_contain_text("The output is no longer stored.")
    await expect(log).not_to_contain_text("has no output")


@pytest.mark.parametrize(("locale", "language"), [("ja-JP", "ja"), ("en-GB", "en")])
async def test_the_language_is_that_of_the_browser_unless_another_is_chosen(
    browser: Browser, gateway: RunningGateway, locale: str, language: str
) -> None:
    context = await browser.new_context(locale=locale)
    page = await context.new_page()
    await page.goto(f"{gateway.http.base_url}/#/runs")
    await expect(page.locator("html")).to_have_attribute("lang", language)
    other = "en" if language == "ja" else "ja"
    await page.evaluate("other => localStorage.setItem('pyoco.language', JSON.stringify(other))", other)
    await page.reload()
    await expect(page.locator("html")).to_have_attribute("lang", other)
    await context.close()
