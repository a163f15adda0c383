"""The inbox and the page of one question."""

import re
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.async_api import Browser, Locator, Request, Route, expect

from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import NARROW, WIDE, Tab, opened_tab
from tests.support.broker.stored_waits import let_expire
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.waiting_runs import WaitingRun, waiting_run
from tests.support.waiting import NEVER_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAYMENT: dict[str, Any] = {
    "type": "object",
    "required": ["amount", "account"],
    "additionalProperties": False,
    "properties": {
        "amount": {
            "type": "number",
            "title": "Amount",
            "exclusiveMinimum": 0,
            "maximum": 10_000,
            "description": "in EUR",
        },
        "account": {"type": "string", "title": "Account", "pattern": "^[0-9]{4}$"},
        "letter": {"type": "string", "title": "Letter", "format": "multiline"},
    },
}
PROPOSAL: dict[str, Any] = {
    "amount": 1250,
    "account": "4930",
    "letter": "Dear Blue Bottle,\nwe pay at once.\nBest regards",
}
RELEASE: dict[str, Any] = {
    "type": "object",
    "required": ["channel", "percent", "checked"],
    "properties": {
        "channel": {"title": "Channel", "enum": ["canary", "stable"]},
        "percent": {"title": "Share", "type": "integer", "minimum": 1, "maximum": 100, "default": 10},
        "checked": {"title": "Tests looked at", "type": "boolean"},
        "contact": {"title": "Contact", "type": "string", "format": "email"},
        "regions": {
            "title": "Regions",
            "type": "array",
            "items": {"enum": ["eu", "us", "jp"]},
            "uniqueItems": True,
        },
        "notes": {"title": "Notes", "type": "array", "items": {"type": "string"}},
    },
}


def asking(**inputs: Any) -> str:
    """A flow.yaml with one question."""
    tasks = {"ask": {"use": "pyoco/human", "inputs": inputs}}
    return yaml.safe_dump({"version": 1, "flow": {"graph": "ask"}, "tasks": tasks}, sort_keys=False)


async def asked(gateway: RunningGateway, **inputs: Any) -> str:
    """Submit a flow.yaml with one question, and wait until it is asked."""
    answer = await gateway.submit_yaml(asking(**inputs), flow_name="release")
    assert answer.status_code == 200, answer.text
    run_id: str = answer.json()["run_id"]
    await gateway.reaches(run_id, "WAITING_HUMAN")
    return run_id


async def a_question(gateway: RunningGateway, message: str, **fields: Any) -> WaitingRun:
    """A stored run that waits, without a worker."""
    flow_name = fields.pop("flow_name", "invoices")
    return await waiting_run(gateway.inside.connection, {"message": message, **fields}, flow_name=flow_name)


async def a_morning(gateway: RunningGateway) -> list[WaitingRun]:
    """Four open questions of different kinds."""
    minute = 60.0
    payment = {"schema": PAYMENT, "proposal": PROPOSAL, "timeout_sec": 42 * minute, "assignees": ["finance"]}
    return [
        await a_question(gateway, "Invoice 2041 of Blue Bottle Ltd: is this payment right?", **payment),
        await a_question(
            gateway,
            "Delete 1,204 customers without any order since 2019?",
            schema={"type": "boolean"},
            flow_name="clean_up",
            timeout_sec=4 * minute,
        ),
        await a_question(
            gateway,
            "Release 4.2: to whom, and how many of them?",
            schema=RELEASE,
            flow_name="release",
            timeout_sec=190 * minute,
            assignees=["ada", "grace"],
        ),
        await a_question(gateway, "Why did the import stop?", flow_name="import", timeout_sec=2900 * minute),
    ]


def row(tab: Tab, asked_in: WaitingRun) -> Locator:
    return tab.page.locator(f"[data-wait='{asked_in.wait_id}']")


def button(tab: Tab, name: str) -> Locator:
    return tab.page.get_by_role("button", name=name, exact=True)


def answer_box(tab: Tab) -> Locator:
    return tab.page.get_by_role("textbox", name="Answer", exact=True)


def badge(tab: Tab) -> Locator:
    return tab.page.get_by_role("navigation").get_by_role("link", name="Inbox")


async def test_questions_arrive_live_and_are_filtered_by_the_url(tab: Tab) -> None:
    await tab.open("/inbox")
    await expect(tab.page.get_by_text("No open questions")).to_be_visible()
    await tab.screenshot("inbox-empty")
    invoice, clean_up, release, free = await a_morning(tab.gateway)
    rows = tab.page.locator("[data-wait]")
    await expect(rows).to_have_count(4)
    await expect(rows.first).to_contain_text("Delete 1,204 customers")
    await expect(rows.last).to_contain_text("Why did the import stop?")
    await expect(badge(tab)).to_contain_text("4")

    await row(tab, invoice).click()
    await expect(tab.page.get_by_role("article")).to_contain_text("Blue Bottle")
    await tab.screenshots("inbox")
    await tab.set_language("en")
    await row(tab, release).click()
    await expect(tab.page.get_by_label("Share")).to_have_value("10")
    await tab.screenshot("inbox-form")
    await tab.is_accessible()

    await tab.page.get_by_label("Flow", exact=True).select_option("release")
    await expect(rows).to_have_count(1)
    await expect(tab.page).to_have_url(f"{tab.url}/#/inbox?wait={release.wait_id}&flow=release")
    await button(tab, "Clear the filters").click()
    await tab.search("nothing like it")
    await expect(tab.page.get_by_text("No open question matches")).to_be_visible()
    await tab.page.get_by_role("button", name="Clear the filters").last.click()

    # A cancelled run takes its question off the list.
    await tab.gateway.http.post(f"/runs/{free.run_id}/cancel")
    await expect(rows).to_have_count(3)
    await expect(badge(tab)).to_contain_text("3")
    await tab.page.keyboard.press("k")
    await expect(row(tab, invoice)).to_have_attribute("aria-current", "true")
    await tab.page.keyboard.press("k")
    await expect(row(tab, clean_up)).to_have_attribute("aria-current", "true")
    await expect(tab.page.get_by_label("Yes", exact=True)).to_be_visible()
    await tab.page.keyboard.press("Enter")
    await expect(tab.page.get_by_label("Yes", exact=True)).to_be_focused()


async def test_a_form_is_filled_in_and_the_run_continues(tab: Tab, worker: PyocoNatsWorker) -> None:
    run_id = await asked(tab.gateway, message="Release 4.2?", schema=RELEASE)
    later = await a_question(tab.gateway, "And this?", timeout_sec=1e6)
    await tab.open("/inbox")
    await expect(button(tab, "Send the answer")).to_be_visible()
    # The send shortcut works only inside the answer.
    await tab.page.get_by_role("searchbox").press("Control+Enter")
    await expect(tab.page.get_by_text("This field is required.")).to_have_count(0)
    await button(tab, "Send the answer").click()
    await expect(tab.page.get_by_text("This field is required.")).to_have_count(2)
    await expect(tab.page.get_by_label("canary")).to_be_focused()
    await tab.page.keyboard.press("Space")
    await tab.page.get_by_label("Share").fill("250")
    await tab.page.get_by_label("Yes", exact=True).check()
    await tab.page.get_by_label("jp").check()
    await button(tab, "Add to Notes").click()
    await tab.page.get_by_label("Entry 1", exact=True).fill("slowly")
    await button(tab, "Send the answer").click()
    await expect(tab.page.get_by_text("At most 100.")).to_be_visible()
    await tab.screenshot("inbox-form-problem")
    await tab.page.get_by_label("Share").fill("25")
    await tab.page.get_by_text("JSON", exact=True).click()
    await expect(answer_box(tab)).to_have_value(re.compile('"notes": .\\s+"slowly"'))
    await tab.page.keyboard.press("Control+Enter")

    ended = await tab.gateway.ends(run_id)
    assert ended["status"] == "COMPLETED"
    answer = {"channel": "canary", "percent": 25, "checked": True, "regions": ["jp"], "notes": ["slowly"]}
    assert ended["task_records"]["ask"]["output"] == answer
    await expect(tab.page.get_by_text("Answered: the run continues")).to_be_visible()
    # The result is shown first, then the next question.
    await expect(tab.page.get_by_role("article")).to_contain_text("Answered")
    await button(tab, "Next question").click()
    await expect(row(tab, later)).to_have_attribute("aria-current", "true")
    await expect(tab.page.locator("[data-wait]")).to_have_count(1)


async def test_a_second_click_does_not_approve_the_next_payment(own_tab: Tab) -> None:
    tab = own_tab
    first, second = [
        await a_question(
            tab.gateway, f"Pay {amount} EUR?", proposal={"amount": amount}, timeout_sec=NEVER_SEC + amount
        )
        for amount in (100, 200)
    ]
    page = tab.page
    await tab.open("/inbox")
    approve = button(tab, "Send approval")
    await expect(approve).to_be_enabled()
    await approve.click()
    await expect(page.get_by_role("article")).to_contain_text("Approved")
    # Where the pointer still is.
    await page.mouse.down()
    await page.mouse.up()
    assert (await first.wait()).state == "answered"
    assert (await second.wait()).state == "open"
    await tab.screenshot("inbox-answered")
    await tab.is_accessible()

    # Nothing decides in the first second, however it is asked for. The time of the page stands still.
    await page.clock.install()
    await page.clock.pause_at(time.time() + 10)
    await button(tab, "Next question").click()

    async def has_appeared() -> bool:
        # What was read is shown by a timer.
        await page.clock.run_for(20)
        return await approve.is_visible()

    await eventually(has_appeared, describe="the next question")
    await expect(approve).to_be_disabled()
    await approve.click(force=True)
    await page.get_by_label("Note (optional)").press("Control+Enter")
    await page.clock.run_for(900)
    await approve.click(force=True)
    assert (await second.wait()).state == "open"
    await page.clock.run_for(200)
    await approve.click()
    await eventually(
        lambda: is_answered(second), describe="the second payment is approved by a click of its own"
    )


async def is_answered(run: WaitingRun) -> bool:
    return (await run.wait()).state == "answered"


async def test_drafts_survive_a_reload(tab: Tab) -> None:
    reply = {"oneOf": [{"title": "Amount", "type": "number"}, {"type": "object", "properties": {"by": {}}}]}
    free = await a_question(tab.gateway, "Why? \u202egnp.exe", schema=reply, timeout_sec=NEVER_SEC)
    release = await a_question(tab.gateway, "Release 4.2?", schema=RELEASE, timeout_sec=NEVER_SEC + 1)
    proposal = {"id": 12345678901234567890}
    payment = await a_question(tab.gateway, "Right?", proposal=proposal, timeout_sec=NEVER_SEC + 2)
    page = tab.page
    await tab.open("/inbox")
    await expect(row(tab, free)).to_contain_text("Why? ⟨U+202E⟩gnp.exe")
    await expect(page.get_by_text('{"by"?: …}')).to_be_visible()
    await answer_box(tab).fill('{"half": [1,')
    await row(tab, release).click()
    await page.get_by_label("Share").fill("2x")
    await page.get_by_label("stable").check()
    await row(tab, payment).click()
    await expect(page.get_by_role("region", name="Proposal")).to_contain_text("12345678901234567890")
    await page.get_by_text("Edit", exact=True).click()
    await page.get_by_label("id", exact=True).fill("12345678901234567891")
    await page.get_by_label("Note (optional)").fill("one more")
    # A live update of the list, then a reload.
    later = await a_question(tab.gateway, "And this?", timeout_sec=NEVER_SEC + 3)
    await expect(row(tab, later)).to_be_visible()
    await page.reload()
    await expect(page.get_by_label("Note (optional)")).to_have_value("one more")
    await row(tab, free).click()
    await expect(answer_box(tab)).to_have_value('{"half": [1,')
    await row(tab, release).click()
    await expect(page.get_by_label("Share")).to_have_value("2x")
    await expect(page.get_by_label("stable")).to_be_checked()
    await tab.screenshot("inbox-draft")

    await row(tab, payment).click()
    await button(tab, "Send edited proposal").click()
    await expect(row(tab, payment)).to_have_count(0)
    assert (await payment.wait()).payload == {"id": 12345678901234567891}

    async def only_other_drafts_remain() -> bool:
        kept = await page.evaluate("Object.keys(JSON.parse(sessionStorage.getItem('pyoco.answers')))")
        return set(kept) == {free.wait_id, release.wait_id}

    await eventually(only_other_drafts_remain, describe="the draft of the answer is removed")


async def test_back_restores_the_scroll_position(tab: Tab) -> None:
    await tab.resize(NARROW)
    for number in range(16):
        await a_question(tab.gateway, f"Question {number}?", timeout_sec=NEVER_SEC + number)
    await tab.open("/inbox")
    box = tab.page.get_by_role("region", name="Open questions")
    # Only visible rows are rendered, but the box is as high as all of them.
    can_scroll = "box => box.scrollHeight - box.clientHeight >= 500"
    await eventually(lambda: box.evaluate(can_scroll), describe="the questions are listed")
    await box.evaluate("box => box.scrollTo(0, 500)")
    await tab.page.get_by_text("Question 9?").click()
    await expect(tab.page.get_by_role("article", name="Question 9?")).to_be_visible()
    await tab.page.go_back()
    await expect(tab.page.get_by_text("Question 9?")).to_be_visible()
    await expect(box).to_have_js_property("scrollTop", 500)


async def test_a_proposal_is_edited_with_its_changes_shown(tab: Tab, worker: PyocoNatsWorker) -> None:
    message = "Is this payment right?"
    run_id = await asked(tab.gateway, message=message, schema=PAYMENT, proposal=PROPOSAL)
    [wait] = (await tab.gateway.get(run_id))["open_waits"]
    sent: list[Request] = []
    tab.page.on("request", lambda request: sent.append(request) if request.method == "POST" else None)
    await tab.open(f"/waits/{wait['wait_id']}")
    await expect(tab.page.get_by_role("region", name="Proposal")).to_contain_text("4930")
    await tab.page.get_by_text("Edit", exact=True).click()
    await tab.page.get_by_label("Amount").fill("1000")
    letter = PROPOSAL["letter"].replace("at once", "next week")
    await tab.page.get_by_label("Letter").fill(letter)
    changes = tab.page.get_by_role("region", name="Changes")
    await expect(changes.locator("del")).to_contain_text(["1250", "we pay at once."])
    await expect(changes.locator("ins")).to_contain_text(["1000", "we pay next week."])
    await tab.page.get_by_label("Note (optional)").fill("as agreed on the phone")
    await tab.screenshot("wait-edit")
    await tab.is_accessible()
    await tab.set_theme("dark")
    await tab.resize(NARROW)
    await tab.screenshot("wait-edit-dark-390")
    await tab.set_theme("light")
    await tab.resize(WIDE)
    assert sent == [], "opening the page sends nothing"

    await tab.page.get_by_label("Account").fill("49")
    await button(tab, "Send edited proposal").click()
    await expect(tab.page.get_by_text("Must match")).to_be_visible()
    await tab.page.get_by_label("Account").fill("4931")
    await button(tab, "Send edited proposal").dblclick()

    await expect(tab.page.get_by_text("Approved with changes")).to_be_visible()
    assert len(sent) == 1, "a double click is one answer"
    ended = await tab.gateway.ends(run_id)
    edited = {"amount": 1000, "account": "4931", "letter": letter}
    expected = {"decision": "edited", "value": edited, "note": "as agreed on the phone"}
    assert ended["task_records"]["ask"]["output"] == expected
    await expect(tab.page.get_by_role("region", name="History")).to_contain_text("Answered (edited)")
    await tab.screenshots("wait-answered")


async def choose(tab: Tab, change: str) -> Locator:
    """Open the dialog of a change of the question."""
    await button(tab, "Change this question").click()
    await tab.page.get_by_role("menuitem", name=change).click()
    return tab.page.get_by_role("dialog")


async def test_a_question_is_extended_reassigned_and_withdrawn(tab: Tab) -> None:
    run = await a_question(tab.gateway, "Pay 120 EUR to Ada?", assignees=["ada"], timeout_sec=100.0)
    await tab.open(f"/inbox?wait={run.wait_id}")
    dialog = await choose(tab, "Extend the deadline")
    await dialog.get_by_label("Reason (optional)").fill("public holiday")
    await tab.screenshot("wait-extend")
    await dialog.get_by_role("button", name="Extend the deadline").click()
    await expect(row(tab, run)).to_contain_text(re.compile("1d 0h|23h 59m"))
    await expect(tab.page.get_by_text("public holiday")).to_be_visible()

    dialog = await choose(tab, "Reassign")
    await dialog.get_by_label("Who may answer").fill("grace, bob")
    await dialog.get_by_role("button", name="Reassign").click()
    await expect(row(tab, run)).to_contain_text("grace")

    await tab.open(f"/waits/{run.wait_id}")
    dialog = await choose(tab, "Withdraw the question")
    confirm = dialog.get_by_role("button", name="Withdraw the question")
    await expect(confirm).to_be_disabled()
    await dialog.get_by_label("Reason").fill("paid twice")
    await confirm.click()
    await expect(tab.page.get_by_text("Withdrawn", exact=True).first).to_be_visible()
    await expect(button(tab, "Ask again")).to_be_visible()
    await tab.screenshot("wait-withdrawn")
    wait = await run.wait()
    assert (wait.state, wait.note, wait.assignees) == ("withdrawn", "paid twice", ["grace", "bob"])
    assert (await run.now()).reason == "human_withdrawn"


async def test_the_votes_so_far_are_shown(tab: Tab) -> None:
    run = await a_question(tab.gateway, "Pay 9,000 EUR?", proposal={"amount": 9000}, required=2)
    await tab.open(f"/inbox?wait={run.wait_id}")
    await expect(row(tab, run)).to_contain_text("0 of 2 approvals")
    await expect(tab.page.get_by_role("radio", name="Edit", exact=True)).to_have_count(0)
    # What is chosen, and what sends it.
    await expect(tab.page.get_by_text("Your decision", exact=True)).to_be_visible()
    await tab.page.get_by_text("Reject", exact=True).click()
    await expect(button(tab, "Send rejection")).to_be_visible()
    await tab.page.get_by_text("Approve", exact=True).click()
    await button(tab, "Send approval").click()
    await expect(tab.page.get_by_text("Your approval counts: 1 of 2")).to_be_visible()
    await expect(row(tab, run)).to_contain_text("1 of 2 approvals")
    await tab.open(f"/waits/{run.wait_id}")
    await expect(tab.page.get_by_role("region", name="Votes")).to_contain_text("approved by 127.0.0.1")
    await tab.screenshot("wait-votes")
    assert (await run.wait()).approvals == 1


async def test_a_refused_answer_is_explained(tab: Tab) -> None:
    first = await a_question(tab.gateway, "Yes or no?", timeout_sec=500)
    path = f"/waits/{first.wait_id}"
    # The live updates are blocked: the page does not see that another client has answered.
    await tab.page.route("**/waits/watch", lambda route: route.abort())
    await tab.page.route("**/waits?limit=200", lambda route: route.abort())
    await keep_until_answered(tab, first.wait_id)
    await tab.open(path)
    await answer_box(tab).fill("yes")
    await tab.gateway.http.post(f"{path}/respond", json={"payload": "no", "decision_id": "other"})
    await button(tab, "Send the answer").click()
    await expect(tab.page.get_by_role("alert")).to_contain_text("127.0.0.1 has already answered")
    await expect(tab.page.get_by_text("Somebody else had already answered.")).to_be_visible()
    await tab.screenshot("wait-conflict")

    # The page loads the wait as open, then its deadline passes.
    late = await a_question(tab.gateway, "Still there?", timeout_sec=600)
    await keep_until_answered(tab, late.wait_id, deadline_at=time.time() + 2)
    await tab.open(f"/waits/{late.wait_id}")
    await answer_box(tab).fill("yes")
    await expect(tab.page.get_by_text("deadline passed")).to_be_visible()
    await let_expire(WaitStore(tab.gateway.inside.connection), late.wait_id)
    await button(tab, "Send the answer").click()
    await expect(tab.page.get_by_text("The deadline had passed.", exact=True)).to_be_visible()
    await expect(tab.page.get_by_text("Nobody answered in time")).to_be_visible()
    await tab.screenshot("wait-expired")
    await button(tab, "Ask again").click()
    await expect(tab.page.get_by_role("heading", name="Inbox")).to_be_visible()


async def keep_until_answered(tab: Tab, wait_id: str, **changes: object) -> None:
    """Show the page the wait as it is now, until it sends an answer."""
    wait = {**(await tab.gateway.http.get(f"/waits/{wait_id}")).json(), **changes}
    is_answered = False

    async def read(route: Route) -> None:
        await (route.continue_() if is_answered else route.fulfill(json=wait))

    async def respond(route: Route) -> None:
        nonlocal is_answered
        is_answered = True
        await route.continue_()

    await tab.page.route(f"**/waits/{wait_id}", read)
    await tab.page.route(f"**/waits/{wait_id}/respond", respond)


async def test_a_validation_error_of_the_gateway_is_shown_at_its_field(tab: Tab) -> None:
    asked_in = await a_question(tab.gateway, "Right?", schema=PAYMENT, proposal=PROPOSAL)

    async def with_an_old_digest(route: Route) -> None:
        answer = await route.fetch()
        wait = await answer.json()
        await route.fulfill(response=answer, json={**wait, "proposal_digest": "0" * 64, "schema": None})

    await tab.page.route(f"**/waits/{asked_in.wait_id}", with_an_old_digest, times=1)
    await tab.open(f"/waits/{asked_in.wait_id}")
    await button(tab, "Send approval").click()
    await expect(tab.page.get_by_role("alert")).to_contain_text("The proposal has changed")
    await tab.screenshot("wait-changed")

    await tab.page.route(f"**/waits/{asked_in.wait_id}", without_schema, times=1)
    await tab.page.reload()
    await tab.page.get_by_text("Edit", exact=True).click()
    await tab.page.get_by_label("amount").fill("20000")
    await button(tab, "Send edited proposal").click()
    await expect(tab.page.get_by_text("20000 is greater than the maximum of 10000")).to_be_visible()
    await expect(tab.page.get_by_label("amount")).to_be_focused()
    await tab.page.get_by_text("Reject", exact=True).click()
    await tab.page.get_by_label("Why? (optional)").fill("paid already")
    await button(tab, "Send rejection").click()
    await expect(tab.page.get_by_text("Rejected", exact=True)).to_be_visible()
    assert (await asked_in.wait()).note == "paid already"


async def test_a_pattern_that_never_ends_does_not_block_the_page(tab: Tab) -> None:
    schema = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^(a+)+$"}}}
    asked_in = await a_question(tab.gateway, "Which one?", schema=schema)
    await tab.open(f"/waits/{asked_in.wait_id}")
    await tab.page.get_by_label("code").fill("b")
    await button(tab, "Send the answer").click()
    await expect(tab.page.get_by_text("Must match ^(a+)+$.")).to_be_visible()
    # In the page's own thread this one would take years.
    await tab.page.get_by_label("code").fill("a" * 60 + "!")
    await button(tab, "Send the answer").click()
    await expect(tab.page.get_by_text("its schema takes longer than 2 s to check")).to_be_visible()
    await tab.page.get_by_label("code").fill("aa")
    await button(tab, "Send the answer").click()
    await expect(tab.page.get_by_text("Answered", exact=True)).to_be_visible()


async def without_schema(route: Route) -> None:
    """Without a schema the page checks nothing, so that the gateway does."""
    answer = await route.fetch()
    await route.fulfill(response=answer, json={**await answer.json(), "schema": None})


async def test_the_inbox_reconnects_after_a_restart(
    browser: Browser, config: NatsBackendConfig, dashboard_folder: Path
) -> None:
    async with AsyncExitStack() as first:
        gateway = await first.enter_async_context(running_gateway(config))
        port = gateway.http.base_url.port
        assert port is not None
        before = await a_question(gateway, "Before?", timeout_sec=900)
        async with opened_tab(browser, gateway) as tab:
            await tab.open("/inbox")
            await expect(row(tab, before)).to_be_visible()
            await answer_box(tab).fill("half an ans")
            await first.aclose()
            await expect(tab.page.locator("nav [data-health]")).to_contain_text("Gateway not responding")
            await expect(row(tab, before)).to_be_visible()
            async with running_gateway(config, port=port) as second:
                after = await a_question(second, "After?", timeout_sec=500)
                await expect(row(tab, after)).to_be_visible()
                await expect(row(tab, before)).to_be_visible()
                await expect(answer_box(tab)).to_have_value("half an ans")


async def test_answered_questions_say_who_answered_what_and_when(tab: Tab) -> None:
    paid = await a_question(tab.gateway, "Pay 120 EUR to Ada?", schema={"type": "integer"})
    release = await a_question(tab.gateway, "Release 4.2?", proposal={"percent": 5})
    late = await a_question(tab.gateway, "Too late?")
    digest = (await release.wait()).proposal_digest
    rejection = {"decision": "rejected", "note": "not on a Friday", "digest": digest}
    for asked_in, answer in ((paid, {"payload": 120}), (release, rejection)):
        sent = await tab.gateway.http.post(f"/waits/{asked_in.wait_id}/respond", json=answer)
        assert sent.status_code == 200, sent.text
    withdrawn = await tab.gateway.http.post(f"/waits/{late.wait_id}/withdraw", json={"reason": "obsolete"})
    assert withdrawn.status_code == 200, withdrawn.text
    await tab.open("/inbox")
    await tab.page.get_by_text("Answered", exact=True).click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/inbox?view=answered")
    closed = tab.page.locator("[data-closed]")
    await expect(closed).to_have_count(2)
    # The last answer first.
    await expect(closed.first).to_contain_text(re.compile("Release 4.2.*Rejected.*by 127.0.0.1"))
    await expect(closed.last).to_contain_text(re.compile("Pay 120 EUR.*Answered.*120"))
    await closed.first.click()
    article = tab.page.get_by_role("article")
    await expect(article).to_contain_text("not on a Friday")
    await tab.screenshots("inbox-answered")
    await tab.set_language("en")
    await tab.open("/inbox?view=unanswered")
    await expect(closed).to_have_count(1)
    await expect(closed).to_contain_text("Withdrawn")


async def test_a_message_is_a_text_and_not_a_heading(tab: Tab) -> None:
    await a_question(tab.gateway, "# URGENT\n\nIs this right?")
    await tab.open("/inbox")
    article = tab.page.get_by_role("article")
    await expect(article).to_contain_text("# URGENT")
    await expect(tab.page.get_by_role("heading", name="URGENT")).to_have_count(0)
    sizes = "element => parseFloat(getComputedStyle(element).fontSize)"
    message = await article.get_by_text("# URGENT").evaluate(sizes)
    assert message < await tab.page.locator("h1").evaluate(sizes)


LONG_TEXT = "\n".join(f"{number}. The invoice was checked against the order." for number in range(1, 40))


async def test_the_answer_is_above_the_fold_however_long_the_question_is(tab: Tab) -> None:
    proposal = {f"line_{number}": f"value {number}" for number in range(60)}
    long_proposal = await a_question(tab.gateway, LONG_TEXT, proposal=proposal, timeout_sec=300)
    long_form = await a_question(tab.gateway, LONG_TEXT, schema=RELEASE, timeout_sec=600)
    for width, height, place in ((1440, 900, "/inbox?wait="), (NARROW, 844, "/waits/")):
        await tab.page.set_viewport_size({"width": width, "height": height})
        for asked_in, submit in ((long_proposal, "Send approval"), (long_form, "Send the answer")):
            await tab.open(f"{place}{asked_in.wait_id}")
            await expect(button(tab, submit)).to_be_in_viewport(ratio=1)
            await tab.screenshot(f"inbox-fold-{submit.split()[0]}-{width}")
        await shows_the_whole_message(tab)


async def shows_the_whole_message(tab: Tab) -> None:
    await expect(tab.page.get_by_text("Channel", exact=True)).to_be_in_viewport()
    await tab.is_accessible()
    await button(tab, "Show the whole message").click()
    await expect(tab.page.get_by_role("article").get_by_text("39. The invoice")).to_be_visible()
    await expect(button(tab, "Show less")).to_be_visible()


async def test_a_phone_goes_from_one_question_to_the_next(tab: Tab) -> None:
    first = await a_question(tab.gateway, "First?", schema={"type": "boolean"}, timeout_sec=300)
    second = await a_question(tab.gateway, "Second?", timeout_sec=600)
    await tab.resize(NARROW)
    await tab.open(f"/waits/{first.wait_id}")
    following = tab.page.get_by_role("link", name="Next question")
    await expect(following).to_be_in_viewport(ratio=1)
    await tab.page.get_by_label("Yes", exact=True).check()
    await button(tab, "Send the answer").click()
    await expect(tab.page.get_by_role("article")).to_contain_text("Answered")
    await following.click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/waits/{second.wait_id}")
    await expect(tab.page.get_by_role("article")).to_contain_text("Second?")
    # It is the only one that is left.
    await expect(following).to_have_count(0)
