"""The workers screen: state, details, pause, hide and drain."""

import platform
import re
import socket
import time
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from pyoco_server import __version__
from pyoco_server.records.workers.worker_models import (
    InstalledWheel,
    SkippedWheel,
    WheelSyncResult,
    WheelSyncState,
    WorkerState,
)
from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import Tab
from tests.support.broker.worker_records import a_record, put_record, worker_is
from tests.support.waiting import NEVER_SEC

pytestmark = pytest.mark.asyncio(loop_scope="session")


def row(tab: Tab, worker_id: str = "worker") -> Locator:
    return tab.page.locator(f"[data-worker='{worker_id}']")


async def choose(tab: Tab, action: str, worker_id: str = "worker") -> None:
    await tab.page.get_by_role("button", name=f"Actions for {worker_id}").click()
    await tab.page.get_by_role("menuitem", name=action).click()


async def have_others(tab: Tab) -> None:
    """Records of further workers, some of them stopped or failing."""
    now = time.time()
    # They stay online for the whole test.
    online = now + NEVER_SEC
    known = {"version": __version__, "pyoco_version": "0.6.1", "slots": 4}
    shop = InstalledWheel(
        name="shop-1.4.0-py3-none-any.whl",
        package="shop",
        version="1.4.0",
        nuid="a",
        sha256_hex=None,
        installed_at=now - 900,
    )
    skipped = SkippedWheel(
        name="fast-2.0-cp312-cp312-win_amd64.whl",
        reason="it is for cp312-cp312-win_amd64, which this Python does not have",
    )
    fine = WheelSyncState(
        enabled=True,
        last_result=WheelSyncResult.OK,
        last_attempt_at=now - 20,
        last_synced_at=now - 900,
        installed_wheels=[shop],
        updated_wheels=[shop.name],
        skipped_incompatible=[skipped],
        skipped_incompatible_count=1,
    )
    bad = WheelSyncState(
        enabled=True,
        last_result=WheelSyncResult.ERROR,
        error="shop 1.5.0: pip ended with 1: No space left on device. shop 1.4.0 stays in use.",
        last_attempt_at=now - 40,
        last_synced_at=now - 86400,
        installed_wheels=[shop],
    )
    records = [
        a_record("gpu-1", seen_at=online, tags=["gpu", "linux"], wheel_sync=fine, paused=True, **known),
        a_record(
            "gpu-2",
            seen_at=online,
            last_progress_at=now - 70,
            tags=["gpu"],
            wheel_sync=bad,
            **{**known, "version": "0.0.9"},
        ),
        a_record("build-7", seen_at=now - 900, last_progress_at=now - 910, **known),
        a_record(
            "build-6",
            seen_at=now - 4000,
            state=WorkerState.STOPPED_GRACEFUL,
            stopped_at=now - 4000,
            stop_reason="drained",
            **known,
        ),
    ]
    for record in records:
        await put_record(tab.gateway.inside.connection, record)


async def test_without_workers_the_command_to_start_one_is_shown(tab: Tab) -> None:
    await tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await tab.open("/workers")
    await expect(tab.page.get_by_role("heading", name="No workers yet")).to_be_visible()
    await tab.screenshot("workers-empty")
    await tab.is_accessible()
    await tab.page.get_by_role("button", name="Copy").click()
    await expect(tab.page.get_by_role("button", name="Copied")).to_be_visible()
    command = await tab.page.evaluate("navigator.clipboard.readText()")
    # For this installation, with placeholders for the credentials of the worker.
    assert " --flows ./flows --nats-url nats://" in command
    assert tab.gateway.inside.config.nats_url not in command or "@" not in command
    await put_record(tab.gateway.inside.connection, a_record("late", seen_at=time.time() + NEVER_SEC))
    await expect(row(tab, "late")).to_contain_text("Idle")


async def test_the_state_of_each_worker_is_shown(tab: Tab, worker: PyocoNatsWorker, tmp_path: Path) -> None:
    await have_others(tab)
    run_id = await tab.gateway.submit("waiting", params={"path": str(tmp_path / "go")})
    await tab.gateway.reaches(run_id, "RUNNING")
    await tab.open("/workers")
    await expect(row(tab)).to_contain_text("Running")
    await expect(row(tab)).to_contain_text("1 of 2 busy")
    await expect(row(tab, "build-7")).to_contain_text("Disconnected")
    await expect(row(tab, "build-6")).to_have_count(0)
    await tab.page.get_by_role("button", name="Stopped 1").click()
    await expect(row(tab, "build-6")).to_contain_text("Stopped")

    await tab.page.get_by_role("button", name="gpu-1", exact=True).click()
    await expect(row(tab, "gpu-1")).to_contain_text("which this Python does not have")
    await expect(tab.page).to_have_url(f"{tab.url}/#/workers?stopped=1&worker=gpu-1")
    await tab.screenshots("workers")
    await tab.set_language("en")
    await tab.page.reload()
    await tab.open("/workers?worker=gpu-2")
    await expect(row(tab, "gpu-2")).to_contain_text("No space left on device")
    await tab.screenshot("workers-sync-failed")

    for key in ("j", "j", "k", "Enter"):
        await tab.page.keyboard.press(key)
    await expect(tab.page).to_have_url(f"{tab.url}/#/workers?worker=gpu-1")
    await tab.search("default")
    await expect(row(tab, "gpu-2")).to_have_count(0)
    await row(tab).get_by_role("link", name="waiting").click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs/{run_id}")
    (tmp_path / "go").touch()
    await tab.gateway.ends(run_id)
    await tab.open("/workers")
    await expect(row(tab)).to_contain_text("No runs")


async def test_flows_host_and_history_of_a_worker(tab: Tab, worker: PyocoNatsWorker) -> None:
    await tab.open("/workers")
    await expect(row(tab)).to_contain_text(socket.gethostname())
    await choose(tab, "Pause")
    await expect(row(tab)).to_contain_text("Paused")
    await tab.page.get_by_role("button", name="worker", exact=True).click()
    details = row(tab)
    await expect(details).to_contain_text(platform.python_version())
    await expect(details).to_contain_text(re.compile(r"[0-9.]+ [MG]B in \d+ processes"))
    await expect(details.get_by_role("meter", name="Memory of the host")).to_be_visible()
    events = details.locator("[data-event]")
    await expect(events).to_have_count(2)
    await expect(events.first).to_contain_text("Paused")
    await expect(events.last).to_contain_text("Started")
    await tab.screenshots("workers-details")
    await tab.set_language("en")
    # The address keeps what is open, and a flow can be searched for.
    await tab.page.reload()
    await tab.page.get_by_role("searchbox").fill("retrying")
    await row(tab).get_by_role("button", name=re.compile("Show all [0-9]+ flows")).click()
    await row(tab).get_by_role("link", name="retrying", exact=True).click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/flows/retrying")


async def test_a_worker_of_an_earlier_version_is_shown_without_them(tab: Tab) -> None:
    now = time.time()
    old = a_record("old", seen_at=now - 900, version="0.0.9", pyoco_version="0.6.1")
    await put_record(tab.gateway.inside.connection, old)
    await tab.open("/workers?worker=old")
    await expect(row(tab, "old")).to_contain_text("does not report its host")
    # A worker that has died has reported nothing.
    await expect(row(tab, "old").locator("[data-event]")).to_contain_text("Last heartbeat, then disconnected")
    await tab.page.get_by_role("button", name="Add a worker").click()
    dialog = tab.page.get_by_role("dialog", name="Add a worker")
    await expect(dialog).to_contain_text("--nats-url nats://")
    await expect(dialog.get_by_role("button", name="Copy")).to_be_visible()
    await tab.screenshot("workers-add")
    await tab.is_accessible()


async def test_pause_hide_and_drain(tab: Tab, worker: PyocoNatsWorker) -> None:
    await tab.open("/workers")
    await choose(tab, "Pause")
    await expect(row(tab)).to_contain_text("Paused")
    await worker_is(tab.gateway, paused=True)
    await choose(tab, "Resume")
    await expect(row(tab)).not_to_contain_text("Paused")
    await worker_is(tab.gateway, paused=False)

    await choose(tab, "Hide")
    await expect(row(tab)).to_have_count(0)
    await worker_is(tab.gateway, hidden=True)
    await tab.page.get_by_role("link", name="Show hidden workers").click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/workers?hidden=1")
    await expect(row(tab)).to_contain_text("Hidden")
    await choose(tab, "Show again")
    await worker_is(tab.gateway, hidden=False)

    await choose(tab, "Drain…")
    dialog = tab.page.get_by_role("dialog", name="Drain worker?")
    await expect(dialog).to_contain_text("cannot be undone")
    await tab.screenshot("workers-drain")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Keep it").click()
    assert not (await worker_is(tab.gateway))["draining"]
    await expect(tab.page.get_by_role("button", name="Actions for worker")).to_be_focused()
    await choose(tab, "Drain…")
    await dialog.get_by_role("button", name="Drain", exact=True).click()
    await expect(row(tab)).to_contain_text("Draining")
    await worker_is(tab.gateway, draining=True)
