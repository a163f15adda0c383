"""The audit page, what was done to a run, the comparison of two runs, and the runs related to one."""

import re

import pytest
from playwright.async_api import expect

from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.records.runs.run_models import RunStatus
from tests.dashboard.browser import Tab
from tests.support.broker.stored_runs import ended, written

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_who_cancelled_a_run_is_on_the_audit_page_and_on_its_own(tab: Tab) -> None:
    run = await written(tab.gateway.inside.connection, flow_name="etl")
    headers = {"User-Agent": "pyoco-client/1.0"}
    await tab.http.post(f"/runs/{run.run_id}/cancel", json={"reason": "wrong month"}, headers=headers)
    await tab.http.post("/schedules/nothing/pause")
    await tab.open("/audit")
    rows = tab.page.locator("[data-entry]")
    await expect(rows).to_have_count(2)
    await expect(rows.nth(0)).to_contain_text("refused HTTP 404")
    await expect(rows.nth(1)).to_contain_text("anonymous (127.0.0.1)")
    await expect(rows.nth(1)).to_contain_text("Cancel a run")
    await expect(rows.nth(1)).to_contain_text("Reason: wrong month")
    await expect(rows.nth(1)).to_contain_text(re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"))
    await tab.screenshots("audit")
    await tab.set_language("en")
    await tab.page.get_by_label("Action", exact=True).select_option("run.cancel")
    await expect(rows).to_have_count(1)
    await tab.page.get_by_label("Search the audit log").fill("actor:nobody")
    await tab.page.keyboard.press("Enter")
    await expect(tab.page.get_by_text("No entry matches")).to_be_visible()
    await tab.page.get_by_role("button", name="Clear the filters").last.click()
    await expect(rows).to_have_count(2)
    await rows.get_by_role("link").filter(has_text="etl").click()
    await expect(tab.page.locator("h1")).to_have_text("etl")
    done = (
        tab.page.get_by_role("region")
        .or_(tab.page.locator("section"))
        .filter(has=tab.page.get_by_role("heading", name="What was done to this run"))
    )
    await expect(done.last).to_contain_text("Cancel a run")
    await done.last.get_by_role("link", name="Show in the audit log").click()
    await expect(tab.page).to_have_url(re.compile(f"/audit\\?run_id={run.run_id}"))
    await expect(rows).to_have_count(1)


def records(**seconds: float) -> dict[str, dict[str, object]]:
    return {
        name: {"started_at": 900.0, "ended_at": 900.0 + took, "output": {"rows": int(took)}}
        for name, took in seconds.items()
    }


async def test_two_runs_are_compared(tab: Tab) -> None:
    store = tab.gateway.inside.runs.store
    earlier = ended(
        at=1000.0,
        flow_name="etl",
        params={"month": 10, "dry": True},
        tasks={"load": "SUCCEEDED", "send": "SUCCEEDED"},
        task_records=records(load=2, send=1),
        worker_id="w1",
        code_version="aaaa000011112222",
    )
    later = ended(
        RunStatus.FAILED,
        at=2000.0,
        flow_name="etl",
        params={"month": 11, "dry": True},
        tasks={"load": "SUCCEEDED", "send": "FAILED"},
        task_records=records(load=5, send=1),
        worker_id="w2",
        code_version="bbbb000011112222",
        error="Task send failed: refused",
    )
    for run in (earlier, later):
        await store.create(run)
    await tab.open(f"/runs/{later.run_id}")
    await expect(tab.page.get_by_text("Code version")).to_be_visible()
    await expect(tab.page.get_by_text("bbbb0000", exact=True)).to_be_visible()
    compare = tab.page.get_by_role("button", name="Compare")
    await compare.hover()
    await compare.click()
    await tab.page.get_by_role("menuitem", name="With the last successful run").click()
    await expect(tab.page).to_have_url(re.compile(f"a={earlier.run_id}&b={later.run_id}"))
    row = tab.page.get_by_role("row")
    await expect(row.filter(has_text="Worker")).to_contain_text("w1")
    versions = row.filter(has_text="Code version")
    await expect(versions).to_contain_text("aaaa000011112222")
    await expect(versions).to_contain_text("bbbb000011112222")
    await expect(row.filter(has_text="month")).to_contain_text("10")
    await expect(row.filter(has_text=re.compile("^load[^.]"))).to_contain_text("3s longer (150 %)")
    await expect(row.filter(has_text="load.rows")).to_contain_text("5")
    await expect(row.filter(has_text=re.compile("^dry"))).to_have_count(1)
    await tab.screenshots("compare")
    await tab.set_language("en")
    await tab.page.get_by_label("Only differences").check()
    await expect(row.filter(has_text=re.compile("^dry"))).to_have_count(0)
    await tab.page.get_by_role("button", name="Swap the runs").click()
    await expect(row.filter(has_text=re.compile("^load[^.]"))).to_contain_text("3s shorter (60 %)")
    await tab.resize(390)
    # Of a cell that is too narrow, the text lies on the next one.
    cells = row.get_by_role("cell")
    assert await cells.count() > 10
    wide = "all => all.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.textContent)"
    assert await cells.evaluate_all(wide) == []


async def test_two_selected_runs_can_be_compared(tab: Tab) -> None:
    store = tab.gateway.inside.runs.store
    runs = [ended(at=1000.0 + number, flow_name="etl") for number in range(3)]
    for run in runs:
        await store.create(run)
    await tab.open("/runs")
    boxes = tab.page.get_by_role("checkbox", name=re.compile("Select|select"))
    link = tab.page.get_by_role("link", name="Compare these two")
    # One for each run, and one for all.
    await expect(boxes).to_have_count(len(runs) + 1)
    await boxes.nth(-1).check()
    await expect(link).to_have_count(0)
    await boxes.nth(-2).check()
    await link.click()
    await expect(tab.page.locator("h1")).to_have_text("Compare runs")
    await expect(tab.page).to_have_url(re.compile(f"a={runs[0].run_id}&b={runs[1].run_id}"))


async def test_related_runs_and_fan_outs_are_a_tree(tab: Tab) -> None:
    store = tab.gateway.inside.runs.store
    cause = Cause(kind=CauseKind.SCHEDULE, id="nightly", at=900.0)
    first = ended(RunStatus.FAILED, at=1000.0, flow_name="etl", cause=cause)
    other = ended(at=1500.0, flow_name="etl", cause=cause)
    states = {
        "split": "SUCCEEDED",
        **{f"work_{number}": "SUCCEEDED" for number in range(60)},
        "work_7": "FAILED",
    }
    after = {name: {"after": ["split"] if "_" in name else []} for name in states}
    rerun = ended(
        RunStatus.FAILED,
        at=2000.0,
        flow_name="etl",
        origin_run_id=first.run_id,
        tasks=states,
        task_records=after,
    )
    again = [ended(at=3000.0 + number, flow_name="etl", origin_run_id=rerun.run_id) for number in range(25)]
    last = ended(at=5000.0, flow_name="etl", origin_run_id=again[0].run_id)
    for run in (first, other, rerun, *again, last):
        await store.create(run)
    await tab.open(f"/runs/{rerun.run_id}")
    tree = tab.page.locator("[data-related]")
    await expect(tree.locator("[aria-current]")).to_contain_text(rerun.run_id[:8])
    await expect(tree.locator("[data-run]").nth(0)).to_have_attribute("data-run", first.run_id)
    # The first twenty, and where the rest is.
    await expect(tree.locator("[data-run]")).to_have_count(2 + 20)
    await expect(tree.get_by_role("link", name="Show all 25 reruns")).to_be_visible()
    fan_out = tree.locator("[data-fan-out]")
    await expect(fan_out).to_contain_text("60 tasks in parallel")
    await expect(fan_out).to_contain_text("Failed 1")
    await tab.screenshots("related-runs")
    await tab.set_language("en")
    await tree.get_by_role("button", name=f"Show the reruns of {again[0].run_id[:8]}").click()
    await expect(tree.locator(f"[data-run='{last.run_id}']")).to_be_visible()
    await fan_out.get_by_role("button", name="work").click()
    await expect(tab.page).to_have_url(re.compile("task=work_7"))
    await tab.open(f"/runs/{first.run_id}")
    await expect(tree.get_by_role("link", name="2 runs with this cause")).to_be_visible()
    await expect(tree.locator("[data-run]").nth(1)).to_have_attribute("data-run", rerun.run_id)
