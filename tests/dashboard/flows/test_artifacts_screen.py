"""The files of a run: listed, previewed without executing anything, downloaded."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Locator, expect

from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import Tab
from tests.support.running.workers import serving_worker

pytestmark = pytest.mark.asyncio(loop_scope="session")

FILES = """import base64
from pyoco import Flow, task

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

@task
def export(ctx):
    ctx.save_artifact("rows.csv", 'name,note\\nAda,"a, b"\\n')
    ctx.save_artifact("lines.jsonl", '{"id": 1, "city": "Kyoto"}\\n')
    ctx.save_artifact("notes/readme.md", "# Report\\n\\n<script>alert(1)</script> **bold**")
    ctx.save_artifact("page.html", "<h1>Shown</h1><script>parent.document.title = 'broken'</script>")
    ctx.save_artifact("plot.png", base64.b64decode(PIXEL))
    ctx.save_artifact("plain.txt", "just text")
    ctx.save_artifact("data.bin", bytes(range(256)))
    ctx.save_artifact("empty.txt", "")

files = Flow("files") >> export
"""


@pytest_asyncio.fixture(loop_scope="session")
async def worker(tab: Tab, tmp_path: Path) -> AsyncIterator[PyocoNatsWorker]:
    folder = tmp_path / "flows"
    folder.mkdir()
    (folder / "files.py").write_text(FILES)
    async with serving_worker(tab.gateway.inside.config, flows=folder) as serving:
        yield serving


async def preview(tab: Tab, name: str) -> Locator:
    await tab.page.get_by_role("button", name=f"Show {name}", exact=True).click()
    dialog = tab.page.get_by_role("dialog", name=name)
    await expect(dialog).to_be_visible()
    return dialog


async def test_files_are_listed_previewed_and_downloaded(tab: Tab, worker: PyocoNatsWorker) -> None:
    run_id = await tab.gateway.submit("files")
    assert (await tab.gateway.ends(run_id))["status"] == "COMPLETED"
    await tab.open(f"/runs/{run_id}")
    page = tab.page
    await expect(page.locator("[data-artifact]")).to_have_count(8)
    await tab.screenshots("run-files")
    await tab.set_language("en")

    dialog = await preview(tab, "rows.csv")
    await expect(dialog.get_by_role("cell", name="a, b")).to_be_visible()
    await tab.screenshot("file-csv")
    await tab.is_accessible()
    await page.keyboard.press("Escape")
    dialog = await preview(tab, "lines.jsonl")
    await expect(dialog.get_by_role("columnheader", name="city")).to_be_visible()
    await page.keyboard.press("Escape")
    dialog = await preview(tab, "notes/readme.md")
    await expect(dialog.get_by_role("heading", name="Report")).to_be_visible()
    await expect(dialog).to_contain_text("<script>alert(1)</script>")
    await page.keyboard.press("Escape")
    dialog = await preview(tab, "page.html")
    frame = dialog.locator("iframe")
    await expect(frame).to_have_attribute("sandbox", "")
    await expect(frame.content_frame.get_by_role("heading", name="Shown")).to_be_visible()
    assert "broken" not in await page.title()
    await tab.screenshot("file-html")
    await page.keyboard.press("Escape")
    dialog = await preview(tab, "plot.png")
    await expect(dialog.get_by_role("img", name="plot.png")).to_have_js_property("naturalWidth", 1)
    await page.keyboard.press("Escape")
    dialog = await preview(tab, "plain.txt")
    await expect(dialog).to_contain_text("just text")
    await page.keyboard.press("Escape")
    dialog = await preview(tab, "empty.txt")
    await expect(dialog).to_contain_text("The file is empty.")
    await page.keyboard.press("Escape")

    await expect(page.get_by_role("button", name="Show data.bin")).to_have_count(0)
    async with page.expect_download() as started:
        await page.get_by_role("button", name="Download data.bin").click()
    path = await (await started.value).path()
    assert path.read_bytes() == bytes(range(256))
    # The browser refuses the script of the page, and says so.
    tab.problems = [each for each in tab.problems if "sandbox" not in each]
