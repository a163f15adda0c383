"""The metrics screen: rates, queues, slots and latencies, for an operator and for a tenant."""

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, expect

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import RunStatus
from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import Tab, opened_tab
from tests.support.broker.stored_runs import ended, write_many
from tests.support.broker.worker_records import a_record, put_record
from tests.support.running.api_keys import new_key
from tests.support.running.gateway import running_gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")


def figure(tab: Tab, label: str) -> Locator:
    return (
        tab.page.get_by_role("list", name="Metrics at a glance")
        .get_by_role("listitem")
        .filter(has_text=label)
    )


def row(tab: Tab, name: str) -> Locator:
    return tab.page.get_by_role("row").filter(has=tab.page.get_by_role("rowheader", name=name, exact=True))


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
    await tab.open("/metrics")
    await expect(row(tab, "noop").get_by_role("cell").nth(0)).to_have_text("3")
    await expect(row(tab, "failing").get_by_role("cell").nth(1)).to_have_text("1")
    # A duration, not a dash.
    await expect(row(tab, "noop").get_by_role("cell").nth(5)).to_have_text(re.compile(r"\d m?s$"))
    await expect(row(tab, "gpu").get_by_role("cell").first).to_have_text("1")
    await expect(figure(tab, "Waiting jobs")).to_contain_text("1")
    await expect(figure(tab, "Busy slots")).to_contain_text("0 of 2, 1 worker")
    await expect(figure(tab, "Throughput")).to_contain_text("failed in the last hour")
    await expect(figure(tab, "Requests")).to_contain_text("/ s")
    await expect(row(tab, "/runs")).to_be_visible()
    await expect(tab.page.get_by_text("connected", exact=True)).to_be_visible()
    await expect(tab.page.get_by_role("img", name="Ended runs per minute, last hour")).to_be_visible()
    await tab.screenshots("metrics")


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
        await expect(tab.page.get_by_text("These are the metrics of your tenant")).to_be_visible()
        await expect(tab.page.get_by_role("heading", name="Gateway and NATS")).to_have_count(0)
        await expect(tab.page.get_by_role("heading", name="HTTP requests")).to_have_count(0)
        await expect(figure(tab, "Throughput")).to_contain_text("100% failed in the last hour")
        await tab.is_accessible()
