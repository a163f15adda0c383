"""A real browser, and the counters it has about a page."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

from playwright.async_api import Browser, CDPSession, Page, async_playwright

from benchmarks.harness.environments import NotMeasured

_PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
# Headless, and without any traffic of its own.
_FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_SIZE: Final = {"width": 1280, "height": 800}
_MB: Final = 1 << 20


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        raise NotMeasured("there is no Chromium: `make browser` installs it")
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        try:
            yield launched
        finally:
            await launched.close()


@dataclass(frozen=True)
class Cost:
    """CPU time of a page's main thread, in milliseconds: what others do on the machine is not in it."""

    task_ms: float
    script_ms: float
    layout_ms: float
    style_ms: float

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(
            self.task_ms - other.task_ms,
            self.script_ms - other.script_ms,
            self.layout_ms - other.layout_ms,
            self.style_ms - other.style_ms,
        )

    def __truediv__(self, count: float) -> "Cost":
        return Cost(
            self.task_ms / count, self.script_ms / count, self.layout_ms / count, self.style_ms / count
        )

    def __str__(self) -> str:
        return (
            f"{self.task_ms:.1f} ms CPU (script {self.script_ms:.1f}, layout {self.layout_ms:.1f}, "
            f"style {self.style_ms:.1f})"
        )


class Instrument:
    """The counters of one tab. A tab has a cache and a storage of its own, as a first visit has."""

    def __init__(self, page: Page, session: CDPSession) -> None:
        self.page = page
        self._session = session

    @classmethod
    @asynccontextmanager
    async def opened(cls, browser: Browser, *scripts: str) -> AsyncIterator[Self]:
        """`scripts` run in every document, before its own."""
        context = await browser.new_context(viewport=_SIZE, locale="en-US")  # type: ignore[arg-type]
        try:
            page = await context.new_page()
            for script in scripts:
                await page.add_init_script(script)
            session = await context.new_cdp_session(page)
            await session.send("Performance.enable", {"timeDomain": "threadTicks"})
            yield cls(page, session)
        finally:
            await context.close()

    async def cost(self) -> Cost:
        found = await self._counters()
        names = ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
        return Cost(*(found[name] * 1e3 for name in names))

    async def memory(self) -> tuple[float, int]:
        """The heap of scripts in MB and the number of nodes, without what nobody needs any more."""
        await self._session.send("HeapProfiler.collectGarbage")
        found = await self._counters()
        return found["JSHeapUsedSize"] / _MB, int(found["Nodes"])

    async def _counters(self) -> dict[str, float]:
        answer: dict[str, Any] = await self._session.send("Performance.getMetrics")
        return {each["name"]: each["value"] for each in answer["metrics"]}
