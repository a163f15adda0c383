"""The wheels screen: registry, uploads, history, deletions."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from pyoco_server.records.workers.worker_models import (
    FailedWheel,
    InstalledWheel,
    SkippedWheel,
    WheelSyncResult,
    WheelSyncState,
    WorkerHost,
)
from tests.dashboard.browser import Tab
from tests.support.broker.worker_records import a_record, put_record
from tests.support.samples.wheel_uploads import registered
from tests.support.samples.wheels import wheel_file
from tests.support.waiting import NEVER_SEC

pytestmark = pytest.mark.asyncio(loop_scope="session")


def row(tab: Tab, name: str) -> Locator:
    return tab.page.locator(f"[data-wheel='{name}']")


async def names(tab: Tab) -> list[str]:
    answer = await tab.gateway.http.get("/wheels")
    return [wheel["name"] for wheel in answer.json()]


async def have_a_worker_with(tab: Tab, wheel: dict[str, Any]) -> None:
    installed = InstalledWheel(
        package="shop",
        version="1.10.0",
        installed_at=time.time(),
        **{name: wheel[name] for name in ("name", "nuid", "sha256_hex")},
    )
    sync = WheelSyncState(enabled=True, last_result=WheelSyncResult.OK, installed_wheels=[installed])
    # Seen in the future: it stays online for the whole test.
    record = a_record("cpu-1", seen_at=time.time() + NEVER_SEC, tags=["cpu"], wheel_sync=sync)
    await put_record(tab.gateway.inside.connection, record)


async def test_a_wheel_is_uploaded(tab: Tab, tmp_path: Path) -> None:
    await tab.open("/wheels")
    await expect(tab.page.get_by_role("heading", name="No wheels yet")).to_be_visible()
    await tab.screenshot("wheels-empty")
    await tab.page.get_by_role("button", name="Upload a wheel").last.click()
    dialog = tab.page.get_by_role("dialog", name="Upload a wheel")
    upload = dialog.get_by_role("button", name="Upload", exact=True)
    await expect(upload).to_be_disabled()

    (tmp_path / "notes.whl").write_text("not a wheel")
    await dialog.get_by_label("Wheel", exact=True).set_input_files(tmp_path / "notes.whl")
    await expect(dialog.get_by_role("alert")).to_contain_text("is not a wheel file name")
    file = wheel_file(tmp_path, "shop", "1.2.0")
    await dialog.get_by_label("Wheel", exact=True).set_input_files(file)
    await expect(dialog).to_contain_text("shop, version 1.2.0 · a new package")
    tags = dialog.get_by_label("For workers with one of these tags")
    await tags.fill("gpu, no good")
    await upload.click()
    await expect(tags).to_have_attribute("aria-invalid", "true")
    await expect(dialog.get_by_role("alert")).to_contain_text("the tag 'no good'")
    await tab.screenshot("wheels-upload-refused")
    await tab.is_accessible()

    await tags.fill("gpu, linux")
    await upload.click()
    await expect(dialog).to_have_count(0)
    await expect(row(tab, file.name)).to_contain_text("1.2.0")
    await expect(row(tab, file.name)).to_contain_text("linux")
    assert await names(tab) == [file.name]

    await tab.page.get_by_role("button", name="Upload a wheel").click()
    await dialog.get_by_label("Wheel", exact=True).set_input_files(wheel_file(tmp_path, "shop", "1.1.0"))
    await expect(dialog).to_contain_text("must be newer than 1.2.0")
    await upload.click()
    await expect(dialog.get_by_role("alert")).to_contain_text("1.2.0")
    await expect(dialog.get_by_label("Wheel", exact=True)).to_have_attribute("aria-invalid", "true")


async def test_a_large_upload_shows_its_progress_and_can_be_aborted(tab: Tab, tmp_path: Path) -> None:
    client = await tab.page.context.new_cdp_session(tab.page)
    await tab.open("/wheels")
    await tab.page.get_by_role("button", name="Upload a wheel").last.click()
    dialog = tab.page.get_by_role("dialog", name="Upload a wheel")
    file = wheel_file(tmp_path, "slow", "1.0")
    # Takes half a minute: it must not finish before it is aborted.
    file.write_bytes(file.read_bytes() + b"\0" * 30_000_000)
    await dialog.get_by_label("Wheel", exact=True).set_input_files(file)
    slowly = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 1_000_000}
    await client.send("Network.emulateNetworkConditions", slowly)
    await dialog.get_by_role("button", name="Upload", exact=True).click()
    await expect(dialog.get_by_role("status")).to_contain_text(re.compile(r"Uploading [1-9]"))
    await expect(dialog.get_by_role("progressbar")).to_be_visible()
    await tab.screenshot("wheels-uploading")
    await dialog.get_by_role("button", name="Go back").click()
    await expect(dialog).to_have_count(0)
    assert await names(tab) == []


async def test_the_registry_and_its_history(tab: Tab) -> None:
    await registered(tab.gateway, "shop", "1.9.0")
    shop = await registered(tab.gateway, "shop", "1.10.0", tags="cpu")
    await registered(tab.gateway, "fast_math", "0.3.1", platform="cp311-cp311-linux_x86_64", tags="gpu,linux")
    await registered(tab.gateway, "reports", "2026.11")
    await have_a_worker_with(tab, shop)
    newest = shop["name"]
    await tab.open("/wheels")
    await expect(tab.page.get_by_text("4 wheels")).to_be_visible()
    await expect(row(tab, newest)).to_contain_text("newest")
    await expect(row(tab, newest)).to_contain_text("installed on 1 worker")
    await expect(row(tab, "shop-1.9.0-py3-none-any.whl")).not_to_contain_text("newest")
    await tab.screenshots("wheels")
    await tab.set_language("en")

    async with tab.page.expect_download() as downloading:
        await tab.page.get_by_role("button", name=f"Download {newest}").click()
    assert (await downloading.value).suggested_filename == newest

    await tab.page.get_by_role("button", name=f"Delete {newest}").click()
    dialog = tab.page.get_by_role("dialog", name="Delete this wheel?")
    await tab.screenshot("wheels-delete")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Delete", exact=True).click()
    await expect(row(tab, newest)).to_have_count(0)
    assert newest not in await names(tab)

    await tab.page.get_by_text("History", exact=True).click()
    await expect(tab.page.get_by_role("row")).to_have_count(6)
    await tab.screenshot("wheels-history")
    await tab.is_accessible()
    await tab.open(f"/wheels?view=history&wheel={newest}&action=delete")
    await expect(tab.page.get_by_role("row")).to_have_count(2)
    await expect(tab.page.get_by_role("row").last).to_contain_text("Deleted")


async def have_workers_that_cannot_install(tab: Tab, name: str) -> None:
    host = WorkerHost(name="rack-7", system="Linux x86_64", python="3.11.2", cpus=4)
    python = SkippedWheel(name=name, reason="in English", needs="python", expected=">=3.99")
    failed = FailedWheel(name=name, reason="pip ended with code 1: No space left on device (not installed)")
    syncs = {
        "no-python": WheelSyncState(enabled=True, skipped_incompatible=[python]),
        "no-space": WheelSyncState(enabled=True, failed_wheels=[failed], selected_wheels=[name]),
        "slow": WheelSyncState(enabled=True, selected_wheels=[name]),
        "without": WheelSyncState(),
    }
    for worker_id, sync in syncs.items():
        record = a_record(worker_id, seen_at=time.time() + NEVER_SEC, host=host, wheel_sync=sync)
        await put_record(tab.gateway.inside.connection, record)


async def test_a_wheel_says_which_workers_cannot_install_it_and_why(tab: Tab) -> None:
    wheel = await registered(tab.gateway, "shop", "1.10.0")
    name = wheel["name"]
    await have_a_worker_with(tab, wheel)
    await have_workers_that_cannot_install(tab, name)
    await tab.open("/wheels")
    await expect(row(tab, name)).to_contain_text("2 workers cannot install it")
    await expect(row(tab, name)).to_contain_text("pending on 1 worker")
    await expect(tab.page.get_by_text("1 online worker installs no wheels")).to_be_visible()
    await row(tab, name).get_by_text("2 workers cannot install it").click()
    refused = row(tab, name).locator("[data-refused]")
    await expect(refused.filter(has_text="no-python")).to_contain_text(
        "It needs Python >=3.99; this worker has 3.11.2."
    )
    await expect(refused.filter(has_text="no-space")).to_contain_text("No space left on device")
    await expect(row(tab, name)).to_contain_text("cpu-1 has it installed")
    await tab.screenshot("wheels-refused")
    await tab.is_accessible()
    await tab.set_language("ja")
    await expect(row(tab, name)).to_contain_text("2台のワーカーにはインストールできません")
    await expect(refused.filter(has_text="no-python")).to_contain_text("Python >=3.99 が必要です。")
    await refused.get_by_role("link", name="no-space").click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/workers?worker=no-space")
