"""Runs that can be told apart, found, selected and stepped through."""

import re
import time

import pytest
import pytest_asyncio
from playwright.async_api import Locator, expect

from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus
from tests.dashboard.browser import NARROW, WIDE, Tab
from tests.dashboard.module_fixtures import module_gateway
from tests.support.broker.stored_runs import ended, snapshot, write_many
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import eventually, eventually_equals

pytestmark = pytest.mark.asyncio(loop_scope="session")
gateway = module_gateway()

LONG_ERROR = f"ValueError: row 1,204 {'of the import ' * 40}has no customer id"
QUESTION = "Is the invoice 2041 of Blue Bottle Ltd over 1,200 EUR right, and may it be paid today?"


@pytest.fixture
def tab(shared_tab: Tab) -> Tab:
    return shared_tab


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stored(gateway: RunningGateway) -> list[RunSnapshot]:
    """Three runs to look at, then 119 that only differ by their params."""
    now = time.time()
    runs = [
        ended(
            RunStatus.FAILED,
            at=now - 1,
            flow_name="train model",
            error=LONG_ERROR,
            params={"day": "2026-11-17", "region": "eu", "rows": [1, 2, 3]},
            tags=["default", "nightly", "gpu-2"],
        ),
        snapshot(
            status=RunStatus.WAITING_HUMAN,
            start_time=now - 60,
            updated_at=now - 2,
            flow_name="invoice",
            wait_message=QUESTION,
            params={"invoice": 2041},
        ),
        ended(at=now - 3, flow_name="large", params={"text": "begin " + "x" * 400 + " end"}),
        *(ended(at=now - 10 - each, flow_name="daily_sales", params={"part": each}) for each in range(119)),
    ]
    await write_many(gateway.inside.connection, runs)
    return runs


def row(tab: Tab, run: RunSnapshot) -> Locator:
    return tab.page.locator(f"[data-run='{run.run_id}']")


def chips(tab: Tab) -> Locator:
    return tab.page.get_by_role("group", name="Filter by status").get_by_role("button")


async def fits_into(locator: Locator, width: int) -> bool:
    box = await locator.bounding_box()
    return box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width


async def test_params_labels_and_the_question_are_columns(own_tab: Tab, stored: list[RunSnapshot]) -> None:
    # The browser keeps the chosen columns.
    tab = own_tab
    failed, waiting, *_ = stored
    await tab.open("/runs")
    await expect(row(tab, failed)).to_contain_text("day=2026-11-17")
    await expect(row(tab, failed)).to_contain_text("region=eu")
    await expect(row(tab, waiting)).to_contain_text(QUESTION[:30])
    await expect(row(tab, failed).get_by_role("link", name="nightly")).to_be_attached()
    table = tab.page.get_by_role("region", name="Runs")
    fits = "box => box.scrollWidth <= box.clientWidth"
    await eventually(lambda: table.evaluate(fits), describe="the usual columns fit at 1280")
    await tab.screenshots("run-columns")
    await tab.set_language("en")

    # Chosen columns are remembered.
    await tab.page.get_by_role("button", name="Columns").click()
    await tab.page.get_by_role("menuitemcheckbox", name="Question", exact=True).click()
    await tab.page.get_by_role("menuitemcheckbox", name="Labels").click()
    await tab.page.keyboard.press("Escape")
    await tab.page.reload()
    heads = tab.page.get_by_role("columnheader")
    await expect(heads.filter(has_text=re.compile("^Question$"))).to_have_count(1)
    await expect(heads.filter(has_text="Labels")).to_have_count(0)
    await expect(row(tab, waiting).get_by_text(QUESTION)).to_have_count(1)

    # A run that arrives later has them as well.
    late = ended(at=time.time(), flow_name="late", params={"part": "late one"})
    await write_many(tab.gateway.inside.connection, [late])
    await expect(row(tab, late)).to_contain_text("part=late one")


async def test_a_cut_text_is_whole_on_hover_and_on_focus(tab: Tab, stored: list[RunSnapshot]) -> None:
    failed, waiting, large, *_ = stored
    await tab.open("/runs")
    # With the numbers nothing moves the rows any more.
    await expect(chips(tab).filter(has_text="Completed")).to_contain_text(re.compile(r"Completed\s*1\d\d"))
    whole = tab.page.get_by_role("tooltip")
    await row(tab, failed).locator("[data-peek=error]").hover()
    await expect(whole).to_contain_text(LONG_ERROR)
    await tab.screenshot("run-error-whole")
    await tab.is_accessible()
    await tab.page.mouse.move(5, 5)
    await expect(whole).to_have_count(0)
    params = row(tab, large).locator("[data-peek=params]")
    await params.focus()
    await expect(whole).to_contain_text("x end")
    await expect(params).to_have_attribute("aria-describedby", re.compile("."))
    await tab.page.keyboard.press("Escape")
    await expect(whole).to_have_count(0)
    await tab.resize(NARROW)
    await row(tab, waiting).locator("[data-peek=question]").focus()
    await expect(whole).to_contain_text(QUESTION)
    await eventually(lambda: fits_into(whole, NARROW), describe="the text is within the window")


async def test_filters_are_suggested(tab: Tab, stored: list[RunSnapshot]) -> None:
    """Flows of the index are known although none of their runs is loaded."""
    await tab.open("/runs?flow=invoice")
    await expect(tab.page.locator("[data-run]")).to_have_count(1)
    field = tab.page.get_by_role("combobox", name="Filter runs")
    options = tab.page.get_by_role("listbox", name="Suggestions").get_by_role("option")
    await tab.search("fl")
    await expect(options).to_have_text(["flow:"])
    await tab.page.keyboard.press("ArrowDown")
    await tab.page.keyboard.press("Enter")
    await expect(field).to_have_value("flow:")
    await expect(options.filter(has_text="flow:daily_sales")).to_be_visible()
    await tab.page.keyboard.type("mod")
    await expect(options).to_have_text(['flow:"train model"'])
    await tab.screenshot("run-suggestions")
    await tab.is_accessible()
    await tab.page.keyboard.press("ArrowDown")
    await expect(field).to_have_attribute("aria-activedescendant", re.compile("."))
    await tab.page.keyboard.press("Enter")
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs?flow=train+model")
    await expect(field).to_have_value("")
    await expect(tab.page.locator("[data-run]")).to_have_count(1)
    # By mouse, and labels of loaded runs.
    await field.fill("label:ni")
    await options.filter(has_text="label:nightly").click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs?flow=train+model&tag=nightly")
    await field.fill("status:fa")
    await tab.page.keyboard.press("Escape")
    await expect(options).to_have_count(0)
    await expect(field).to_be_focused()


async def test_all_are_selected_first_on_the_page_then_by_the_filter(
    tab: Tab, stored: list[RunSnapshot]
) -> None:
    await tab.open("/runs?flow=daily_sales")
    # Without the runs that the tests before have loaded: a new page has only the first of these.
    await tab.page.reload()
    await expect(tab.page.get_by_text("119 runs")).to_be_visible()
    head = tab.page.get_by_role("columnheader").get_by_role("checkbox")
    await tab.page.locator("[data-run] input").first.check()
    await expect(head).to_have_js_property("indeterminate", True)
    await head.check()
    bar = tab.page.get_by_role("region", name=re.compile("selected$"))
    await expect(bar).to_contain_text(re.compile("1[01][09] runs selected"))
    await tab.page.get_by_role("button", name="Select all 119 that match").click()
    await expect(bar).to_contain_text("All 119 matching runs selected")
    await tab.screenshots("run-select-all")
    await tab.set_language("en")

    await expect(bar).to_contain_text("All 119 matching runs selected")
    await tab.resize(NARROW)
    await eventually(lambda: fits_into(bar, NARROW), describe="the bar is within the window")
    await tab.screenshot("run-select-all-narrow")
    await tab.resize(WIDE)
    await bar.get_by_role("button", name="Rerun all matching…").click()
    dialog = tab.page.get_by_role("dialog")
    await expect(dialog).to_contain_text("119 matching runs will be rerun")
    await dialog.get_by_role("button", name="Go back").click()
    # Another filter is another selection.
    await tab.open("/runs?flow=invoice")
    await expect(tab.page.locator("[data-run]")).to_have_count(1)
    await expect(bar).to_have_count(0)
    await tab.page.keyboard.press("Shift+X")
    await expect(bar).to_contain_text("1 run selected")


async def test_status_chips_are_one_row_at_1440(tab: Tab, stored: list[RunSnapshot]) -> None:
    await tab.page.set_viewport_size({"width": 1440, "height": 900})
    await tab.open("/runs")
    await expect(chips(tab)).to_have_count(9)
    tops = "chips => new Set(chips.map((chip) => chip.getBoundingClientRect().top)).size"
    await eventually_equals(lambda: chips(tab).evaluate_all(tops), 1, describe="the chips are one row")


async def test_status_chips_stay_in_place(tab: Tab, stored: list[RunSnapshot]) -> None:
    places = """() => [...document.querySelectorAll("fieldset button")].map((chip) => {
      const box = chip.getBoundingClientRect();
      return [Math.round(box.x), Math.round(box.y), Math.round(box.width)];
    })"""
    await tab.open("/runs")

    async def placed() -> list[list[int]]:
        found: list[list[int]] = await tab.page.evaluate(places)
        return found

    completed, failed = chips(tab).filter(has_text="Completed"), chips(tab).filter(has_text="Failed")
    await expect(chips(tab)).to_have_count(9)
    await expect(completed).to_contain_text(re.compile(r"Completed\s*1\d\d"))
    before = await placed()
    await failed.click()
    await expect(failed).to_have_attribute("aria-pressed", "true")
    await eventually_equals(placed, before, describe="the chips stay in place when one is chosen")
    await tab.open("/runs?q=nowhere")
    await expect(completed).to_contain_text(re.compile(r"Completed\s*0"))
    await eventually_equals(placed, before, describe="the chips stay in place without a match")
    await tab.resize(NARROW)
    await expect(chips(tab).filter(has_text="Cancelling")).to_be_visible()
    await tab.resize(WIDE)


async def test_a_run_leads_to_its_neighbours_and_back_to_the_list(
    tab: Tab, stored: list[RunSnapshot]
) -> None:
    await tab.open("/runs?flow=daily_sales&sort=submitted_at")
    shown = tab.page.locator("[data-run]")
    first, second = [await shown.nth(at).get_attribute("data-run") for at in (0, 1)]
    await shown.nth(0).get_by_role("link").first.click()
    crumbs = tab.page.get_by_role("navigation", name="Breadcrumb")
    await expect(crumbs).to_have_text(f"Runsdaily_sales{(first or '')[:8]}")
    await expect(tab.page.get_by_text(re.compile("^1 of 1"))).to_be_visible()
    await expect(tab.page.get_by_role("button", name="Previous run of the list")).to_be_disabled()
    await tab.screenshots("run-breadcrumbs")
    await tab.set_language("en")
    # When the last part of the page is there, nothing moves the button any more.
    await expect(tab.page.get_by_text("This run has no output.")).to_be_visible()
    await tab.page.get_by_role("button", name="Next run of the list").click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs/{second}")
    # The keys are those of the run that is shown.
    await expect(crumbs).to_have_text(f"Runsdaily_sales{(second or '')[:8]}")
    await tab.page.keyboard.press("Shift+K")
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs/{first}")
    await expect(crumbs).to_have_text(f"Runsdaily_sales{(first or '')[:8]}")
    await tab.page.keyboard.press("Shift+J")
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs/{second}")
    await tab.page.keyboard.press("?")
    await expect(tab.page.get_by_role("dialog")).to_contain_text("Next run of the list")
    await tab.page.keyboard.press("Escape")
    await crumbs.get_by_role("link", name="Runs").click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs?flow=daily_sales&sort=submitted_at")
    await expect(shown.first).to_be_visible()


async def test_labels_lead_to_the_runs_that_have_them(tab: Tab, stored: list[RunSnapshot]) -> None:
    failed, *_ = stored
    await tab.open("/runs")
    await row(tab, failed).get_by_role("link", name="nightly").click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs?tag=nightly")
    await expect(tab.page.locator("[data-run]")).to_have_count(1)
    await tab.open(f"/runs/{failed.run_id}")
    await tab.page.get_by_role("link", name="gpu-2").click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs?tag=gpu-2")


async def test_a_run_and_a_schedule_are_begun_where_the_flow_is_known(
    tab: Tab, stored: list[RunSnapshot]
) -> None:
    await tab.open("/runs?flow=daily_sales")
    await tab.page.get_by_role("link", name="Submit a run").click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/submit?flow=daily_sales")
    await expect(tab.page.get_by_label("Flow", exact=True)).to_have_value("daily_sales")
    await tab.open("/flows/daily_sales")
    await tab.page.get_by_role("link", name="New schedule").click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/new-schedule?flow=daily_sales")
    await expect(tab.page.get_by_label("Flow", exact=True)).to_have_value("daily_sales")
