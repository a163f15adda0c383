"""Waiting runs with a real worker."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec import structs

from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import Job, job_of
from pyoco_server.records.waits.wait_models import Actor, WaitRecord, WaitState
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.session import run_recorder
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.stored_waits import let_expire
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC, eventually, eventually_equals

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def shared_config(shared_config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(shared_config, sweep_interval_sec=0.1, cancel_grace_period_sec=0.2)


@pytest.fixture
def gateway(shared_gateway: RunningGateway) -> RunningGateway:
    return shared_gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(
    shared_config: NatsBackendConfig, shared_gateway: RunningGateway
) -> AsyncIterator[PyocoNatsWorker]:
    async with serving_worker(shared_config) as worker:
        yield worker


async def answer(gateway: RunningGateway, run: dict[str, Any], payload: Any, number: int = 0) -> None:
    answers = AnswerHandler(gateway.inside.connection)
    await answers.respond(run["open_waits"][number]["wait_id"], Answer(payload=payload), ANYBODY, Actor())


async def waits_of(gateway: RunningGateway, run_id: str) -> list[WaitRecord]:
    return [stored.record for stored in await WaitStore(gateway.inside.connection).of_run_from_leader(run_id)]


async def waits_become_cancelled(gateway: RunningGateway, run_id: str) -> None:
    """They are closed after the end of their run is stored."""

    async def states() -> list[WaitState]:
        return [wait.state for wait in await waits_of(gateway, run_id)]

    await eventually_equals(states, [WaitState.CANCELLED], describe="the wait is cancelled")


async def queued(gateway: RunningGateway) -> int:
    connection = gateway.inside.connection
    return (await stream_state(connection, connection.config.work_stream)).messages


async def test_a_run_waits_and_continues_with_the_answer(
    gateway: RunningGateway, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    run_id = await gateway.submit("approval", params={"notes": str(notes)})
    run = await gateway.reaches(run_id, "WAITING_HUMAN")
    assert run["tasks"] == {"prepare": "SUCCEEDED", "approve": "WAITING", "pay": "PENDING"}
    assert run["wait_message"] == "Is the amount right?"
    assert run["wait_schema"] == '{"type":"object"}'
    wait = await gateway.inside.waits.store.get_from_leader(run["open_waits"][0]["wait_id"])
    assert wait is not None
    assert run["wait_deadline_at"] == wait.record.created_at + 86400
    assert run["start_time"] <= wait.record.created_at <= run["waiting_since"]
    assert [wait["task"] for wait in run["open_waits"]] == ["approve"]
    # It occupies no slot.
    assert (run["worker_id"], run["delivery"]) == (None, None)
    await eventually(lambda: _is_idle(gateway, worker), describe="the worker is free")
    await answer(gateway, run, {"decision": "approved"})
    run = await gateway.ends(run_id)
    assert run["status"] == "COMPLETED"
    assert run["open_waits"] == []
    assert run["wait_message"] is None
    # The answer did not begin another attempt.
    assert (run["attempt"], run["continuations"]) == (1, 1)
    assert notes.read_text().split() == ["prepare", "tell", "pay"]
    records = (await gateway.get(run_id, include="records"))["task_records"]
    assert records["pay"]["output"] == {"paid": 42, "answer": {"decision": "approved"}}


async def _is_idle(gateway: RunningGateway, worker: PyocoNatsWorker) -> bool:
    return await queued(gateway) == 0 and not worker._services.active_runs


async def test_two_questions_are_answered_in_any_order(
    gateway: RunningGateway, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    run_id = await gateway.submit("two_questions", params={"notes": str(notes)})
    run = await gateway.reaches(run_id, "WAITING_HUMAN")
    assert sorted(wait["name"] for wait in run["open_waits"]) == ["left", "right"]
    right = next(number for number, wait in enumerate(run["open_waits"]) if wait["name"] == "right")
    await answer(gateway, run, "R", right)

    async def right_is_done() -> dict[str, Any] | None:
        run = await gateway.get(run_id)
        return run if run["status"] == "WAITING_HUMAN" and len(run["open_waits"]) == 1 else None

    run = await eventually(right_is_done, describe="it waits for the other")
    assert notes.read_text().split() == ["right"]
    assert run["tasks"]["left"] == "WAITING"
    await answer(gateway, run, "L")
    await gateway.ends(run_id)
    assert notes.read_text().split() == ["right", "left"]


ASYNC_YAML = """
flow: {graph: approve_both, defaults: {notes: "%s"}}
tasks:
  approve_both: {callable: "tests.flows.human:approve_both"}
"""


@pytest.mark.parametrize("form", ["python", "yaml"])
async def test_an_async_task_asks_two_questions_in_parallel(
    gateway: RunningGateway, worker: PyocoNatsWorker, tmp_path: Path, form: str
) -> None:
    notes = tmp_path / "notes"
    if form == "python":
        run_id = await gateway.submit("async_approval", params={"notes": str(notes)})
    else:
        run_id = (await gateway.submit_yaml(ASYNC_YAML % notes)).json()["run_id"]

    async def asks(*names: str) -> dict[str, Any]:
        async def there() -> dict[str, Any] | None:
            run = await gateway.get(run_id)
            waiting = run["status"] == "WAITING_HUMAN"
            return run if waiting and [wait["name"] for wait in run["open_waits"]] == list(names) else None

        return await eventually(there, describe=f"the run waits for {names}")

    await answer(gateway, await asks("start"), True)
    await answer(gateway, await asks("left", "right"), "R", number=1)
    await answer(gateway, await asks("left"), "L")
    run = await gateway.ends(run_id)
    assert run["status"] == "COMPLETED"
    records = (await gateway.get(run_id, include="records"))["task_records"]
    assert records["approve_both"]["output"] == ["L", "R"]
    assert sorted(notes.read_text().split()) == ["left", "right"]


async def test_a_question_that_changed_is_asked_again_and_says_why(
    gateway: RunningGateway, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("Pay 917464?")
    run_id = await gateway.submit("changing_question", params={"text": str(text)})
    run = await gateway.reaches(run_id, "WAITING_HUMAN")
    first = run["open_waits"][0]["wait_id"]
    text.write_text("Pay 17789?")
    await answer(gateway, run, "yes")

    async def asked_again() -> dict[str, Any] | None:
        run = await gateway.get(run_id)
        waits = run["open_waits"] if run["status"] == "WAITING_HUMAN" else []
        return run if waits and waits[0]["wait_id"] != first else None

    run = await eventually(asked_again, describe="the question is asked again")
    [wait] = run["open_waits"]
    assert (wait["message"], wait["asked_again"]) == ("Pay 17789?", "message_changed")
    shown = (await gateway.http.get(f"/waits/{wait['wait_id']}")).json()
    assert (shown["arming"], shown["asked_again"], shown["changes"]) == (2, "message_changed", 1)
    assert [(event["kind"], event["why"]) for event in shown["events"]] == [("opened", "message_changed")]
    explained = (await gateway.http.get(f"/runs/{run_id}/explain")).json()
    assert "question_changed" in [finding["code"] for finding in explained["findings"]]
    log = (await gateway.http.get(f"/runs/{run_id}/logs")).text
    assert "is asked again: its message has changed since it was answered" in log
    await answer(gateway, run, "no")
    await gateway.ends(run_id)
    records = (await gateway.get(run_id, include="records"))["task_records"]
    assert records["ask_as_written"]["output"] == "no"


async def test_a_task_catches_the_timeout(gateway: RunningGateway, worker: PyocoNatsWorker) -> None:
    run_id = await gateway.submit("take_timeout")
    run = await gateway.ends(run_id)
    assert run["status"] == "COMPLETED"
    records = (await gateway.get(run_id, include="records"))["task_records"]
    assert records["take_timeout"]["output"] == "nobody was there"


async def test_an_answer_that_comes_before_the_run_waits_counts(
    gateway: RunningGateway, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    """The run has left its executor by then, and others use it: it takes its turn again like any other."""
    for number in range(2):
        released = tmp_path / f"released-{number}"
        run_id = await gateway.submit("blocking", params={"released": str(released)})
        others = [await gateway.submit("ask") for _ in range(3)]

        async def opened(run_id: str = run_id) -> WaitRecord | None:
            return next(iter(await waits_of(gateway, run_id)), None)

        wait = await eventually(opened, describe="the question is asked")
        assert (await gateway.get(run_id))["status"] == "RUNNING"
        answers = AnswerHandler(gateway.inside.connection)
        await answers.respond(wait.wait_id, Answer(payload=number), ANYBODY, Actor())
        released.touch()
        run = await gateway.ends(run_id)
        assert (run["status"], run["generation"]) == ("COMPLETED", 0)
        assert (run["attempt"], run["continuations"]) == (1, 1)
        for other in others:
            run = await gateway.reaches(other, "WAITING_HUMAN")
            assert run["attempt"] == 1


async def test_a_question_is_seen_and_answered_while_another_branch_still_runs(
    gateway: RunningGateway, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    released = tmp_path / "released"
    run_id = await gateway.submit("beside_work", params={"released": str(released)})

    async def asks() -> dict[str, Any] | None:
        run = await gateway.get(run_id)
        return run if run.get("open_waits") and run["tasks"].get("question") == "WAITING" else None

    run = await eventually(asks, describe="the question is in the run")
    assert (run["status"], run["tasks"]) == ("RUNNING", {"question": "WAITING", "work": "RUNNING"})
    await answer(gateway, run, "soon")
    answered = await gateway.get(run_id)
    assert answered["open_waits"] == []

    async def writes() -> dict[str, Any] | None:
        run = await gateway.get(run_id)
        return run if run["heartbeat_at"] > answered["heartbeat_at"] else None

    # The worker does not list it again.
    run = await eventually(writes, describe="the worker has stored a heartbeat")
    assert (run["status"], run["open_waits"]) == ("RUNNING", [])
    released.touch()
    run = await gateway.ends(run_id)
    assert (run["status"], run["generation"], run["open_waits"]) == ("COMPLETED", 0, [])
    # The answer did not begin another attempt, although the run was claimed again.
    assert (run["attempt"], run["continuations"], run["delivery"][1]) == (1, 1, 2)


async def test_a_cancel_ends_a_question_beside_running_work(
    gateway: RunningGateway, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    released = tmp_path / "released"
    run_id = await gateway.submit("beside_work", params={"released": str(released)})

    async def asks() -> bool:
        return bool((await gateway.get(run_id)).get("open_waits"))

    await eventually(asks, describe="the question is in the run")
    await gateway.http.post(f"/runs/{run_id}/cancel")
    run = await gateway.ends(run_id)
    assert (run["status"], set(run["tasks"].values())) == ("CANCELLED", {"CANCELLED"})
    await waits_become_cancelled(gateway, run_id)


async def test_a_wait_is_cancelled_when_the_run_ends_without_it(
    gateway: RunningGateway, worker: PyocoNatsWorker
) -> None:
    run = await gateway.ends(await gateway.submit("first_wins"))
    assert run["status"] == "COMPLETED"
    assert run["tasks"]["slow"] == "CANCELLED"
    await waits_become_cancelled(gateway, run["run_id"])


async def test_a_default_answers_and_the_run_continues(
    gateway: RunningGateway, worker: PyocoNatsWorker
) -> None:
    run = await gateway.ends(await gateway.submit("ask_or_default"))
    records = (await gateway.get(run["run_id"], include="records"))["task_records"]
    assert run["status"] == "COMPLETED"
    assert records["ask_or_default"]["output"] == "nobody was there"


async def test_an_expired_wait_fails_the_run_which_can_be_retried(
    gateway: RunningGateway, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    run_id = await gateway.submit("approval", params={"notes": str(notes)})
    await gateway.reaches(run_id, "WAITING_HUMAN")
    # Not with a short limit: the second question has the same, and is to be answered in time.
    store = WaitStore(gateway.inside.connection)
    [asked] = await store.of_run_from_leader(run_id)
    await let_expire(store, asked.record.wait_id)
    run = await gateway.ends(run_id)
    assert (run["status"], run["reason"]) == ("FAILED", "human_timeout")
    assert run["tasks"]["approve"] == "FAILED"
    response = await gateway.http.post(f"/runs/{run_id}/retry")
    assert response.status_code == 200, response.text
    run = await gateway.reaches(run_id, "WAITING_HUMAN")
    assert run["end_time"] is None
    await answer(gateway, run, {})
    run = await gateway.ends(run_id)
    assert run["status"] == "COMPLETED"
    assert notes.read_text().split() == ["prepare", "tell", "pay"]


async def test_a_continuation_that_comes_twice_is_executed_once(
    gateway: RunningGateway, worker: PyocoNatsWorker, tmp_path: Path
) -> None:
    """Also much later, when the queue has forgotten the first one's id: the run waits again by then."""
    notes = tmp_path / "notes"
    queue = WorkQueue(gateway.inside.connection)
    run_id = await gateway.submit("two_questions", params={"notes": str(notes)})
    run = await gateway.reaches(run_id, "WAITING_HUMAN")
    job = await job_again(gateway, run_id)
    await answer(gateway, run, "first")

    async def waits_for_the_other() -> dict[str, Any] | None:
        run = await gateway.get(run_id)
        return run if run["generation"] == 2 else None

    run = await eventually(waits_for_the_other, describe="it waits for the other")
    before = run["attempt"]
    for number in range(3):
        await queue.publish_again(job, revision=number)
    await eventually(lambda: _queue_is_empty(gateway), describe="they are dropped")
    assert (await gateway.get(run_id))["attempt"] == before
    await answer(gateway, run, "second")
    await gateway.ends(run_id)
    assert sorted(notes.read_text().split()) == ["left", "right"]


async def _queue_is_empty(gateway: RunningGateway) -> bool:
    return await queued(gateway) == 0


async def job_again(gateway: RunningGateway, run_id: str) -> Job:
    """What makes the run go on from where it waits now."""
    stored = await RunStore(gateway.inside.connection).get_from_leader(run_id)
    assert stored is not None
    return job_of(stored.snapshot, None)


async def test_waiting_does_not_count_against_the_run_timeout(
    gateway: RunningGateway, worker: PyocoNatsWorker
) -> None:
    run_id = await gateway.submit("ask", timeout_sec=3600)
    await gateway.reaches(run_id, "WAITING_HUMAN")
    stored = await gateway.inside.runs.store.get_from_leader(run_id)
    assert stored is not None
    # As if it had waited for longer than it may take.
    began = {name: getattr(stored.snapshot, name) - 3600 for name in ("start_time", "waiting_since")}
    await gateway.inside.runs.store.replace(
        structs.replace(stored.snapshot, **began), revision=stored.revision
    )
    run = await gateway.get(run_id)
    over_at = run["start_time"] + 3600
    await eventually(lambda: time.time() > over_at, describe="it would have taken too long")
    sweeper = gateway.inside.sweeper
    goal = sweeper.rounds + 3
    await eventually(lambda: sweeper.rounds >= goal, describe="the sweep has looked at it")
    await answer(gateway, run, "late enough")
    run = await gateway.ends(run_id)
    assert run["status"] == "COMPLETED"
    assert run["end_time"] > over_at


async def test_a_wait_that_the_flow_no_longer_asks_is_cancelled(
    shared_config: NatsBackendConfig, gateway: RunningGateway, tmp_path: Path
) -> None:
    """New code has another name for its question; another branch makes the run go on with it."""
    folder = tmp_path / "flows"
    folder.mkdir()

    def write(name: str) -> None:
        lines = [
            "from pyoco import Flow",
            "from pyoco.core.models import Task",
            "flow = Flow(name='renamed')",
            f"flow.add_task(Task(func=lambda ctx: ctx.human('?', name='{name}'), name='asks'))",
            "flow.add_task(Task(func=lambda ctx: ctx.human('!', name='other'), name='other'))",
        ]
        (folder / "renamed_flow.py").write_text("\n".join(lines))

    write("old")
    async with serving_worker(shared_config, worker_id="other", tags=["renamed"], flows=folder):
        run_id = await gateway.submit("renamed", tag="renamed")
        run = await gateway.reaches(run_id, "WAITING_HUMAN")
    write("new")
    async with serving_worker(shared_config, worker_id="other", tags=["renamed"], flows=folder):
        other = next(number for number, wait in enumerate(run["open_waits"]) if wait["name"] == "other")
        await answer(gateway, run, 1, other)

        async def asks_anew() -> dict[str, Any] | None:
            run = await gateway.get(run_id)
            return run if run["generation"] == 2 else None

        run = await eventually(asks_anew, describe="it waits again")
    assert [wait["name"] for wait in run["open_waits"]] == ["new"]
    states = {wait.name: wait.state for wait in await waits_of(gateway, run_id)}
    assert states == {"old": "cancelled", "other": "answered", "new": "open"}


async def test_an_outage_while_a_run_comes_to_wait_loses_nothing_that_it_has_done(
    config: NatsBackendConfig,
    own_nats: NatsServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Otherwise its next owner would execute finished tasks again."""
    monkeypatch.setattr(run_recorder, "_FLUSH_SEC", 0.2)
    notes, released = tmp_path / "notes", tmp_path / "released"
    own = replace(config, nats_url=own_nats.url)
    async with running_gateway(own) as gateway, serving_worker(own):
        params = {"notes": str(notes), "released": str(released)}
        run_id = await gateway.submit("late_question", params=params)
        await eventually(notes.exists, describe="its task is under way")
        await asyncio.to_thread(own_nats.kill)
        released.touch()
        # So long that a worker waits for the journal of a run that ends in vain.
        tired = "a run's journal or log is incomplete"
        await eventually(lambda: tired in caplog.text, describe="the worker has waited")
        await asyncio.to_thread(own_nats.restart)
        await gateway.inside.connection.wait_ready(LIMIT_SEC)
        run = await gateway.reaches(run_id, "WAITING_HUMAN")
        await answer(gateway, run, "yes")
        run = await gateway.ends(run_id)
    assert run["status"] == "COMPLETED"
    assert notes.read_text().split() == ["prepared"]
