"""Parts of the page of a run."""

from playwright.async_api import Locator

from tests.dashboard.browser import Tab


def part(tab: Tab, name: str) -> Locator:
    """One of the screen's parts: Flow, Timeline, Log."""
    return tab.page.get_by_role("region", name=name, exact=True).first


def task_in(tab: Tab, name: str, task: str) -> Locator:
    return part(tab, name).locator(f"[data-task='{task}']")


def details(tab: Tab) -> Locator:
    return tab.page.get_by_role("complementary", name="Details")


def status(tab: Tab) -> Locator:
    return tab.page.locator("header [data-status]")
