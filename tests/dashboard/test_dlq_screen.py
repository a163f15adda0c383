"""Dead letters: filters in the URL, replay and delete; one, the selected ones or all matching."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.worker import PyocoNatsWorker
from tests.dashboard.browser import NARROW, WIDE, Tab
from tests.support.broker.stored_runs import ended, write_many
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

FAILURES = (
    ("execution_error", "ValueError: row 1,204 has no customer id\n  while it was loaded from s3://in/7.csv"),
    ("timeout", "the task train took longer than its 600 seconds"),
    ("executor_crashed", "the executor was ended by signal 9 (SIGKILL)"),
    ("flow_not_found", "no worker has a flow of the name invoice_mial"),
    ("deliveries_exhausted", "each of its 5 deliveries ended without a result"),
)


async def put(tab: Tab, *letters: DeadLetter) -> None:
    for each in letters:
        await tab.gateway.inside.dead_letters.publish(each, tag=each.tag or "default")


async def some_letters(tab: Tab, count: int, **fields: Any) -> list[str]:
    """Publish dead letters with their runs; returns the run ids."""
    now = time.time()
    flows = ("daily_sales", "train_model", "sync_customers")
    runs = [ended(RunStatus.FAILED, at=now - 300 * at, flow_name=flows[at % 3]) for at in range(count)]
    await write_many(tab.gateway.inside.connection, runs)
    for at, run in reversed(list(enumerate(runs))):
        reason, error = FAILURES[at % len(FAILURES)]
        known = {"worker_id": f"worker-{at % 3 + 1}", "num_delivered": 1 + at % 2, "tags": ["night"]}
        fields_of_run = {
            "run_id": run.run_id,
            "flow_name": run.flow_name,
            "subject": "pyoco.work.default",
            **known,
        }
        await put(
            tab,
            DeadLetter(timestamp=now - 300 * at, reason=reason, error=error, **{**fields_of_run, **fields}),
        )
    return [run.run_id for run in runs]


async def has_letter(tab: Tab, seq: int) -> None:
    """A worker publishes it after the end of the run."""

    async def there() -> bool:
        return (await tab.gateway.http.get(f"/dlq/{seq}")).status_code == 200

    await eventually(there, describe=f"dead letter {seq} is there")


def rows(tab: Tab) -> Locator:
    return tab.page.locator("[data-letter]")


async def test_the_filters_are_in_the_url(tab: Tab) -> None:
    await some_letters(tab, 55)
    await tab.open("/dlq")
    await expect(rows(tab)).to_have_count(50)
    await tab.screenshots("dlq")
    await tab.set_language("en")
    await tab.page.get_by_role("button", name="Older").click()
    await expect(rows(tab)).to_have_count(5)
    await expect(tab.page).to_have_url(re.compile("cursor="))
    await tab.page.get_by_role("button", name="Newest").click()
    await expect(rows(tab)).to_have_count(50)

    await tab.page.get_by_role("button", name="Reason").click()
    await tab.page.get_by_role("menuitemcheckbox", name="Timed out").click()
    await expect(rows(tab)).to_have_count(11)
    await tab.page.keyboard.press("Escape")
    await expect(tab.page.get_by_role("menu")).to_have_count(0)
    await tab.search("flow:train_model longer")
    await tab.page.keyboard.press("Enter")
    await expect(tab.page).to_have_url(f"{tab.url}/#/dlq?reason=timeout&flow=train_model&q=longer")
    await expect(rows(tab)).to_have_count(4)
    await tab.screenshot("dlq-filtered")
    await tab.is_accessible()

    await tab.open("/dlq")
    await expect(rows(tab)).to_have_count(50)
    main = tab.page.get_by_role("main")
    await main.evaluate("main => main.scrollTo(0, 700)")
    await rows(tab).nth(25).click()
    await tab.page.get_by_role("dialog").get_by_role("link").first.click()
    await expect(tab.page).to_have_url(re.compile("/#/runs/"))
    # Back restores the dialog and the scroll position.
    await tab.page.go_back()
    await expect(tab.page.get_by_role("dialog")).to_be_visible()
    await expect(main).to_have_js_property("scrollTop", 700)
    await tab.open("/dlq?q=nowhere")
    await expect(tab.page.get_by_text("No letter matches")).to_be_visible()
    await tab.page.get_by_role("button", name="Clear the filters").click()
    await expect(rows(tab)).to_have_count(50)


async def test_a_letter_is_replayed_and_deleted(tab: Tab, worker: PyocoNatsWorker) -> None:
    await tab.open("/dlq")
    await expect(tab.page.get_by_role("heading", name="No dead letters")).to_be_visible()
    await tab.screenshot("dlq-empty")
    failed = await tab.gateway.submit("failing", tags=["night"])
    await tab.gateway.ends(failed)
    await has_letter(tab, 1)
    await tab.page.reload()
    await expect(rows(tab)).to_have_count(1)
    await tab.page.keyboard.press("j")
    await tab.page.keyboard.press("Enter")
    dialog = tab.page.get_by_role("dialog", name="Dead letter 1")
    await expect(dialog).to_contain_text("it broke")
    await expect(dialog).to_contain_text("pyoco.work.default")
    await expect(dialog.locator("[data-status=FAILED]")).to_be_visible()
    await tab.resize(NARROW)
    await tab.screenshot("dlq-letter-390")
    await tab.resize(WIDE)
    await tab.screenshot("dlq-letter")
    await tab.is_accessible()
    await dialog.get_by_label("Delete the letter now").check()
    await dialog.get_by_role("button", name="Replay", exact=True).click()
    await tab.page.get_by_role("link", name="Open the new run").click()
    await expect(tab.page).not_to_have_url(f"{tab.url}/#/runs/{failed}")
    await expect(tab.page).to_have_url(re.compile("/#/runs/[0-9a-f-]{36}$"))
    again = tab.page.url.rsplit("/", 1)[1]
    assert (await tab.gateway.ends(again))["origin_run_id"] == failed
    await has_letter(tab, 2)

    # The replay deleted the first letter; the new run failed too and left another.
    await tab.open("/dlq?seq=1")
    await expect(dialog).to_contain_text("ERR-PYOCO-0027")
    await tab.open("/dlq?seq=2")
    second = tab.page.get_by_role("dialog", name="Dead letter 2")
    await expect(second.get_by_role("link", name=again)).to_be_visible()
    await second.get_by_role("button", name="Delete", exact=True).click()
    await second.get_by_role("button", name="Delete letter").click()
    await expect(tab.page.get_by_role("heading", name="No dead letters")).to_be_visible()


async def test_all_that_match_are_counted_first(tab: Tab) -> None:
    repeated = await some_letters(tab, 10)
    await put(tab, DeadLetter(timestamp=time.time(), reason="invalid_job", error="this is no job"))
    await tab.open("/dlq?reason=timeout")
    await expect(rows(tab)).to_have_count(2)
    await tab.page.get_by_role("button", name="Bulk actions").click()
    await tab.page.get_by_role("menuitem", name="Replay all matching…").click()
    dialog = tab.page.get_by_role("dialog", name="Replay all matching letters")
    await expect(dialog).to_contain_text("2 letters will be replayed")
    # They are named.
    await expect(dialog.locator("[data-touched]")).to_have_count(2)
    await expect(dialog).to_contain_text("Timed out")
    await tab.screenshot("dlq-bulk-replay")
    await tab.is_accessible()
    await dialog.get_by_label("Delete the letters now").check()
    await dialog.get_by_role("button", name="Replay 2").click()
    await expect(dialog).to_contain_text("2 done")
    await dialog.get_by_role("button", name="Close").last.click()
    await expect(tab.page.get_by_text("No letter matches")).to_be_visible()
    runs = (await tab.gateway.http.get("/runs", params={"origin": repeated[1]})).json()
    assert len(runs) == 1

    await tab.open("/dlq")
    await expect(rows(tab)).to_have_count(9)
    await tab.page.get_by_role("button", name="Bulk actions").click()
    await tab.page.get_by_role("menuitem", name="Delete all matching…").click()
    dialog = tab.page.get_by_role("dialog", name="Delete all matching letters")
    await expect(dialog).to_contain_text("this includes every open dead letter")
    await dialog.get_by_role("button", name="Delete 9").click()
    await expect(dialog).to_contain_text("9 done")
    await dialog.get_by_role("button", name="Close").last.click()
    await expect(tab.page.get_by_role("heading", name="No dead letters")).to_be_visible()


async def test_the_page_says_what_it_is_for(tab: Tab) -> None:
    await tab.open("/dlq")
    await expect(tab.page.get_by_text("so that none is lost")).to_be_visible()
    await expect(tab.page.get_by_text("There is nothing to do now")).to_be_visible()


async def test_selected_letters_are_counted_and_named_before_they_are_touched(tab: Tab) -> None:
    await some_letters(tab, 8)
    await put(tab, DeadLetter(timestamp=time.time(), reason="invalid_job", error="this is no job"))
    await tab.open("/dlq")
    await expect(rows(tab)).to_have_count(9)
    everything = tab.page.get_by_label("Select all letters of this page")
    await everything.check()
    bar = tab.page.get_by_role("region", name="9 selected")
    # One names no run.
    await expect(bar.get_by_role("button", name="Replay 8…")).to_be_enabled()
    await tab.screenshots("dlq-selected")
    await tab.set_language("en")
    await expect(rows(tab)).to_have_count(9)
    await everything.check()
    await expect(bar).to_be_visible()
    await everything.uncheck()
    await expect(tab.page.get_by_text("selected")).to_have_count(0)

    for seq in (2, 5):
        await tab.page.get_by_role("checkbox", name=f"Select letter {seq} of").check()
    await expect(everything).to_have_js_property("indeterminate", True)
    await tab.page.get_by_role("button", name="Delete 2…").click()
    dialog = tab.page.get_by_role("dialog", name="Delete the selected letters")
    await expect(dialog).to_contain_text("2 letters will be deleted")
    named = dialog.locator("[data-touched]")
    await expect(named).to_have_count(2)
    assert {await each.get_attribute("data-touched") for each in await named.all()} == {"2", "5"}
    await tab.screenshot("dlq-delete-selected")
    await tab.is_accessible()
    await dialog.get_by_role("button", name="Delete 2", exact=True).click()
    await expect(dialog).to_contain_text("2 done")
    await dialog.get_by_role("button", name="Close").last.click()
    await expect(rows(tab)).to_have_count(7)
    await expect(tab.page.get_by_text("selected")).to_have_count(0)


async def test_a_letter_shows_params_and_traceback_and_closes_when_its_rerun_completes(
    tab: Tab, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    # Each of its four tries fails, and the first of the rerun does not.
    failed = await tab.gateway.submit("retrying", params={"book": str(tmp_path / "book"), "times": 4})
    await tab.gateway.ends(failed)
    await has_letter(tab, 1)
    await tab.open("/dlq?seq=1")
    dialog = tab.page.get_by_role("dialog", name="Dead letter 1")
    await expect(dialog.get_by_role("region", name="Traceback")).to_contain_text("raise ValueError")
    await expect(dialog.get_by_role("region", name="Params")).to_contain_text('"times": 4')
    await tab.screenshots("dlq-traceback")
    await tab.set_language("en")
    await dialog.get_by_role("button", name="Replay", exact=True).click()
    await tab.page.get_by_role("link", name="Open the new run").click()
    await expect(tab.page).to_have_url(re.compile("/#/runs/[0-9a-f-]{36}$"))
    again = tab.page.url.rsplit("/", 1)[1]
    assert (await tab.gateway.ends(again))["status"] == "COMPLETED"

    await tab.open("/dlq")
    await expect(tab.page.get_by_role("heading", name="No dead letters")).to_be_visible()
    await tab.page.get_by_text("Closed", exact=True).click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/dlq?state=closed")
    await expect(rows(tab)).to_have_count(1)
    await rows(tab).click()
    await expect(dialog).to_contain_text("Closed: the rerun has completed.")
    await tab.screenshot("dlq-closed")
    await tab.is_accessible()
    await dialog.get_by_role("link", name=again[:8]).click()
    await expect(tab.page).to_have_url(f"{tab.url}/#/runs/{again}")


async def test_home_does_not_count_closed_letters(tab: Tab) -> None:
    failed = await some_letters(tab, 12)
    await tab.open("/")
    await expect(tab.page.get_by_text("12 dead letters in the last hour")).to_be_visible()
    reruns = [ended(RunStatus.COMPLETED, at=time.time(), origin_run_id=run_id) for run_id in failed[:3]]
    await write_many(tab.gateway.inside.connection, reruns)
    await tab.page.reload()
    await expect(tab.page.get_by_text("9 dead letters in the last hour")).to_be_visible()
