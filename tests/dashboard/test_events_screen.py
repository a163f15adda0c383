"""Workflow events: the month, the retry queue, notifications; templates and actions."""

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, expect

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import Tab, opened_tab
from tests.dashboard.module_fixtures import module_gateway, module_worker
from tests.support.running.gateway import running_gateway
from tests.support.running.hook_senders import SECRETS_KEY
from tests.support.running.workflow_events import put_action, save_template, send, started, summary
from tests.support.waiting import LIMIT_SEC

pytestmark = pytest.mark.asyncio(loop_scope="session")
gateway = module_gateway(secrets_keys=SECRETS_KEY)
worker = module_worker()

WEBHOOK = "https://chat.googleapis.com/v1/spaces/AAAABBBBCCCC/messages?key=secret-key-1&token=secret-token-1"


def part(tab: Tab, name: str) -> Locator:
    return tab.page.get_by_role("region", name=name, exact=True)


def count(tab: Tab, title: str, name: str) -> Locator:
    return part(tab, title).locator(f"[data-count='{name}'] strong").first


async def test_a_month_is_counted_by_status_and_reason(tab: Tab, worker: PyocoNatsWorker) -> None:
    await put_action(tab.gateway)
    await save_template(tab.gateway, "counted", year=2030, month=1)
    await save_template(tab.gateway, "manual", kind="manual_start")
    first = await started(tab.gateway, template_id="counted", idempotency_key="c-1", source="erp")
    await started(tab.gateway, template_id="counted", idempotency_key="c-1", payload={"other": 1})
    for wrong in ({"template_id": "manual"}, {"template_id": "nowhere"}):
        assert (await send(tab.gateway, **wrong, year=2030, month=1)).status_code in (404, 409)
    await tab.open("/events?ym=2030-01")
    page = tab.page
    await expect(page.get_by_text("4 events")).to_be_visible()
    await expect(count(tab, "By status", "success")).to_have_text("1")
    await expect(count(tab, "By status", "skipped")).to_have_text("1")
    await expect(count(tab, "By status", "rejected")).to_have_text("2")
    await expect(count(tab, "By reason", "duplicate")).to_have_text("1")
    await expect(count(tab, "By reason", "template_not_found")).to_have_text("1")
    await expect(count(tab, "Duplicates", "true")).to_have_text("1")
    await expect(part(tab, "Duplicates")).to_contain_text("remembered for 90 days; 1,000 receipts")
    recent = part(tab, "Recent events")
    await expect(recent.locator("[data-event]")).to_have_count(4)
    await expect(recent.locator("[data-event=skipped]")).to_contain_text("The payload differs")
    await expect(recent.locator("[data-event=rejected]").first).to_contain_text(
        "Workflow template not found."
    )
    await expect(recent.get_by_text("nowhere", exact=True)).to_be_visible()
    await expect(recent.get_by_role("link", name="nowhere")).to_have_count(0)
    await tab.screenshots("events")
    await tab.set_language("en")
    await page.get_by_role("button", name="Previous month").click()
    await expect(page).to_have_url(f"{tab.url}/#/events?ym=2029-12")
    await expect(page.get_by_text("No events in 2029-12")).to_be_visible()
    await tab.screenshot("events-empty")
    await tab.is_accessible()
    await page.get_by_role("button", name="Next month").click()
    await recent.get_by_role("link", name=first["run_id"][:8]).first.click()
    cause = page.locator("dl").filter(has_text="Cause")
    await cause.get_by_role("link", name="template:counted").click()
    await expect(page.get_by_role("heading", name="Template counted")).to_be_visible()
    await tab.screenshots("template")
    await tab.set_language("en")
    await page.get_by_role("link", name="Show its runs").click()
    await expect(page.locator("[data-run]")).to_have_count(1)
    await tab.open("/events?ym=2030-13")
    await expect(page.get_by_role("alert")).to_contain_text("ym must be a month, YYYY-MM.")


async def test_the_retry_queue_is_drained(tab: Tab) -> None:
    # No worker has the tag: the run stays open.
    await put_action(tab.gateway, "hold", tag="nobody")
    await save_template(tab.gateway, "busy", action="hold", overlap="forbid", year=2030, month=2)
    await started(tab.gateway, template_id="busy", idempotency_key="b-1")
    refused = await send(tab.gateway, template_id="busy", idempotency_key="b-2")
    assert refused.status_code == 409
    await tab.open("/events?ym=2030-02")
    page = tab.page
    queue = part(tab, "Retry queue")
    job = queue.locator("[data-job='b-2']")
    await expect(job).to_contain_text("Pending")
    await expect(job).to_contain_text("0 of 3")
    await queue.get_by_role("button", name="Run retries…").click()
    dialog = page.get_by_role("dialog", name="Retry the events now?")
    await dialog.get_by_label("Also those that are not due yet").check()
    await tab.screenshot("events-drain")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Run retries", exact=True).click()
    await expect(page.get_by_text("1 executed: 0 succeeded, 1 will be retried")).to_be_visible()
    await expect(job).to_contain_text("Retrying")
    await expect(job).to_contain_text("1 of 3")
    await tab.screenshots("events-queue")
    assert (await summary(tab.gateway, "2030-02"))["retry_queue"]["by_status"]["retrying"] == 1


async def test_the_webhook_is_saved_masked_and_cleared(tab: Tab) -> None:
    await tab.open("/events")
    page = tab.page
    panel = part(tab, "Google Chat notifications")
    await expect(panel).to_contain_text("Not configured")
    await expect(panel.get_by_role("button", name="Send a test message")).to_be_disabled()
    await panel.get_by_label("New webhook URL").fill("https://example.org/hook")
    await panel.get_by_role("button", name="Save").click()
    await expect(panel.get_by_label("New webhook URL")).to_have_attribute("aria-invalid", "true")
    await panel.get_by_label("New webhook URL").fill(WEBHOOK)
    await panel.get_by_role("button", name="Save").click()
    await expect(panel).to_contain_text("chat.googleapis.com")
    await expect(page.get_by_text("secret-token-1")).to_have_count(0)
    await expect(panel.get_by_label("New webhook URL")).to_have_value("")
    await panel.scroll_into_view_if_needed()
    await tab.screenshot("events-notifications")
    await panel.get_by_role("button", name="Clear…").click()
    await page.get_by_role("button", name="Clear", exact=True).click()
    await expect(panel).to_contain_text("Not configured")


def step(dialog: Locator, number: int) -> Locator:
    return dialog.get_by_role("group", name=f"Step {number}")


async def fill_further_steps(dialog: Locator) -> None:
    """Three steps: the second with all fields; the third was added before it."""
    add = dialog.get_by_role("button", name="Add a step")
    await add.click()
    await step(dialog, 2).get_by_label("Action").fill("archive")
    await add.click()
    await step(dialog, 3).get_by_label("Action").fill("send_report")
    await step(dialog, 3).get_by_label("Title").fill("Send the report")
    await step(dialog, 3).get_by_label("Execution").select_option("Automatic")
    await step(dialog, 3).get_by_label("Id of the step").fill("report")
    timer = step(dialog, 3).get_by_label("Timer (minutes)")
    await timer.fill("soon")
    await dialog.get_by_role("button", name="Save").click()
    await expect(timer).to_be_focused()
    await expect(timer).to_have_attribute("aria-invalid", "true")
    await timer.fill("5")
    await dialog.get_by_role("button", name="Move step 3 up").click()
    await expect(step(dialog, 2).get_by_label("Action")).to_have_value("send_report")


async def test_an_action_is_created_and_deleted(tab: Tab) -> None:
    await tab.open("/templates")
    page = tab.page
    await page.get_by_role("button", name="New action").click()
    dialog = page.get_by_role("dialog", name="New action")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_contain_text("Enter a key.")
    await dialog.get_by_label("Key", exact=True).fill("a b")
    await dialog.get_by_label("Flow", exact=True).fill("noop")
    await dialog.get_by_label("Fixed params").fill('{"region": "emea"}')
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_label("Key", exact=True)).to_have_attribute("aria-invalid", "true")
    await dialog.get_by_label("Key", exact=True).fill("made-close")
    await tab.screenshot("action-form")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Save").click()
    row = page.locator("[data-action='made-close']")
    await expect(row).to_contain_text("noop")
    await page.get_by_role("button", name="Delete made-close").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(row).to_have_count(0)


async def test_a_template_is_created_with_all_steps(tab: Tab) -> None:
    await put_action(tab.gateway, "close-books")
    await tab.open("/templates")
    page = tab.page
    await page.get_by_role("button", name="New template").first.click()
    dialog = page.get_by_role("dialog", name="New template")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_contain_text("Enter a name.")
    await dialog.get_by_label("Name").fill("Made close")
    await dialog.get_by_label("Id", exact=True).fill("made")
    await step(dialog, 1).get_by_label("Action").fill("close-books")
    await dialog.get_by_label("Month").fill("13")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_label("Month")).to_have_attribute("aria-invalid", "true")
    await dialog.get_by_label("Month").fill("11")
    await dialog.get_by_label("Year").fill("2026")
    await fill_further_steps(dialog)
    await tab.screenshot("template-form")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Save").click()
    await expect(page).to_have_url(f"{tab.url}/#/templates/made")
    steps = part(tab, "Steps")
    await expect(steps.get_by_role("row")).to_have_text(
        [
            "StepActionStarts byExecution",
            "1. close-booksclose-booksExternal eventAfter a confirmation",
            "2. Send the reportsend_reportAfter the previous stepAutomatic · 5 min",
            "3. archivearchiveAfter the previous stepAfter a confirmation",
        ]
    )
    await expect(steps).to_contain_text("not executed by this server")
    stored = (await tab.gateway.http.get("/api/workflow-templates/made")).json()["steps"]
    assert [each["id"] for each in stored] == ["step-1", "report", "step-3"]
    # It has a month: the example does not replace it.
    example = part(tab, "Send an event")
    await expect(example).to_contain_text('"template_id":"made"')
    await expect(example).not_to_contain_text('"month"')


async def test_a_sample_event_shows_its_run_and_starts_none(tab: Tab) -> None:
    await put_action(tab.gateway, "sampled", params={"region": "emea"})
    await save_template(tab.gateway, "sampled", action="sampled", year=2026, month=11)
    await tab.open("/templates/sampled")
    page = tab.page
    await page.get_by_role("button", name="Test").click()
    dialog = page.get_by_role("dialog", name="Test Template sampled")
    await dialog.get_by_label("Event").fill('{"idempotency_key": "t-1", "payload": {"n": 9007199254740993}}')
    await dialog.get_by_role("button", name="Test").click()
    result = dialog.get_by_role("region", name="Result of the test")
    await expect(result).to_contain_text("This would start a run.")
    await expect(result).to_contain_text("9007199254740993")
    await expect(result).to_contain_text("emea")
    await tab.screenshot("template-test")
    await dialog.get_by_label("Event").fill('{"year": 1999, "month": 1}')
    await dialog.get_by_role("button", name="Test").click()
    await expect(result).to_contain_text("400 Workflow event requires valid year/month.")
    assert (await tab.gateway.http.get("/runs", params={"cause": "event:template:sampled"})).json() == []


async def test_a_template_is_edited_in_both_languages(tab: Tab) -> None:
    steps = [
        {"action": "close", "trigger_kind": "external_event"},
        {"action": "report", "trigger_kind": "after_previous", "timer_minutes": 5},
        {"action": "archive", "trigger_kind": "after_previous"},
    ]
    saved = await save_template(tab.gateway, "edited", steps=steps)
    await tab.open("/templates/edited")
    page = tab.page
    await page.get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Edit Template edited")
    await expect(step(dialog, 2).get_by_label("Timer (minutes)")).to_have_value("5")
    await dialog.get_by_label("Notes").fill("changed here")
    await dialog.get_by_role("button", name="Remove step 3").click()
    await dialog.get_by_role("button", name="Save").click()
    # It has the same text, also before that is saved.
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_text("changed here")).to_be_visible()
    changed = (await tab.gateway.http.get("/api/workflow-templates/edited")).json()["steps"]
    assert changed == saved["steps"][:2]
    await tab.set_language("ja")
    await page.get_by_role("button", name="編集").click()
    await expect(page.get_by_label("タイマー（分）").nth(1)).to_have_value("5")
    await tab.screenshot("template-form-ja")


async def test_a_template_is_found_and_deleted(tab: Tab) -> None:
    await save_template(tab.gateway, "unwanted")
    await tab.open("/templates?search=unwanted")
    page = tab.page
    await expect(page.locator("[data-template]")).to_have_count(1)
    await tab.screenshots("templates")
    await tab.set_language("en")
    await page.locator("[data-template=unwanted]").get_by_role("link").click()
    await page.get_by_role("button", name="More actions").click()
    await page.get_by_role("menuitem", name="Delete…").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page).to_have_url(f"{tab.url}/#/templates")
    await tab.open("/templates/unwanted")
    await expect(page.get_by_text("Template not found")).to_be_visible()


async def test_the_token_of_events_is_asked_for(
    browser: Browser, config: NatsBackendConfig, dashboard_folder: Path
) -> None:
    guarded = replace(config, workflow_event_token="sesame-1")
    async with running_gateway(guarded) as running, opened_tab(browser, running) as tab:
        await tab.open("/events")
        page = tab.page
        await expect(page.get_by_text("requires the token of workflow events")).to_be_visible()
        await tab.screenshot("events-token")
        await tab.is_accessible()
        field = await page.get_by_label("Token").element_handle()
        await page.get_by_label("Token").fill("wrong")
        await page.get_by_role("button", name="Use this token").click()
        # The refusal shows another form: the first one is removed while the page asks again.
        await field.wait_for_element_state("hidden", timeout=LIMIT_SEC * 1000)
        await expect(page.get_by_role("button", name="Forget the token")).to_be_visible()
        await page.get_by_label("Token").fill("sesame-1")
        await page.get_by_role("button", name="Use this token").click()
        # The refused requests of this page are events as well.
        await expect(part(tab, "By reason")).to_contain_text("Wrong token")
        assert "sesame" not in page.url
