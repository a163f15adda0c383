"""The React hook as a package: packed by npm, and used by an example page in a browser."""

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from pyoco_server.config import NatsBackendConfig
from tests.support.places import ROOT
from tests.support.programs import environment, started
from tests.support.running.api_keys import new_key
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC

UI = ROOT / "ui"
PACKAGE = UI / "packages" / "react"
EXAMPLE = ROOT / "examples" / "human-inbox"
MODULES = UI / "node_modules"
NAME = "pyoco-server-react"


def node(*arguments: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(each) for each in arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked package, as `npm install` would unpack it."""
    npm = shutil.which("npm")
    if npm is None or not MODULES.is_dir():
        pytest.skip("the packages of ui are missing: `make ui` installs them")
    # A copy: a build beside the source would look like a change of the dashboard.
    folder = tmp_path_factory.mktemp("react")
    source = folder / "source"
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("dist"))
    (folder / "node_modules").symlink_to(MODULES)
    [archive] = json.loads(node(npm, "pack", "--json", "--pack-destination", folder, cwd=source))
    with tarfile.open(folder / archive["filename"]) as tar:
        tar.extractall(folder, filter="data")
    return folder / "package"


@pytest.fixture(scope="module")
def example(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built example, with the packed hook; the types of both are checked."""
    folder = tmp_path_factory.mktemp("example") / "human-inbox"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    modules = folder / "node_modules"
    (modules / "@types").mkdir(parents=True)
    shutil.copytree(packed, modules / NAME)
    for name in ("react", "react-dom", "scheduler", "@types/react", "@types/react-dom", "csstype"):
        if (MODULES / name).exists():
            (modules / name).symlink_to(MODULES / name)
    node("node", MODULES / "typescript" / "bin" / "tsc", cwd=folder)
    node("node", MODULES / "vite" / "bin" / "vite.js", "build", "--logLevel", "warn", cwd=folder)
    return folder


def test_the_package_has_the_hook_and_nothing_else(packed: Path) -> None:
    described = json.loads((packed / "package.json").read_text())
    assert "dependencies" not in described
    assert list(described["peerDependencies"]) == ["react"]
    files = {path.relative_to(packed).as_posix() for path in packed.rglob("*") if path.is_file()}
    built = {f"dist/{path.stem}{end}" for path in (packed / "dist").glob("*.js") for end in (".js", ".d.ts")}
    assert "dist/useHumanWaits.js" in built
    assert files == {"LICENSE", "README.md", "package.json", *built}
    assert not [name for name in files if "test" in name]
    assert described["exports"]["."] == {"types": "./dist/index.d.ts", "default": "./dist/index.js"}
    imported = {
        name
        for path in (packed / "dist").iterdir()
        for name in re.findall(r'(?:from|import) "([^"]+)"', path.read_text())
    }
    assert {name for name in imported if not name.startswith("./")} == {"react"}
    # Resolved by Node itself, not only by a bundler.
    assert all(name.endswith(".js") for name in imported - {"react"})


@pytest_asyncio.fixture(loop_scope="session")
async def keyed(config: NatsBackendConfig) -> AsyncIterator[tuple[RunningGateway, str]]:
    """A gateway that requires keys, a worker, and a key."""
    locked = replace(config, http_auth_mode="api_key")
    async with running_gateway(locked) as gateway, serving_worker(locked):
        key = await new_key(locked)
        await gateway.inside.authentication.keys.confirm()
        gateway.http.headers["X-API-Key"] = key.text
        yield gateway, key.text


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, example: Path, keyed: tuple[RunningGateway, str]) -> AsyncIterator[Page]:
    """The example page, from its own server, which adds the key."""
    gateway, key = keyed
    vite = ["node", str(MODULES / "vite" / "bin" / "vite.js"), "preview", "--port", "0"]
    settings = {"PYOCO_SERVER": str(gateway.http.base_url), "PYOCO_API_KEY": key, "NO_COLOR": "1"}
    with started(vite, cwd=example, **settings) as server:
        server.writes("Local:")
        url = re.search(r"http://127\.0\.0\.1:\d+/", server.stdout)
        assert url, server.stdout
        context = await browser.new_context()
        opened = await context.new_page()
        opened.set_default_timeout(LIMIT_SEC * 1000)
        problems: list[str] = []
        opened.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        opened.on("pageerror", lambda error: problems.append(str(error)))
        await opened.goto(url[0])
        yield opened
        await context.close()
        assert problems == []


@pytest.mark.asyncio(loop_scope="session")
async def test_the_example_page_answers_a_question_and_shows_the_next_one(
    page: Page, keyed: tuple[RunningGateway, str], tmp_path: Path
) -> None:
    gateway, key = keyed
    await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    first = await gateway.submit("approval", params={"notes": str(tmp_path / "notes")})
    question = page.get_by_role("listitem").filter(has_text="Is the amount right?")
    await expect(question).to_have_attribute("data-status", "waiting_human")
    await question.get_by_role("button", name="Approve").click()
    ended = await gateway.ends(first)
    assert ended["status"] == "COMPLETED"
    await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    second = await gateway.submit("ask")
    await page.get_by_role("button", name="Reject").click()
    assert (await gateway.ends(second))["status"] == "COMPLETED"
    [wait] = (await gateway.http.get("/waits", params={"run_id": first, "state": "answered"})).json()["items"]
    assert (await gateway.http.get(f"/waits/{wait['wait_id']}")).json()["payload"] == {"decision": "approved"}
    # The key is known to the server of the page only.
    assert key not in await page.content()
    assert await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])") == "[{},{}]"
