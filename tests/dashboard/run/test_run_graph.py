"""The graph, the explanation and the details of a run: what fits, what stands once, and what is a button."""

import json
import re
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
import pytest_asyncio
from msgspec import Raw
from playwright.async_api import FloatRect, Locator, expect

from pyoco_server.records.runs.run_models import Reason, RunStatus, TaskStatus
from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import NARROW, WIDE, Tab
from tests.dashboard.module_fixtures import module_gateway
from tests.dashboard.run.run_page import details, part, task_in
from tests.support.broker.stored_runs import ended, write_many
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually, eventually_equals

pytestmark = pytest.mark.asyncio(loop_scope="session")
gateway = module_gateway()

ERROR = "LookupError: no such channel: #sales-reports"
TRACEBACK = (
    f'Traceback (most recent call last):\n  File "/flows/sales.py", line 7, in notify\n    post()\n{ERROR}'
)


@pytest.fixture
def tab(shared_tab: Tab) -> Tab:
    return shared_tab


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def worker(gateway: RunningGateway) -> AsyncIterator[PyocoNatsWorker]:
    """Its flows are in the catalogue of the gateway."""
    async with serving_worker(gateway.inside.config) as serving:

        async def is_listed() -> bool:
            found = await gateway.http.get("/flows/sales")
            return found.status_code == 200 and bool(found.json()["tasks"])

        await eventually(is_listed, describe="the flow is in the catalogue")
        yield serving


async def stored(
    tab: Tab,
    after: dict[str, list[str]],
    *,
    failed: str | None = None,
    records: dict[str, dict[str, Any]] | None = None,
) -> str:
    """The id of an ended run with these tasks, of which one may have failed."""
    record = {name: {"after": before} for name, before in after.items()}
    for name, more in (records or {}).items():
        record[name] |= more
    run = ended(
        RunStatus.FAILED if failed else RunStatus.COMPLETED,
        at=time.time(),
        reason=Reason.EXECUTION_ERROR if failed else None,
        error=f"task {failed}: {ERROR}" if failed else None,
        tasks={name: TaskStatus.FAILED if name == failed else TaskStatus.SUCCEEDED for name in after},
        task_records={name: Raw(json.dumps(each).encode()) for name, each in record.items()},
    )
    await write_many(tab.gateway.inside.connection, [run])
    return run.run_id


def chain(count: int) -> dict[str, list[str]]:
    return {f"step_{number:02}": [f"step_{number - 1:02}"] if number else [] for number in range(count)}


def fan_out(count: int) -> dict[str, list[str]]:
    parts = [f"part_{number:02}" for number in range(count)]
    return {"split": [], **{name: ["split"] for name in parts}, "join": parts}


def layers(count: int, width: int) -> dict[str, list[str]]:
    """Layers of tasks, each after two of the layer before: too many for one look."""
    names = [[f"task_{layer}_{number}" for number in range(width)] for layer in range(count)]
    return {
        name: [] if layer == 0 else [names[layer - 1][at], names[layer - 1][(at + 1) % width]]
        for layer, row in enumerate(names)
        for at, name in enumerate(row)
    }


def frame(tab: Tab) -> Locator:
    """What the graph is seen through."""
    return part(tab, "Flow").get_by_role("group", name="Tasks of the flow").locator("xpath=..")


async def box_of(locator: Locator) -> FloatRect:
    box = await locator.bounding_box()
    assert box is not None
    return box


FITS = "boxes => boxes.every((box) => box.scrollHeight - box.clientHeight <= 1)"
OUTSIDE = """frame => {
  const outer = frame.getBoundingClientRect();
  return [...frame.querySelectorAll("[data-task], [data-group]")].filter((node) => {
    const inner = node.getBoundingClientRect();
    return inner.left < outer.left - 1 || inner.top < outer.top - 1
      || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1;
  }).map((node) => node.title);
}"""


async def nodes_outside(tab: Tab) -> list[str]:
    """The titles of the nodes that are not wholly in view, at one moment."""
    await expect(frame(tab).locator("[data-task], [data-group]").first).to_be_visible()
    found: list[str] = await frame(tab).evaluate(OUTSIDE)
    return found


async def shows_all(tab: Tab) -> None:
    """The graph is drawn first, and then fitted into its frame."""

    async def is_none_outside() -> bool:
        return await nodes_outside(tab) == []

    await eventually(is_none_outside, describe="all nodes are in view")


async def test_twelve_tasks_are_whole_and_readable_when_the_page_opens(tab: Tab) -> None:
    run_id = await stored(tab, chain(12))
    await tab.open(f"/runs/{run_id}")
    await shows_all(tab)
    first = await box_of(task_in(tab, "Flow", "step_00"))
    assert first["height"] > 36 * 0.6, "the names can be read"
    await tab.screenshots("graph-chain")
    await tab.set_language("en")
    await tab.resize(NARROW)
    await shows_all(tab)
    await tab.resize(WIDE)


async def view(tab: Tab) -> tuple[float, float, float]:
    """Where the corner of the graph is in the frame, and its scale."""
    matrix = "box => { const { a, e, f } = new DOMMatrix(getComputedStyle(box).transform); return [e, f, a] }"
    x, y, scale = await frame(tab).locator("> div").first.evaluate(matrix)
    return x, y, scale


async def test_show_all_shows_all_and_zoom_keeps_its_centre(tab: Tab) -> None:
    run_id = await stored(tab, layers(8, 9))
    await tab.open(f"/runs/{run_id}")
    await eventually(lambda: nodes_outside(tab), describe="it is too large to be shown readably")
    await part(tab, "Flow").get_by_role("button", name="Show all").click()
    await shows_all(tab)
    await tab.screenshot("graph-all")

    async def fixed_point(zoom: Awaitable[None]) -> tuple[float, float]:
        """The point of the frame that stays where it is."""
        before = await view(tab)
        await zoom

        async def zoomed() -> tuple[float, float, float] | None:
            now = await view(tab)
            return now if now[2] > before[2] else None

        after = await eventually(zoomed, describe="the graph is zoomed")
        grown = after[2] / before[2]
        return (after[0] - grown * before[0]) / (1 - grown), (after[1] - grown * before[1]) / (1 - grown)

    async def turn_wheel(x: float, y: float) -> None:
        await frame(tab).hover(position={"x": x, "y": y})
        await tab.page.keyboard.down("Control")
        await tab.page.mouse.wheel(0, -120)
        await tab.page.keyboard.up("Control")

    seen = await box_of(frame(tab))
    # The buttons are below the graph.
    middle = (seen["width"] / 2, (seen["height"] - 34) / 2)
    button = part(tab, "Flow").get_by_role("button", name="Zoom in")
    assert await fixed_point(button.click()) == pytest.approx(middle, abs=1)
    assert await fixed_point(turn_wheel(100, 60)) == pytest.approx((100, 60), abs=1)
    assert (await box_of(frame(tab)))["height"] == seen["height"]


async def test_the_graph_follows_a_drag_which_is_no_click_on_a_task(tab: Tab) -> None:
    run_id = await stored(tab, layers(8, 9))
    await tab.open(f"/runs/{run_id}")
    await eventually(lambda: nodes_outside(tab), describe="it is too large to be shown readably")
    node = await box_of(part(tab, "Flow").locator("[data-task]").first)
    x, y, scale = await view(tab)
    await tab.page.mouse.move(node["x"] + 20, node["y"] + 10)
    await tab.page.mouse.down()
    await tab.page.mouse.move(node["x"] + 80, node["y"] + 40, steps=5)
    await tab.page.mouse.up()

    async def has_followed() -> bool:
        return await view(tab) == pytest.approx((x + 60, y + 30, scale), abs=0.5)

    await eventually(has_followed, describe="the graph follows the pointer")
    await expect(tab.page).not_to_have_url(re.compile("task="))
    await part(tab, "Flow").locator("[data-task]").first.click()
    await expect(tab.page).to_have_url(re.compile("task="))


async def test_a_fan_out_is_one_group_and_what_failed_in_it_is_in_view(tab: Tab) -> None:
    records = {"part_37": {"error": ERROR, "traceback": TRACEBACK}}
    run_id = await stored(tab, fan_out(60), failed="part_37", records=records)
    await tab.open(f"/runs/{run_id}")
    group = part(tab, "Flow").locator("[data-group]")
    await expect(group).to_have_attribute("data-group", "60")
    await expect(group).to_contain_text("60 tasks")
    await expect(group).to_contain_text(re.compile(r"1\s*Failed.*59\s*Succeeded"))
    await shows_all(tab)
    members = tab.page.get_by_role("region", name="Parallel tasks part_…")
    # What failed is listed, and nothing else, until all is asked for.
    await expect(members.locator("[data-task]")).to_have_count(1)
    await expect(members.locator("[data-task=part_37]")).to_be_in_viewport()
    await tab.screenshots("graph-group")
    await tab.set_language("en")
    await tab.page.reload()

    await members.get_by_text("All 60").click()
    await expect(members.locator("[data-task]")).to_have_count(60)
    await tab.screenshot("graph-group-all")
    await task_in(tab, "Flow", "split").press("ArrowRight")
    await expect(group).to_be_focused()
    await tab.page.keyboard.press("Enter")
    await expect(group).to_have_attribute("aria-expanded", "false")
    await expect(members).to_have_count(0)
    await tab.page.keyboard.press("Enter")
    await members.locator("[data-task=part_37]").click()
    await expect(tab.page).to_have_url(re.compile("task=part_37"))
    await expect(details(tab)).to_contain_text("#sales-reports")


async def test_the_failed_task_of_a_large_graph_is_in_view(tab: Tab) -> None:
    last = "task_7_8"
    run_id = await stored(tab, layers(8, 9), failed=last, records={last: {"error": ERROR}})
    await tab.open(f"/runs/{run_id}")
    failed = task_in(tab, "Flow", last)
    await expect(failed).to_be_in_viewport()

    async def is_whole() -> bool:
        return await failed.get_attribute("title") not in await nodes_outside(tab)

    await eventually(is_whole, describe="the failed task is in view")
    await tab.screenshot("graph-failed")


async def test_a_run_that_waits_shows_the_graph_of_its_flow(tab: Tab, worker: PyocoNatsWorker) -> None:
    scheduled = await tab.gateway.submit("sales", delay_sec=7200)
    # No worker has this tag, but others have the flow.
    pending = await tab.gateway.submit("sales", tag="gpu")
    for path in (f"/runs/{scheduled}", f"/runs/{pending}", "/flows/sales"):
        await tab.open(path)
        await expect(part(tab, "Flow").locator("[data-task]")).to_have_count(7)
        await expect(part(tab, "Flow")).not_to_contain_text("Pending")
        titles = [await node.get_attribute("title") for node in await frame(tab).locator("[data-task]").all()]
        assert "notify" in titles, "a name without a status"
        await shows_all(tab)
        await tab.screenshot(f"graph-plan-{path.split('/')[1]}")
    await tab.open(f"/runs/{scheduled}")
    await expect(part(tab, "Flow")).to_contain_text("The flow as the workers with this tag have it now.")
    await tab.screenshots("graph-plan")


async def test_an_error_stands_once_and_the_explanation_leads_to_it(tab: Tab) -> None:
    records = {"step_04": {"error": ERROR, "traceback": TRACEBACK}}
    run_id = await stored(tab, chain(5), failed="step_04", records=records)
    await tab.open(f"/runs/{run_id}")
    why = tab.page.get_by_role("region", name="Why")
    await expect(why).to_contain_text("Task step_04 failed")
    await expect(details(tab).get_by_role("region", name="Traceback")).to_contain_text(ERROR)

    async def times_shown() -> int:
        return (await tab.page.locator("main").inner_text()).count("no such channel")

    await eventually_equals(times_shown, 1, describe="the error stands once")
    await tab.screenshots("run-error")
    await tab.set_language("en")
    await why.get_by_role("button", name="Task step_04 failed").click()
    await expect(tab.page).to_have_url(re.compile("task=step_04"))
    await expect(details(tab).get_by_role("heading", name="step_04")).to_be_visible()
    await eventually_equals(times_shown, 1, describe="the error stands once")


async def test_an_explanation_has_buttons_where_the_page_can_do_it(tab: Tab) -> None:
    run_id = await stored(tab, chain(2), failed="step_01", records={"step_01": {"error": ERROR}})
    await tab.open(f"/runs/{run_id}")
    why = tab.page.get_by_role("region", name="Why")
    await why.get_by_role("button", name="Why, and what to do").click()
    await expect(why).to_contain_text("This run is finished. Nothing happens unless you rerun it.")
    await expect(why).not_to_contain_text("pyoco-client")
    await tab.screenshot("run-why-open")
    letter = why.get_by_role("link", name="Check the dead letter of the run")
    await expect(letter).to_have_attribute("href", f"#/dlq?run_id={run_id}")
    await why.get_by_role("button", name="Read the run's output").click()
    await expect(part(tab, "Log")).to_be_in_viewport()

    waiting = await tab.gateway.submit("noop", tag="nobody")
    await tab.open(f"/runs/{waiting}")
    await why.get_by_role("button", name="Why, and what to do").click()
    # Nothing on this page starts a worker.
    await expect(why).to_contain_text("pyoco-worker --flows ./flows --tag nobody")
    await tab.is_accessible()
    await tab.screenshot("run-why-pending")
    await why.get_by_role("button", name="Cancel the run").first.click()
    await expect(tab.page.get_by_role("dialog", name="Cancel the run of noop?")).to_be_visible()


async def test_details_use_the_height_there_is(tab: Tab) -> None:
    rows = [{"article": f"A-{number}", "pieces": number} for number in range(12)]
    run_id = await stored(tab, chain(3), records={"step_02": {"output": rows, "inputs": {"rows": rows}}})
    await tab.open(f"/runs/{run_id}?task=step_02")
    values = details(tab).locator("pre")
    await expect(values).to_have_count(2)
    for width in (WIDE, NARROW):
        await tab.resize(width)
        await eventually(lambda: values.evaluate_all(FITS), describe="no value is a scroll box")
        await tab.screenshot(f"run-details-{width}")
    await tab.resize(WIDE)

    async def fills_the_window() -> bool:
        # At most as high as the window, in which it stays when the page scrolls.
        return (await box_of(details(tab)))["height"] == pytest.approx(800 - 24, abs=8)

    await eventually(fills_the_window, describe="the details fill the window")
