"""Submitting from the browser: a flow with params, and a flow.yaml."""

import re

import pytest
from playwright.async_api import Locator, Route, expect

from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")

RUN = re.compile(r"/#/runs/[0-9a-f-]{36}$")
WRONG_YAML = """version: 1
flow:
  graph: load >> clean
tasks:
  load:
    callable: steps:load
    colour: red
"""


def editor(tab: Tab, language: str) -> Locator:
    return tab.page.locator(f"[data-editor={language}] textarea")


async def write(tab: Tab, language: str, text: str) -> None:
    await editor(tab, language).fill(text)


async def test_a_flow_is_submitted_and_its_run_is_shown(tab: Tab, worker: PyocoNatsWorker) -> None:
    earlier = await tab.gateway.submit("chain", params={"x": 41})
    await tab.gateway.ends(earlier)
    await tab.open("/submit")
    page = tab.page
    await page.get_by_role("button", name="Submit", exact=True).click()
    await expect(page.get_by_text("A name is required.")).to_be_visible()
    await expect(page.locator("#known-flows option[value=chain]")).to_be_attached()

    await page.get_by_label("Flow", exact=True).fill("chain")
    await page.get_by_role("button", name="Use the params of the last run").click()
    await expect(editor(tab, "json")).to_have_value(re.compile('"x": 41'))
    await write(tab, "json", '{"x": 42,}')
    await page.get_by_role("button", name="Submit", exact=True).click()
    await expect(page.get_by_text("Invalid JSON at line 1, column 10.")).to_be_visible()
    await write(tab, "json", '{"x": 9007199254740993, "y": 1.0}')
    await page.get_by_role("button", name="Format").click()
    await expect(editor(tab, "json")).to_have_value(re.compile('"y": 1[.]0'))
    await page.get_by_label("Tag", exact=True).fill("a.b")
    await page.get_by_label("Labels").fill("nightly, blue")
    await page.get_by_label("Time limit (seconds)").fill("90")
    await page.get_by_role("button", name="Submit", exact=True).click()
    await expect(page.get_by_label("Tag", exact=True)).to_have_attribute("aria-invalid", "true")
    await tab.screenshots("submit")
    # The draft survives a reload.
    await tab.set_language("en")
    await tab.page.reload()
    await expect(page.get_by_label("Time limit (seconds)")).to_have_value("90")
    await page.get_by_label("Tag", exact=True).fill("")
    await page.get_by_role("button", name="Submit", exact=True).click()
    await expect(page.get_by_text("params.y: the flow has no such parameter")).to_be_visible()
    await page.get_by_role("button", name="Submit anyway").click()
    await expect(page).to_have_url(RUN)
    run = await tab.gateway.ends(page.url.rsplit("/", 1)[1])
    assert (run["params"], run["tags"], run["timeout_sec"]) == (
        {"x": 9007199254740993, "y": 1.0},
        ["nightly", "blue"],
        90,
    )
    assert run["status"] == "COMPLETED"
    await expect(page.get_by_role("region", name="Params")).to_contain_text('"x": 9007199254740993')


async def test_a_run_is_submitted_with_a_start_time(tab: Tab, worker: PyocoNatsWorker) -> None:
    await tab.open("/submit?flow=noop")
    page = tab.page
    submit = page.get_by_role("button", name="Submit", exact=True)
    await page.get_by_text("After a delay", exact=True).click()
    await submit.click()
    await expect(page.get_by_text("Enter a number of 0 or more.")).to_be_visible()
    await page.get_by_label("Delay", exact=True).fill("2")
    await page.get_by_label("Unit of the delay").select_option("hours")
    await tab.screenshots("submit-start")
    await tab.set_language("en")
    await tab.page.reload()
    await submit.click()
    await expect(page).to_have_url(RUN)
    await expect(page.locator("header [data-status]")).to_have_text("Scheduled")
    run = await tab.gateway.get(page.url.rsplit("/", 1)[1])
    assert (run["status"], round(run["start_at"] - run["submitted_at"])) == ("SCHEDULED", 7200)

    await tab.open("/submit?flow=noop")
    await page.get_by_text("At a time", exact=True).click()
    await page.get_by_label("Start time").fill("2031-02-03T04:05")
    await submit.click()
    await expect(page).to_have_url(RUN)
    expected = await page.evaluate("new Date(2031, 1, 3, 4, 5).getTime() / 1000")
    assert (await tab.gateway.get(page.url.rsplit("/", 1)[1]))["start_at"] == expected


async def test_a_double_click_and_a_lost_response_create_one_run(tab: Tab, worker: PyocoNatsWorker) -> None:
    await tab.open("/submit?flow=noop")
    page = tab.page
    sent: list[str | None] = []
    page.on("request", lambda request: sent.append(request.headers.get("idempotency-key")))
    lost: list[dict[str, str]] = []

    async def lose_first_response(route: Route) -> None:
        answer = await route.fetch()
        if lost:
            await route.fulfill(response=answer)
        else:
            lost.append(await answer.json())
            await route.abort()

    await page.route(f"{tab.url}/runs?strict=true", lose_first_response)
    submit = page.get_by_role("button", name="Submit", exact=True)
    await submit.dblclick()
    await expect(page.get_by_text("It is safe to send it again")).to_be_visible()
    await submit.click()
    await expect(page).to_have_url(RUN)
    [key] = {key for key in sent if key}
    assert sent.count(key) == 2
    assert page.url.endswith(lost[0]["run_id"])
    listed = await tab.gateway.http.get("/runs", params={"flow": "noop"})
    assert [run["run_id"] for run in listed.json()] == [page.url.rsplit("/", 1)[1]]


async def test_a_flow_that_no_worker_has_is_refused_with_a_suggestion(
    tab: Tab, worker: PyocoNatsWorker
) -> None:
    await tab.gateway.ends(await tab.gateway.submit("nop"))
    await tab.open("/submit")
    page = tab.page
    await expect(page.locator("#known-flows option[value=noop]")).to_be_attached()
    # A typo of an earlier run is not suggested.
    await expect(page.locator("#known-flows option[value=nop]")).not_to_be_attached()
    await page.get_by_label("Flow", exact=True).fill("noopp")
    await page.get_by_role("button", name="Submit", exact=True).click()
    await expect(page.get_by_text("noop", exact=False).filter(has_text="mean")).to_be_visible()
    await tab.screenshot("submit-unknown-flow")
    await tab.is_accessible()
    await page.get_by_role("button", name="Submit anyway").click()
    await expect(page).to_have_url(RUN)


async def test_a_flow_yaml_is_corrected_and_submitted(tab: Tab) -> None:
    await tab.open("/submit?kind=yaml")
    page = tab.page
    await page.get_by_label("Flow", exact=True).fill("ask-me")
    await expect(editor(tab, "yaml")).to_have_value(re.compile("use: pyoco/human"))
    await write(tab, "yaml", WRONG_YAML)
    await page.keyboard.press("ControlOrMeta+Enter")
    problems = page.get_by_role("alert").filter(has_text="1 problem")
    await expect(problems).to_contain_text("colour")
    await expect(page.locator("[data-editor=yaml] [data-wrong]")).to_have_text("colour")
    await problems.get_by_role("button", name="Line 7, column").click()
    await expect(editor(tab, "yaml")).to_be_focused()
    # The caret is at the error; a new line is indented as the last one, and can be undone.
    await page.keyboard.press("End")
    await page.keyboard.press("Enter")
    await expect(editor(tab, "yaml")).to_have_value(re.compile("    colour: red\n    \n$"))
    await page.keyboard.press("ControlOrMeta+z")
    await expect(editor(tab, "yaml")).to_have_value(WRONG_YAML)
    await tab.screenshot("submit-yaml-errors")
    await tab.is_accessible()
    await page.get_by_label("Open a file…").last.set_input_files(
        {"name": "ask.yaml", "mimeType": "application/yaml", "buffer": EXAMPLE.encode()}
    )
    await expect(problems).to_be_hidden()
    await tab.screenshot("submit-yaml")
    await page.get_by_role("button", name="Submit", exact=True).click()
    await expect(page).to_have_url(RUN)
    run = await tab.gateway.get(page.url.rsplit("/", 1)[1])
    assert run["flow_name"] == "ask-me"
    assert run["params"] == {"question": "Shall we continue?"}


EXAMPLE = """version: 1
flow:
  graph: ask
  defaults:
    question: Shall we continue?
tasks:
  ask:
    use: pyoco/human
    inputs:
      message: $ctx.params.question
      schema: {type: boolean}
"""
