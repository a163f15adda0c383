"""The metrics screen: runs of a period beside the one before, and what the gateway measures."""

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, expect

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus
from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import Tab, opened_tab
from tests.support.broker.stored_runs import ended, write_many
from tests.support.broker.worker_records import a_record, put_record
from tests.support.running.api_keys import new_key
from tests.support.running.gateway import running_gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")


def figure(tab: Tab, label: str) -> Locator:
    figures = tab.page.get_by_role("list", name=re.compile("Metrics at a glance|Figures of the period"))
    return figures.get_by_role("listitem").filter(has_text=label)


def row(tab: Tab, name: str) -> Locator:
    return tab.page.get_by_role("row").filter(has=tab.page.get_by_role("rowheader", name=name, exact=True))


def two_weeks(now: float) -> list[RunSnapshot]:
    """Three flows, of which one takes twice as long and fails sometimes since a week."""
    runs: list[RunSnapshot] = []
    for hours in range(0, 14 * 24, 4):
        at = now - hours * 3600 - 90
        is_new = hours < 6.5 * 24
        for flow, took in (("nightly_load", 20.0 if is_new else 10.0), ("mail", 2.0), ("report", 45.0)):
            failed = is_new and flow == "nightly_load" and hours % 24 == 8
            times = {"start_time": at - took, "submitted_at": at - took - 1.5}
            status = RunStatus.FAILED if failed else RunStatus.COMPLETED
            tag = "gpu" if flow == "report" else "default"
            runs.append(ended(status, at=at, flow_name=flow, tag=tag, **times))
    return runs


async def test_a_flow_that_got_slower_is_seen_and_its_intervals_link_to_their_runs(tab: Tab) -> None:
    page, now = tab.page, time.time()
    runs = two_weeks(now)
    await write_many(tab.gateway.inside.connection, runs)
    await put_record(
        tab.gateway.inside.connection, a_record("steady", seen_at=4e9, slots=4, slots_busy=1, tags=["gpu"])
    )
    await tab.open("/metrics")
    await page.get_by_text("7 days", exact=True).click()
    await expect(row(tab, "nightly_load").locator("[data-verdict]")).to_have_text(
        re.compile(r"^\+100% was 10s$")
    )
    await expect(row(tab, "mail").locator("[data-verdict]")).to_contain_text("about the same")
    await expect(figure(tab, "Busy slots")).to_contain_text("1 of 4")
    await page.get_by_role("button", name="p95 change").first.click()
    await expect(page.get_by_role("row").nth(1)).to_contain_text("nightly_load")
    await tab.screenshots("metrics")
    await tab.set_language("en")
    # Two of three flows are as fast as before.
    await expect(page.locator("[data-speed]")).to_have_attribute("data-speed", "slower")
    await expect(page.locator("[data-speed]")).to_contain_text(
        "Flow by flow, runs are slower than in the 7 days before"
    )

    await page.get_by_label("Flow", exact=True).select_option("nightly_load")
    await expect(page.locator("[data-speed=slower]")).to_have_text(
        "nightly_load: slower than in the 7 days before. p50 20s, was 10s (+100%)."
    )
    await expect(figure(tab, "Duration p50")).to_contain_text("+100% was 10s")
    await expect(row(tab, "mail")).to_have_count(0)
    await tab.screenshot("metrics-flow")
    await tab.is_accessible()
    await has_intervals_that_link_to_their_runs(tab, runs)


async def has_intervals_that_link_to_their_runs(tab: Tab, runs: list[RunSnapshot]) -> None:
    page = tab.page
    await tab.open("/metrics?period=7d&flow=nightly_load")
    durations = page.get_by_role("list", name="Duration over time").get_by_role("link")
    newest = max(run.updated_at for run in runs)
    start = newest // 21_600 * 21_600
    own = [
        run.run_id
        for run in runs
        if run.flow_name == "nightly_load" and start <= run.updated_at < start + 21_600
    ]
    interval = durations.and_(page.locator(f"a[href*='updated_after={start:.0f}&']"))
    # Without an interval the legend has the values of the whole period.
    card = page.locator("section").filter(has=page.get_by_role("heading", name="Duration"))
    await expect(card).to_contain_text("last 7 days")
    await interval.hover()
    await expect(card).not_to_contain_text("last 7 days")
    await expect(card).to_contain_text(re.compile(r"p50 20s.*p95 20s.*p95 before 10s"))
    await durations.last.focus()
    await page.keyboard.press("ArrowLeft")
    await expect(durations.nth(-2)).to_be_focused()

    await page.get_by_text("Values as a table").click()
    table = page.get_by_role("region", name="Values as a table")
    ended_there = table.locator(f"a[href*='updated_after={start:.0f}&']")
    await expect(ended_there).to_have_text(str(len(own)))
    await interval.click()
    await expect(page.locator("[data-run]")).to_have_count(len(own))
    for run_id in own:
        await expect(page.locator(f"[data-run='{run_id}']")).to_be_visible()


async def test_the_tables_fit_beside_the_menu_and_keep_their_names_on_a_phone(tab: Tab) -> None:
    page, now = tab.page, time.time()
    tags = {"default": "nightly_load", "repo-0123456789ab": "agent_request"}
    runs = [
        ended(at=at, flow_name=flow, tag=tag, start_time=at - 44, submitted_at=at - 45.5)
        for at in (now - 90, now - 86_400 - 7_200)
        for tag, flow in tags.items()
        for _ in range(12)
    ]
    await write_many(tab.gateway.inside.connection, runs)
    await put_record(tab.gateway.inside.connection, a_record("steady", seen_at=4e9, slots=4, tags=list(tags)))
    await tab.resize(1280)
    await tab.open("/metrics", lang="ja")
    table = page.get_by_role("region", name="タグ別")
    await expect(table.get_by_role("columnheader", name="スロット")).to_be_visible()
    assert await table.evaluate("each => each.scrollWidth - each.clientWidth") == 0
    await tab.resize(390)
    await table.evaluate("each => { each.scrollLeft = each.scrollWidth; }")
    assert await table.evaluate("each => each.scrollLeft") > 0
    await table.scroll_into_view_if_needed()
    await expect(table.get_by_role("rowheader", name="default")).to_be_in_viewport(ratio=1)


async def test_the_operator_sees_rates_queues_latencies_and_the_gateway(
    tab: Tab, worker: PyocoNatsWorker
) -> None:
    now = time.time()
    past = [ended(at=now - 60 * minute, flow_name="past") for minute in range(1, 6) for _ in range(minute)]
    await write_many(tab.gateway.inside.connection, past)
    for _ in range(3):
        await tab.gateway.run("noop")
    await tab.gateway.run("failing")
    await tab.gateway.submit("noop", tag="gpu")
    await tab.open("/metrics?view=gateway")
    await expect(row(tab, "noop").get_by_role("cell").nth(0)).to_have_text("3")
    await expect(row(tab, "failing").get_by_role("cell").nth(1)).to_have_text("1")
    # A duration, not a dash.
    await expect(row(tab, "noop").get_by_role("cell").nth(5)).to_have_text(re.compile(r"\dm?s$"))
    await expect(row(tab, "gpu").get_by_role("cell").first).to_have_text("1")
    await expect(figure(tab, "Waiting jobs")).to_contain_text("1")
    await expect(figure(tab, "Busy slots")).to_contain_text("0 of 2, 1 worker")
    await expect(figure(tab, "Throughput")).to_contain_text("failed in the last hour")
    await expect(figure(tab, "Requests")).to_contain_text("/ s")
    await expect(row(tab, "/runs")).to_be_visible()
    await expect(tab.page.get_by_text("connected", exact=True)).to_be_visible()
    await expect(tab.page.get_by_role("img", name="Ended runs per minute, last hour")).to_be_visible()
    # Why these two do not go back further.
    await expect(tab.page.get_by_role("img", name="Busy slots, last 10 minutes")).to_be_visible()
    await expect(tab.page.get_by_text("the server stores no history of them")).to_be_visible()
    await tab.screenshots("metrics-gateway")


async def test_a_tenant_sees_its_own_metrics(
    browser: Browser, config: NatsBackendConfig, dashboard_folder: Path
) -> None:
    keyed = replace(config, http_auth_mode="api_key", http_operator_tenant="ops")
    async with running_gateway(keyed) as gateway, opened_tab(browser, gateway) as tab:
        inside = gateway.inside
        await put_record(inside.connection, a_record("steady", seen_at=4e9))
        key = await new_key(keyed, "acme")
        await inside.authentication.keys.confirm()
        await tab.open("/settings")
        await tab.page.get_by_label("API key").fill(key.text)
        await tab.page.get_by_role("button", name="Use this key").click()
        for tenant, flow in (("acme", "ours"), ("other", "theirs")):
            runs = [ended(RunStatus.FAILED, at=time.time(), flow_name=flow, tenant_id=tenant)]
            await write_many(inside.connection, runs)
        await tab.open("/metrics")
        await expect(row(tab, "ours")).to_be_visible()
        await expect(row(tab, "theirs")).to_have_count(0)
        await expect(figure(tab, "Success rate")).to_contain_text("0%")
        await tab.page.get_by_role("radio", name="This gateway").check()
        await expect(row(tab, "ours")).to_be_visible()
        await expect(row(tab, "theirs")).to_have_count(0)
        await expect(tab.page.get_by_text("These are the metrics of your tenant")).to_be_visible()
        await expect(tab.page.get_by_role("heading", name="Gateway and NATS")).to_have_count(0)
        await expect(tab.page.get_by_role("heading", name="HTTP requests")).to_have_count(0)
        await expect(figure(tab, "Throughput")).to_contain_text("100% failed in the last hour")
        await tab.is_accessible()
