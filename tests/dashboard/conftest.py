"""Fixtures of the dashboard tests: `tab` is a browser tab, `worker` serves its gateway.

They run in the event loop of the session, as the browser does. Each test file needs
`pytestmark = pytest.mark.asyncio(loop_scope="session")`.
"""

import os
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.routes import dashboard_routes as dashboard
from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import FLAGS, Tab, WarmContext, new_context, opened_tab
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker

# The headless shell draws no window: it needs a third less CPU time than the whole browser.
_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _BROWSERS)), None)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("Chromium is missing: `make browser` installs it")
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield launched
        await launched.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def warm_context(browser: Browser) -> WarmContext:
    return WarmContext(await new_context(browser))


@pytest.fixture(scope="session")
def dashboard_port() -> Iterator[int]:
    """The port of every gateway of `tab`. It stays bound, so that nobody takes it between two of them."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@pytest.fixture(scope="session")
def dashboard_folder() -> Iterator[Path]:
    """The built dashboard; `DASHBOARD_UNDER_TEST` names another folder."""
    folder = Path(os.environ.get("DASHBOARD_UNDER_TEST", dashboard.FOLDER))
    if not (folder / "index.html").is_file():
        pytest.skip("the dashboard is not built: `make ui` builds it")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dashboard, "FOLDER", folder)
        yield folder


@pytest_asyncio.fixture(loop_scope="session")
async def gateway(
    config: NatsBackendConfig, dashboard_folder: Path, dashboard_port: int
) -> AsyncIterator[RunningGateway]:
    async with running_gateway(config, port=dashboard_port) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def worker(config: NatsBackendConfig, gateway: RunningGateway) -> AsyncIterator[PyocoNatsWorker]:
    """A worker with two slots and the flows of tests/flows."""
    async with serving_worker(config, concurrency=2) as serving:
        yield serving


@pytest_asyncio.fixture(loop_scope="session")
async def tab(warm_context: WarmContext, gateway: RunningGateway) -> AsyncIterator[Tab]:
    async with warm_context.tab(gateway) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def _module_tab(warm_context: WarmContext, gateway: RunningGateway) -> AsyncIterator[Tab]:
    async with warm_context.tab(gateway) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def shared_tab(_module_tab: Tab, request: pytest.FixtureRequest) -> AsyncIterator[Tab]:
    """One tab for the tests of a module, which load the dashboard once. It needs `module_gateway`.

    For tests that only look: what they would store in the browser, the next one would find. `tab`, whose end
    closes all tabs of the context, is not for the same module.
    """
    failed = request.session.testsfailed
    yield _module_tab
    if request.session.testsfailed > failed:
        await _module_tab.discard()
    else:
        await _module_tab.restore()
    problems, _module_tab.problems = _module_tab.problems, []
    assert problems == [], "\n".join(problems)


@pytest_asyncio.fixture(loop_scope="session")
async def own_tab(browser: Browser, gateway: RunningGateway) -> AsyncIterator[Tab]:
    """With a context of its own, for a test that changes what a context keeps, such as its clock."""
    async with opened_tab(browser, gateway) as opened:
        yield opened
