"""A run on a worker that died, while no other worker serves its tag: on every screen that shows it."""

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from pyoco_server.config import NatsBackendConfig
from tests.dashboard.browser import Tab
from tests.support.places import FLOWS
from tests.support.programs import WORKER, running
from tests.support.running.workers import serving_worker

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_run_on_a_dead_worker_needs_attention_until_another_takes_it(
    tab: Tab, config: NatsBackendConfig, tmp_path: Path
) -> None:
    page, release = tab.page, tmp_path / "release"
    warning = page.locator("[data-warning='lost']")
    arguments = ("--flows", str(FLOWS), "--worker-id", "killed", "--tags", "gpu")
    with running(WORKER, *arguments, cwd=tmp_path, PYOCO_NATS_URL=config.nats_url or "") as (worker, _):
        run_id = await tab.gateway.submit("waiting", tag="gpu", params={"path": str(release)})
        # Otherwise what is left of the run names no task.
        await tab.gateway.task_runs(run_id, "wait_for_file")
        await tab.open("/runs")
        badge = page.locator(f"[data-run='{run_id}'] [data-status]")
        await expect(badge).to_have_text("Running")
        worker.process.kill()
        worker.end()

    # The list notices it while it is open.
    await expect(badge).to_have_text("Worker lost")
    await expect(badge).to_have_attribute("title", re.compile("worker killed stopped responding"))
    await tab.screenshots("runs-lost")
    await tab.open("/", lang="en")
    await expect(warning).to_contain_text(
        "1 run with tag “gpu” is not being executed: worker killed stopped responding, "
        "and no other worker serves that tag."
    )
    await expect(warning).to_contain_text(
        re.compile(r"pyoco-worker --flows \./flows --nats-url nats://\S+ --tag gpu")
    )
    await expect(page.locator("[data-warning]")).to_have_count(1)
    figures = page.get_by_role("list", name="Runs and workers at a glance")
    await expect(figures.get_by_role("link", name="Running")).to_contain_text("1 not being executed")
    await tab.screenshots("home-lost")
    await tab.set_language("en")
    await warning.get_by_role("link", name="Show these runs").click()
    await expect(badge).to_have_text("Worker lost")
    await tab.open(f"/runs/{run_id}")
    await expect(page.locator("h1").locator("..").locator("[data-status]").first).to_have_text("Worker lost")
    graph = page.get_by_role("region", name="Flow")
    await expect(graph.get_by_text("1 Interrupted")).to_be_visible()
    await expect(graph.get_by_text("Running")).to_have_count(0)
    await tab.screenshots("run-lost")
    await tab.set_language("en")

    release.touch()
    async with serving_worker(config, worker_id="heir", tags=["gpu"]):
        await tab.gateway.ends(run_id)
    await tab.open("/")
    await expect(page.get_by_role("heading", name="Ended runs")).to_be_visible()
    await expect(warning).to_have_count(0)
    await tab.open("/runs")
    await expect(badge).to_have_text("Completed")
