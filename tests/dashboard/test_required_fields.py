"""Forms say from the start what they are refused without."""

import re

import pytest
from playwright.async_api import expect

from tests.dashboard.browser import Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(
    ("path", "labels"),
    [
        ("/new-schedule", ["Schedule id", "Flow"]),
        ("/submit", ["Flow"]),
        ("/new-alert", ["Id", "Flow", "Name", "URL"]),
    ],
)
async def test_required_fields_are_marked_before_anybody_tries(
    tab: Tab, path: str, labels: list[str]
) -> None:
    await tab.open(path)
    marked = tab.page.locator("label:has(+ [data-required])")
    await expect(tab.page.locator("[data-required]").first).to_have_text("required")
    for label in labels:
        await expect(marked.filter(has_text=re.compile(f"^{label}$")).first).to_be_visible()
    for label in await marked.all_inner_texts():
        field = tab.page.get_by_label(label, exact=True).first
        await expect(field).to_have_attribute("aria-required", "true")
    await tab.is_accessible()
    await tab.set_language("ja")
    await expect(tab.page.locator("[data-required]").first).to_have_text("必須")
    await tab.is_accessible()
