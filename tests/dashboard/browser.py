"""A browser tab with the dashboard, and checks that apply to every test."""

import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

import httpx
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

from tests.support.running.gateway import RunningGateway
from tests.support.waiting import LIMIT_SEC

Lang = Literal["en", "ja"]
Theme = Literal["light", "dark"]

# Where screenshots for people go; `DASHBOARD_SCREENSHOTS=1` has them taken.
SCREENSHOTS: Final = Path(__file__).parent / "screenshots"
TAKES_SCREENSHOTS: Final = bool(os.environ.get("DASHBOARD_SCREENSHOTS"))
AXE: Final = Path(__file__).parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
WIDE: Final = 1280
NARROW: Final = 390
_HEIGHTS: Final = {WIDE: 800, NARROW: 844}
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    # No background traffic of the browser itself.
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A page lives for seconds: the optimising compilers cost a sixth of all CPU time and are not repaid.
    "--js-flags=--no-maglev --no-turbofan",
    # The tabs of a context share a process, and with it the compiled code of the dashboard and of axe.
    "--renderer-process-limit=1",
)
# The browser logs every failed request; the page shows it to the user.
_EXPECTED: Final = "Failed to load resource"

# Resolves when the page has rendered the other place: until then a click or a key would concern the old one.
_GO: Final = """path => new Promise((resolve) => {
  const before = location.href;
  addEventListener("hashchange", () => resolve(), { once: true });
  location.hash = path;
  if (location.href === before) resolve();
})"""
_SET_LANGUAGE: Final = """lang => {
  localStorage.setItem("pyoco.language", JSON.stringify(lang));
  dispatchEvent(new StorageEvent("storage", { key: "pyoco.language" }));
}"""
_PRESS: Final = """keys => {
  for (const key of keys) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}"""

expect.set_options(timeout=LIMIT_SEC * 1000)


class Tab:
    """One tab. Its storage is empty at first. `page` is Playwright's."""

    def __init__(self, page: Page, http: httpx.AsyncClient, gateway: RunningGateway | None) -> None:
        self.page = page
        self.http = http
        self._gateway = gateway
        self.problems: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.problems.append(f"error in the page: {error}"))
        page.on("request", self._on_request)

    @property
    def gateway(self) -> RunningGateway:
        assert self._gateway is not None, "the gateway is a program of its own"
        return self._gateway

    @property
    def url(self) -> str:
        return str(self.http.base_url)

    async def open(self, path: str = "/", *, lang: Lang | None = None) -> None:
        """Open a view, such as `/runs?status=FAILED`, by its URL."""
        if self.page.url == "about:blank":
            await self.page.goto(f"{self.url}/#{path}")
        else:
            await self.page.evaluate(_GO, path)
        if lang is not None:
            await self.set_language(lang)

    async def set_language(self, lang: Lang) -> None:
        """As if it had been chosen in another tab: what is shown stays, without the cost of another load."""
        await self.page.evaluate(_SET_LANGUAGE, lang)
        await expect(self.page.locator("html")).to_have_attribute("lang", lang)
        await expect(self.page.locator("h1").first).to_be_visible()

    async def search(self, text: str) -> None:
        """Type into the search field of the screen, which `/` focuses."""
        field = self.page.get_by_role("main").locator("input[type=search]")
        await expect(field).to_be_visible()
        await self.page.keyboard.press("/")
        await expect(field).to_be_focused()
        await self.page.keyboard.type(text)

    async def press_in_one_moment(self, *keys: str) -> None:
        """Press the keys of a sequence, between which the page accepts no long pause."""
        await self.page.evaluate(_PRESS, list(keys))

    async def set_theme(self, theme: Theme) -> None:
        await self.page.emulate_media(color_scheme=theme)

    async def resize(self, width: int) -> None:
        await self.page.set_viewport_size({"width": width, "height": _HEIGHTS[width]})

    async def screenshot(self, name: str) -> None:
        if TAKES_SCREENSHOTS:
            SCREENSHOTS.mkdir(exist_ok=True)
            await self.page.screenshot(path=SCREENSHOTS / f"{name}.png", animations="disabled")

    async def screenshots(self, name: str) -> None:
        """Check the page with axe in both languages, light and wide, and dark and narrow."""
        await self._show_as(name, "en", "light", WIDE)
        await self.is_accessible()
        if TAKES_SCREENSHOTS:
            await self._show_as(name, "en", "dark", WIDE)
            await self._show_as(name, "en", "light", NARROW)
            await self._show_as(name, "ja", "light", WIDE)
        await self._show_as(name, "ja", "dark", NARROW)
        await self.is_accessible()
        await self.resize(WIDE)
        await self.set_theme("light")

    async def _show_as(self, name: str, lang: Lang, theme: Theme, width: int) -> None:
        await self.resize(width)
        await self.set_theme(theme)
        await self._is_loaded()
        if await self.page.locator("html").get_attribute("lang") != lang:
            await self.set_language(lang)
            await self._is_loaded()
        await self.screenshot(f"{name}-{lang}-{theme}-{width}")

    async def _is_loaded(self) -> None:
        await expect(self.page.locator("h1").first).to_be_attached()
        loading = self.page.get_by_role("status").filter(has_text=re.compile("^(Loading|読み込み中)$"))
        await expect(loading).to_have_count(0)

    async def is_accessible(self) -> None:
        """Check the page with axe against WCAG 2.2 AA."""
        await self._is_loaded()
        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found: list[dict[str, Any]] = await self.page.evaluate(
            """async () => (await axe.run(document, {
                 runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
                 resultTypes: ["violations"],
               })).violations.map(({ id, help, nodes }) => ({
                 id, help, where: nodes.slice(0, 5).map(({ html, failureSummary }) => [html, failureSummary]),
               }))"""
        )
        assert found == [], json.dumps(found, indent=1, ensure_ascii=False)

    async def restore(self) -> None:
        """English, wide and light, as the next test in this tab expects it."""
        await self.resize(WIDE)
        await self.set_theme("light")
        await self.set_language("en")

    async def discard(self) -> None:
        """Leave the dashboard, in whatever state a failed test has left it: the next test loads it again."""
        await self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        await self.page.goto("about:blank")
        await self.resize(WIDE)
        await self.set_theme("light")

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and _EXPECTED not in message.text:
            self.problems.append(f"{message.type} in the console: {message.text}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.problems.append(f"request to another host: {request.url}")


async def new_context(browser: Browser) -> BrowserContext:
    return await browser.new_context(
        viewport={"width": WIDE, "height": _HEIGHTS[WIDE]}, locale="en-US", reduced_motion="reduce"
    )


@asynccontextmanager
async def opened_tab(
    browser: Browser, gateway: RunningGateway | None = None, *, http: httpx.AsyncClient | None = None
) -> AsyncIterator[Tab]:
    """A tab with the dashboard of a gateway in this process, or of the one that `http` talks to."""
    context = await new_context(browser)
    try:
        async with _checked_tab(context, _client_of(gateway, http), gateway) as tab:
            yield tab
    finally:
        await context.close()


def _client_of(gateway: RunningGateway | None, http: httpx.AsyncClient | None) -> httpx.AsyncClient:
    client = http if gateway is None else gateway.http
    assert client is not None
    return client


@asynccontextmanager
async def _checked_tab(
    context: BrowserContext, http: httpx.AsyncClient, gateway: RunningGateway | None
) -> AsyncIterator[Tab]:
    tab = Tab(await context.new_page(), http, gateway)
    yield tab
    assert tab.problems == [], "\n".join(tab.problems)


class WarmContext:
    """A context for the tabs of many tests, one after the other: each begins with empty storage.

    Its cache and the compiled code of the dashboard outlive a tab. Both are found again by the address:
    the gateways of these tests have one port. `page.clock` stays installed in a context: a test that uses it
    needs `own_tab`.
    """

    def __init__(self, context: BrowserContext) -> None:
        self._context = context
        self._keep_alive_page: Page | None = None

    @asynccontextmanager
    async def tab(
        self, gateway: RunningGateway | None = None, *, http: httpx.AsyncClient | None = None
    ) -> AsyncIterator[Tab]:
        """As `opened_tab`."""
        client = _client_of(gateway, http)
        await self._keep_process(client)
        try:
            async with _checked_tab(self._context, client, gateway) as tab:
                yield tab
        finally:
            await self._reset(str(client.base_url))

    async def _keep_process(self, http: httpx.AsyncClient) -> None:
        """The process of tabs ends with the last of them: keep one, without a script."""
        if self._keep_alive_page is None:
            self._keep_alive_page = await self._context.new_page()
            await self._keep_alive_page.goto(f"{http.base_url}/icon.svg")

    async def _reset(self, origin: str) -> None:
        assert self._keep_alive_page is not None
        for page in self._context.pages:
            if page is not self._keep_alive_page:
                await page.close()
        await self._context.clear_permissions()
        session = await self._context.new_cdp_session(self._keep_alive_page)
        await session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        await session.detach()
