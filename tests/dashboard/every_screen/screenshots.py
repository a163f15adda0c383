"""Takes every screen in two languages, light and dark, at three widths, and checks it with axe.

`make screenshots` runs it. They are in tests/dashboard/screenshots/every_screen, with `problems.txt`:
what axe finds, pages that scroll sideways, and errors in the console. `SCREENSHOTS_ONLY=home,runs` takes some
of the screens, `SCREENSHOTS_VARIANTS=en-1440,ja-390` some languages and widths.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from pyoco_server.agent.flow.work_session import REPO_VARIABLE
from pyoco_server.config import NatsBackendConfig
from tests.dashboard.browser import SCREENSHOTS, Lang, Tab, Theme
from tests.dashboard.every_screen.sample_data import sample_data
from tests.integration.alerts.alerting import FAST
from tests.support.agent.repository import AgentRepository
from tests.support.agent.served_repository import ServedRepository, repository_worker, served_config
from tests.support.places import ROOT
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.hook_senders import SECRETS_KEY
from tests.support.running.workers import serving_worker

pytestmark = pytest.mark.asyncio(loop_scope="session")

FOLDER: Final = Path(os.environ.get("SCREENSHOTS_FOLDER", SCREENSHOTS / "every_screen"))
ONLY: Final = [name for name in os.environ.get("SCREENSHOTS_ONLY", "").split(",") if name]
# Such as `en-1440`.
VARIANTS: Final = [name for name in os.environ.get("SCREENSHOTS_VARIANTS", "").split(",") if name]
SIZES: Final = {1440: 900, 1280: 800, 390: 844}
LOCALES: Final[dict[Lang, str]] = {"en": "en-US", "ja": "ja-JP"}
THEMES: Final[tuple[Theme, ...]] = ("light", "dark")
# What axe finds depends on the widths and colours, and hardly on more than these.
CHECKED: Final = (("en", "light", 1280), ("ja", "dark", 390))
# A page that is longer is cut: nobody looks at the rest in a screenshot.
_TALLEST: Final = 2000
_IS_LOADED: Final = """() => document.querySelector("h1")
  && !document.querySelector("[aria-busy=true]")
  && ![...document.querySelectorAll("[role=status]")].some(
    (each) => /^(Loading|読み込み中)/.test(each.textContent))"""
_HEIGHT: Final = """() => Math.max(innerHeight, ...[...document.querySelectorAll("main, body")].map(
  (each) => innerHeight + each.scrollHeight - each.clientHeight))"""
_SIDEWAYS: Final = """() => Math.max(...[...document.querySelectorAll("html, main")].map(
  (each) => each.scrollWidth - each.clientWidth))"""
# More tabs at once take no fewer minutes, and each of them waits for its screenshots until its time limit.
_TABS: Final = asyncio.Semaphore(os.cpu_count() or 1)
_DRAWN: Final = """() => new Promise((resolve) => setTimeout(() => requestAnimationFrame(resolve), 250))"""


@pytest_asyncio.fixture(loop_scope="session")
async def served(
    config: NatsBackendConfig, tmp_path: Path, dashboard_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ServedRepository]:
    repository = AgentRepository(tmp_path / "agent")
    monkeypatch.setenv(REPO_VARIABLE, str(repository.repo))
    settings = served_config(config, repository, secrets_keys=SECRETS_KEY, **FAST)
    async with (
        running_gateway(settings) as gateway,
        repository_worker(settings),
        serving_worker(settings, concurrency=2, worker_id="tokyo-1", tags=["default"]),
        serving_worker(settings, worker_id="examples", tags=["examples"], flows=ROOT / "examples" / "flows"),
    ):
        yield ServedRepository(gateway, repository)


@pytest.mark.timeout(0)  # many hundred screenshots; each of them has its own limit
async def test_every_screen_is_taken_and_accessible(
    browser: Browser, served: ServedRepository, tmp_path: Path
) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    async with sample_data(served, tmp_path) as sample:
        paths = {name: path for name, path in sample.paths.items() if not ONLY or name in ONLY}
        found = await asyncio.gather(
            *(
                _take(browser, served.gateway, paths, lang, width)
                for lang in LOCALES
                for width in SIZES
                if not VARIANTS or f"{lang}-{width}" in VARIANTS
            )
        )
    problems = [problem for each in found for problem in each]
    (FOLDER / "problems.txt").write_text("\n".join(problems), encoding="utf-8")
    assert problems == [], "\n".join(problems)


async def _take(
    browser: Browser, gateway: RunningGateway, paths: dict[str, str], lang: Lang, width: int
) -> list[str]:
    async with _TABS:
        return await _take_in_turn(browser, gateway, paths, lang, width)


async def _take_in_turn(
    browser: Browser, gateway: RunningGateway, paths: dict[str, str], lang: Lang, width: int
) -> list[str]:
    problems: list[str] = []
    size: Any = {"width": width, "height": SIZES[width]}
    context = await browser.new_context(viewport=size, locale=LOCALES[lang], reduced_motion="reduce")
    tab = Tab(await context.new_page(), gateway.http, gateway)
    for name, path in paths.items():
        await tab.page.set_viewport_size(size)
        await tab.open(path)
        await tab.page.evaluate(_DRAWN)
        await tab.page.wait_for_function(_IS_LOADED)
        # The page scrolls inside the window: a higher window shows what is below.
        height = min(await tab.page.evaluate(_HEIGHT), _TALLEST)
        await tab.page.set_viewport_size({"width": width, "height": height})
        for theme in THEMES:
            where = f"{name}-{lang}-{theme}-{width}"
            await tab.set_theme(theme)
            await tab.page.evaluate(_DRAWN)
            await tab.page.screenshot(path=FOLDER / f"{where}.png", animations="disabled")
            if (lang, theme, width) in CHECKED:
                try:
                    await tab.is_accessible()
                except AssertionError as error:
                    problems.append(f"{where}: {error}")
        if over := await tab.page.evaluate(_SIDEWAYS):
            problems.append(f"{where}: {over} px wider than the window")
        if lang == "ja" and width == 1280:
            text = await tab.page.locator("body").inner_text()
            (FOLDER / f"{name}-ja.txt").write_text(text, encoding="utf-8")
        problems += [f"{where}: {each}" for each in tab.problems]
        tab.problems.clear()
    await context.close()
    return problems
