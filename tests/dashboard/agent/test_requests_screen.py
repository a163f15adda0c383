"""Agent requests in the browser, against `pyoco-server agent` and the scripted CLI of examples/agent."""

import json
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from tests.dashboard.browser import Tab, WarmContext, opened_tab
from tests.support.places import ROOT
from tests.support.programs import forked_stack
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

EXAMPLE = ROOT / "examples" / "agent"
WEB_URL = "https://github.com/ada/hello"
HOSTILE = '<img src=x onerror="window.owned=1"> <script>window.owned=1</script>'
# Of the last line, below the lower edge of the box.
HIDDEN_PX = """box => [...box.querySelectorAll("[data-line]")].at(-1).getBoundingClientRect().bottom
  - box.getBoundingClientRect().bottom"""
# The list measures its lines, and writes its scroll position, in the frames after they were drawn.
FRAMES = """() => new Promise((resolve) => {
  let left = 20;
  const next = () => (left-- > 0 ? requestAnimationFrame(next) : resolve());
  next();
})"""
# The scripted CLI of the example; words of the want make it slow, or print what a page must not interpret.
WRAPPER = f"""
import runpy, sys, time
prompt = open(sys.argv[1], encoding="utf-8").read()
if "be hostile" in prompt:
    print("\\033[31mred\\033[0m", {HOSTILE!r}, flush=True)
if "be slow" in prompt:
    open("half.txt", "w").write("half done")
    print("working slowly", flush=True)
    time.sleep({LIMIT_SEC})
runpy.run_path({str(EXAMPLE / "scripted_agent.py")!r}, run_name="__main__")
"""


@dataclass(frozen=True)
class Agent:
    url: str
    repo: Path

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.repo), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory, dashboard_folder: Path) -> Iterator[Agent]:
    """`pyoco-server agent` with a repository whose origin is a folder."""
    folder = tmp_path_factory.mktemp("agent")
    repo = folder / "hello"
    subprocess.run(["git", "init", "-q", "--bare", str(folder / "origin.git")], check=True)
    subprocess.run(["git", "init", "-q", "-b", "main", str(repo)], check=True)
    (repo / "tools").mkdir()
    (repo / "tools" / "scripted_agent.py").write_text(WRAPPER)
    settings = json.loads((EXAMPLE / ".aiflowrc.json").read_text())
    settings["git"]["repoWebUrl"] = WEB_URL
    (repo / ".aiflowrc.json").write_text(json.dumps(settings))
    (repo / "README.md").write_text("# Hello\n")
    made = Agent("", repo)
    made.git("config", "user.name", "Ada")
    made.git("config", "user.email", "ada@example.com")
    made.git("add", ".")
    made.git("commit", "-qm", "Start")
    made.git("remote", "add", "origin", str(folder / "origin.git"))
    made.git("push", "-qu", "origin", "main")
    arguments = ("agent", "--repo", str(repo), "--port", "0", "--nats-port", "0")
    with forked_stack(*arguments, cwd=folder) as program:
        program.writes("Press Ctrl-C to stop everything")
        shown = re.search(r"^Gateway +(\S+)", program.stdout, re.MULTILINE)
        assert shown is not None, program.stdout
        yield Agent(shown[1], repo)


@pytest_asyncio.fixture(loop_scope="session")
async def tab(warm_context: WarmContext, agent: Agent) -> AsyncIterator[Tab]:
    async with (
        httpx.AsyncClient(base_url=agent.url, timeout=LIMIT_SEC) as http,
        warm_context.tab(http=http) as opened,
    ):
        yield opened


async def created(tab: Tab, title: str, want: str = "", **fields: Any) -> str:
    body = {"title": title, "want": {"text": want}, **fields}
    response = await tab.http.post("/api/v1/requests", json=body)
    assert response.status_code == 201, response.text
    request_id: str = response.json()["request"]["id"]
    return request_id


async def stored(tab: Tab, request_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await tab.http.get(f"/api/v1/requests/{request_id}")).json()["request"]
    return found


async def ends(tab: Tab, request_id: str, status: str) -> dict[str, Any]:
    """The request, once it has this status; at once wrong when it fails instead."""

    async def there() -> bool:
        found = await stored(tab, request_id)
        assert found["status"] != "failed" or status == "failed", found["failure_reason"]
        return bool(found["status"] == status)

    await eventually(there, describe=f"{request_id} is {status}")
    return await stored(tab, request_id)


def part(tab: Tab, name: str) -> Locator:
    return tab.page.get_by_role("region", name=name, exact=True)


def badge(tab: Tab, status: str) -> Locator:
    return tab.page.locator(f"header [data-status={status}]")


async def test_a_request_goes_from_the_form_to_its_pull_request(tab: Tab, agent: Agent) -> None:
    await tab.open("/")
    page = tab.page
    await page.get_by_role("navigation").get_by_role("link", name="Requests").click()
    await page.get_by_role("link", name="New request").first.click()
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_text("Enter a title.")).to_be_visible()
    await expect(page.get_by_label("Title")).to_be_focused()
    await page.get_by_label("Title").fill("Greet people by name")
    await expect(page.get_by_label("Priority")).to_have_value("P2")
    await page.get_by_label("Labels").fill("demo, greeting")
    await page.get_by_label("What you want").fill("## Goal\n\nAsk which language the **greeting** is in.")
    await page.keyboard.press("ControlOrMeta+Enter")

    await expect(page.get_by_role("heading", name="Greet people by name")).to_be_visible()
    await expect(badge(tab, "queued")).to_be_visible()
    request_id = page.url.rpartition("/")[2]
    await expect(part(tab, "Document").locator("strong")).to_have_text("greeting")
    await page.get_by_role("button", name="Run", exact=True).click()

    question = part(tab, "Question")
    await expect(question).to_contain_text("Which language should the greeting be in?")
    await expect(part(tab, "Log")).to_contain_text("[PHASE] implementing")
    await expect(page.locator("[aria-current=step]")).to_have_text("Implementing")
    await tab.screenshots("request-question")
    await tab.set_language("en")
    await expect(question.get_by_role("button", name="Answer and resume")).to_be_disabled()
    await question.get_by_role("button", name="Japanese").click()
    await question.get_by_role("button", name="Answer and resume").click()

    await expect(badge(tab, "done")).to_be_visible()
    await expect(question).to_have_count(0)
    link = page.get_by_role("link", name="Create PR")
    branch = f"ai/{request_id}"
    await expect(link).to_have_attribute(
        "href", re.compile(rf"^{WEB_URL}/compare/main\.\.\.{branch}\?expand=1$")
    )
    await expect(link).to_have_attribute("rel", "noopener noreferrer")
    steps = part(tab, "Steps").get_by_role("listitem")
    await expect(steps).to_have_count(3)
    for step in ("S01", "S02", "S03"):
        commit = agent.git("log", "--format=%h", f"--grep=step:{step}", "--abbrev=7", f"origin/{branch}")
        await expect(steps.filter(has_text=step)).to_contain_text(commit)
        await expect(steps.filter(has_text=step)).to_contain_text("Tests passed")
    await steps.filter(has_text="S02").get_by_role("button", name="Diff").click()
    dialog = page.get_by_role("dialog", name="S02 Add a command")
    await expect(dialog.locator("[data-kind=added]").last).to_contain_text("+        argv = [sys.executable")
    await tab.screenshot("request-diff")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Close").click()
    await expect(part(tab, "Log")).to_contain_text("[DONE]")
    await expect(part(tab, "Document")).to_contain_text("Summary")
    assert "こんにちは" in agent.git("show", f"origin/{branch}:greeting.py")
    await tab.screenshots("request-done")


async def test_texts_of_people_and_programs_are_shown_as_text(tab: Tab) -> None:
    title = f"Hostile {HOSTILE}"
    want = f"be hostile\n\n{HOSTILE}\n\n[x](javascript:alert(1)) ![y](https://example.com/y.png)\n\na\u202eb"
    request_id = await created(tab, title, want, tags=["<b>bold</b>"])
    await tab.http.post(f"/api/v1/requests/{request_id}/enqueue")
    await ends(tab, request_id, "done")
    await tab.open("/requests")
    page = tab.page
    await expect(page.locator(f"[data-request='{request_id}']")).to_contain_text(title)
    await tab.open(f"/requests/{request_id}?show=want")
    await expect(page.get_by_role("heading", level=1)).to_have_text(title)
    document = part(tab, "Document")
    await expect(document).to_contain_text(HOSTILE)
    await expect(document).to_contain_text("[x](javascript:alert(1))")
    await expect(document).to_contain_text("a⟨U+202E⟩b")
    log = part(tab, "Log").get_by_role("log")
    await expect(log).to_contain_text("[DONE]")
    # Its lines wrap: they are taller than the list expects before it has measured them.
    for width in (1440, 1280):
        await page.set_viewport_size({"width": width, "height": 900})
        await page.reload()
        await expect(log).to_contain_text("[DONE]")
        await page.evaluate(FRAMES)
        assert await log.evaluate(HIDDEN_PX) <= 0, width
    await log.evaluate("box => box.scrollTo(0, 0)")
    await expect(log).to_contain_text(f"red {HOSTILE}")
    assert await page.locator("main script, main img").count() == 0
    assert not await page.evaluate("'owned' in window")
    await tab.screenshot("request-hostile")
    await tab.is_accessible()


async def test_a_stopped_run_is_queued_with_its_work_saved(tab: Tab, agent: Agent) -> None:
    request_id = await created(tab, "Slow work", "be slow", priority="P1")
    waiting = await created(tab, "Next in the queue", priority="P3")
    await tab.open("/requests")
    page = tab.page
    row = page.locator(f"[data-request='{request_id}']")
    await row.get_by_role("button", name="Run").click()
    running = page.locator("[data-group=running]")
    await expect(running.locator(f"[data-request='{request_id}']")).to_be_visible()
    other = page.locator(f"[data-request='{waiting}']")
    await other.get_by_role("button", name="Run").click()
    await expect(other).to_contain_text("In the queue")
    await tab.screenshots("requests")
    await tab.set_language("en")
    await other.get_by_role("button", name="Take out of the queue").click()
    await expect(other.get_by_role("button", name="Run")).to_be_visible()

    await tab.open(f"/requests/{request_id}")
    await expect(part(tab, "Log")).to_contain_text("working slowly")
    await page.get_by_role("button", name="Stop").click()
    await expect(badge(tab, "queued")).to_be_visible()
    await expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
    assert agent.git("show", f"ai/{request_id}:half.txt") == "half done"


async def test_a_refused_run_shows_its_code_and_changes_nothing(tab: Tab, agent: Agent) -> None:
    request_id = await created(tab, "Not from a dirty tree")
    await tab.open(f"/requests/{request_id}")
    (agent.repo / "README.md").write_text("# Changed\n")
    try:
        await tab.page.get_by_role("button", name="Run", exact=True).click()
        await expect(tab.page.get_by_text("WORKTREE_DIRTY")).to_be_visible()
    finally:
        agent.git("checkout", "-q", "README.md")
    found = await stored(tab, request_id)
    assert (found["status"], found["enqueued_at"], found["run_id"]) == ("queued", None, None)


async def test_codes_of_the_gateway_are_explained_in_japanese(tab: Tab, agent: Agent) -> None:
    meaning = "コミットされていない変更があります"
    request_id = await created(tab, "日本語の画面")
    await tab.open(f"/requests/{request_id}")
    await tab.set_language("ja")
    page = tab.page
    (agent.repo / "README.md").write_text("# Changed\n")
    try:
        await page.get_by_role("button", name="実行", exact=True).click()
        toast = page.locator("[aria-live=polite]").filter(has_text="WORKTREE_DIRTY")
        await expect(toast).to_contain_text(meaning)
        await expect(toast).to_contain_text("README.md")
        await tab.open("/doctor")
        check = page.locator("[data-check=worktree][data-ok=false]")
        await expect(check).to_contain_text("作業ツリー")
        await expect(check).to_contain_text(meaning)
        await expect(check).to_contain_text("README.md")
        await expect(check).not_to_contain_text("Please")
        await tab.screenshot("doctor-ja")
    finally:
        agent.git("checkout", "-q", "README.md")
    file = agent.repo / "requests" / f"{request_id}.md"
    reason = '"PUSH_FAILED: origin says no"'
    file.write_text(file.read_text().replace("status: queued", f"status: failed\nfailure_reason: {reason}"))
    await tab.open("/requests")
    await expect(page.locator(f"[data-request='{request_id}']")).to_contain_text("プッシュできませんでした")
    await tab.open(f"/requests/{request_id}")
    await expect(part(tab, "失敗の理由")).to_contain_text(
        "プッシュできませんでした。origin says no PUSH_FAILED"
    )
    await tab.screenshot("request-failed-ja")
    file.write_text(file.read_text().replace("PUSH_FAILED: ", "SOMETHING_NEW: "))
    await expect(part(tab, "失敗の理由")).to_have_text("origin says no SOMETHING_NEW")
    await tab.set_language("en")
    await expect(part(tab, "Why it failed")).to_have_text("origin says no SOMETHING_NEW")


async def test_a_request_is_deleted_after_a_question(tab: Tab, agent: Agent) -> None:
    request_id = await created(tab, "Not needed any more", "be slow")
    file = agent.repo / "requests" / f"{request_id}.md"
    await tab.open(f"/requests/{request_id}")
    page = tab.page
    delete = page.get_by_role("button", name="Delete…")
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(badge(tab, "running")).to_be_visible()
    await expect(delete).to_have_count(0)
    await page.get_by_role("button", name="Stop").click()
    await expect(badge(tab, "queued")).to_be_visible()
    await delete.click()
    dialog = page.get_by_role("dialog", name="Delete Not needed any more?")
    await tab.screenshot("request-delete")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Keep it").click()
    assert file.exists()
    await delete.click()
    await dialog.get_by_role("button", name="Delete", exact=True).click()
    await expect(page).to_have_url(re.compile(r"#/requests$"))
    await expect(page.get_by_text("Not needed any more is deleted")).to_be_visible()
    await expect(page.locator(f"[data-request='{request_id}']")).to_have_count(0)
    assert not file.exists()


async def test_a_request_is_edited(tab: Tab) -> None:
    request_id = await created(tab, "First title", "First want")
    await tab.open(f"/requests/{request_id}")
    page = tab.page
    await page.get_by_role("link", name="Edit").click()
    await expect(page.get_by_label("What you want")).to_have_value("First want")
    await page.get_by_label("Title").fill("Second title")
    await page.get_by_label("Priority").select_option("P0 · now")
    await tab.screenshots("request-form")
    await tab.set_language("en")
    await page.get_by_label("Title").fill("Second title")
    await page.get_by_label("Priority").select_option("P0 · now")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", name="Second title")).to_be_visible()
    found = await stored(tab, request_id)
    assert (found["title"], found["priority"]) == ("Second title", "P0")


async def test_the_board_is_ordered_and_filtered(tab: Tab) -> None:
    for priority in ("P3", "P0", "P1"):
        await created(tab, f"Ordered {priority}", priority=priority, tags=["ordered"])
    await tab.open("/requests?q=ordered")
    page = tab.page
    rows = page.locator("[data-group=queued] [data-request] [data-row]")
    await expect(rows).to_have_text(["Ordered P0", "Ordered P1", "Ordered P3"])
    await page.keyboard.press("j")
    await expect(rows.nth(0)).to_be_focused()
    await page.get_by_role("searchbox").fill("nothing like this")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("No request matches")).to_be_visible()
    await page.get_by_role("button", name="Clear the filter").click()
    await expect(rows.filter(has_text="Ordered P0")).to_be_visible()


async def test_a_file_with_a_broken_header_is_shown_as_it_is(tab: Tab, agent: Agent) -> None:
    file = agent.repo / "requests" / "20261117-broken.md"
    file.write_text("---\nid: [never closed\n---\n\nby hand\n")
    try:
        await tab.open("/requests/20261117-broken")
        await expect(tab.page.get_by_role("region", name="To be corrected in the file")).to_be_visible()
        await expect(part(tab, "Document")).to_contain_text("by hand")
        await tab.screenshot("request-broken")
        await tab.is_accessible()
    finally:
        file.unlink()
    await tab.open("/requests/no-such-request")
    await expect(tab.page.get_by_text("Request not found")).to_be_visible()


async def test_the_doctor_shows_the_command_that_corrects_a_check(tab: Tab, agent: Agent) -> None:
    await tab.open("/requests")
    page = tab.page
    await page.get_by_role("link", name="Environment check").click()
    await expect(page.locator("[data-check=git][data-ok=true]")).to_be_visible()
    await expect(page.locator("[data-check=base_branch]")).to_contain_text("Base branch")
    await expect(page.get_by_text("Everything is ready.")).to_be_visible()
    url = agent.git("remote", "get-url", "origin")
    agent.git("remote", "remove", "origin")
    try:
        await page.get_by_role("button", name="Check again").click()
        failed = page.locator("[data-check=origin][data-ok=false]")
        await expect(failed.locator("code")).to_contain_text("remote add origin")
        await tab.screenshots("doctor")
    finally:
        agent.git("remote", "add", "origin", url)


async def test_a_gateway_without_a_repository_has_no_requests(browser: Browser, gateway: Any) -> None:
    async with opened_tab(browser, gateway) as tab:
        await tab.open("/")
        navigation = tab.page.get_by_role("navigation")
        await expect(navigation.get_by_role("link", name="Hooks")).to_be_visible()
        await expect(navigation.get_by_role("link", name="Requests")).to_have_count(0)
        await tab.open("/requests")
        await expect(tab.page.get_by_role("alert")).to_contain_text("NO_REPOSITORY")
