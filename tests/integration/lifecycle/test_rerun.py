"""Reruns: a new run of the same work, which starts with what it can reuse."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.broker.stores.runs.dead_letters import DeadLetters
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.run_models import Job, RunStatus, TaskStatus
from tests.integration.lifecycle.test_submit import queued_job
from tests.support.broker.journals import journalled_runs
from tests.support.inspection import stored_run_ids
from tests.support.problems import assert_problem
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually_equals

pytestmark = pytest.mark.asyncio(loop_scope="module")

YAML = """version: 1
flow: {graph: load, defaults: {x: 41}}
tasks:
  load: {callable: "tests.flows.basics:load"}
"""
YAML_DIGEST = sha256(YAML.encode()).hexdigest()
FAILED_TASKS = {"load": TaskStatus.SUCCEEDED, "clean": TaskStatus.FAILED, "store": TaskStatus.PENDING}


async def end(
    gateway: RunningGateway,
    run_id: str,
    status: RunStatus = RunStatus.FAILED,
    tasks: dict[str, TaskStatus] = FAILED_TASKS,
) -> str:
    """End the run as its worker would."""
    stored = await gateway.inside.runs.store.get(run_id)
    assert stored is not None
    ended = structs.replace(stored.snapshot, status=status, tasks=tasks)
    await gateway.inside.runs.store.replace(ended, revision=stored.revision)
    return run_id


async def rerun(gateway: RunningGateway, run_id: str, **body: Any) -> dict[str, Any]:
    response = await gateway.http.post(f"/runs/{run_id}/rerun", json=body)
    assert response.status_code == 200, response.text
    accepted: dict[str, Any] = response.json()
    return accepted


async def reruns(gateway: RunningGateway, origin: str) -> list[str]:
    response = await gateway.http.get("/runs", params={"origin": origin})
    return [item["run_id"] for item in response.json()]


@pytest.fixture
def gateway(shared_gateway: RunningGateway) -> RunningGateway:
    return shared_gateway


def entry(task: str) -> JournalEntry:
    return JournalEntry(key=f"{task}||0", task=task, attempt=1, started_at=1.0, ended_at=2.0, output=b"1")


async def test_a_rerun_is_a_new_run_of_the_same_work(working_gateway: RunningGateway) -> None:
    origin = await working_gateway.ends(
        await working_gateway.submit("chain", params={"x": 4}, tag="gpu", tags=["night"], timeout_sec=60)
    )
    response = await working_gateway.http.post(f"/runs/{origin['run_id']}/rerun")
    assert response.status_code == 200
    accepted = response.json()
    assert accepted == {
        "run_id": accepted["run_id"],
        "status": "PENDING",
        "origin_run_id": origin["run_id"],
    }
    assert accepted["run_id"] != origin["run_id"]
    run = await working_gateway.ends(accepted["run_id"])
    same = ("status", "flow_name", "params", "tag", "tags", "timeout_sec", "tasks")
    assert {name: run[name] for name in same} == {name: origin[name] for name in same}
    assert run["status"] == "COMPLETED"
    assert (run["origin_run_id"], run["rerun_mode"], run["rerun_task"]) == (origin["run_id"], "start", None)
    assert run["submitted_at"] > origin["submitted_at"]
    assert (await working_gateway.get(origin["run_id"]))["updated_at"] == origin["updated_at"]


async def test_a_rerun_of_a_flow_yaml_runs_the_same_file(working_gateway: RunningGateway) -> None:
    first = await working_gateway.ends((await working_gateway.submit_yaml("\ufeff" + YAML)).json()["run_id"])
    second = await working_gateway.ends((await rerun(working_gateway, first["run_id"]))["run_id"])
    third = await working_gateway.ends((await rerun(working_gateway, second["run_id"]))["run_id"])
    for run in (first, second, third):
        assert run["status"] == "COMPLETED", run["error"]
        assert run["task_records"]["load"]["output"] == 42
        journal, digest = Journal(working_gateway.inside.connection), run["workflow_yaml_sha256"]
        assert await journal.document("default", run["run_id"], digest) == YAML
    digests = {(run["workflow_yaml_sha256"], run["workflow_yaml_bytes"]) for run in (first, second, third)}
    assert len(digests) == 1
    assert (second["origin_run_id"], third["origin_run_id"]) == (first["run_id"], second["run_id"])


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (RunStatus.FAILED, {"mode": "failed"}),
        (RunStatus.CANCELLED, {"mode": "failed"}),
        (RunStatus.FAILED, {"mode": "task", "task": "clean"}),
        (RunStatus.FAILED, {"mode": "start"}),
    ],
)
async def test_a_resuming_rerun_has_the_journal_of_its_origin(
    gateway: RunningGateway, status: RunStatus, body: dict[str, str]
) -> None:
    journal = Journal(gateway.inside.connection)
    origin = await end(gateway, (await gateway.submit_yaml(YAML)).json()["run_id"], status)
    entries = [entry("load"), entry("big")]
    for each in entries:
        await journal.append("default", origin, each)
    run_id = (await rerun(gateway, origin, **body))["run_id"]
    assert await journal.entries("default", origin) == entries
    copied = await journal.entries("default", run_id)
    reused = [] if body["mode"] == "start" else entries
    assert [(each.key, each.output) for each in copied] == [(each.key, each.output) for each in reused]
    assert await journal.document("default", run_id, YAML_DIGEST) == YAML
    run, job = await gateway.get(run_id), await queued_job(gateway)
    for record in (run, structs.asdict(job)):
        assert (record["rerun_mode"], record["rerun_task"]) == (body["mode"], body.get("task"))
        assert record["origin_run_id"] == origin
    assert (job.run_id, job.workflow_yaml) == (run_id, YAML)


async def test_a_completed_run_has_nothing_that_failed(gateway: RunningGateway) -> None:
    tasks = dict.fromkeys(FAILED_TASKS, TaskStatus.SUCCEEDED)
    origin = await end(gateway, await gateway.submit("chain"), RunStatus.COMPLETED, tasks)
    response = await gateway.http.post(f"/runs/{origin}/rerun", json={"mode": "failed"})
    [error] = assert_problem(response, 422, 2)["errors"]
    assert (error["field"], error["value"]) == ("mode", "'failed'")
    assert "use 'start', or 'task'" in error["message"]
    await rerun(gateway, origin, mode="task", task="store")


async def test_a_completed_run_reruns_its_failed_task(
    working_gateway: RunningGateway, tmp_path: Path
) -> None:
    book = tmp_path / "book"
    origin = await working_gateway.ends(
        await working_gateway.submit("failing-aside", params={"book": str(book), "times": 2})
    )
    assert (origin["status"], origin["tasks"]["flaky"]) == ("COMPLETED", "FAILED")
    assert sorted(book.read_text().split()) == ["other", "try"]
    run = await working_gateway.ends(
        (await rerun(working_gateway, origin["run_id"], mode="failed"))["run_id"]
    )
    assert run["status"] == "COMPLETED", run["error"]
    assert run["tasks"] == {"flaky": "SUCCEEDED", "other": "SUCCEEDED"}
    assert sorted(book.read_text().split()) == ["other", "try", "try"]


@pytest.mark.parametrize("status", [RunStatus.PENDING, RunStatus.RUNNING, RunStatus.CANCELLING])
async def test_an_open_run_is_not_rerun(gateway: RunningGateway, status: RunStatus) -> None:
    origin = await end(gateway, await gateway.submit("chain"), status)
    for mode in ("start", "failed"):
        response = await gateway.http.post(f"/runs/{origin}/rerun", json={"mode": mode})
        assert f"is {status}; wait for its end" in assert_problem(response, 409, 25)["detail"]
    assert await reruns(gateway, origin) == []


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (FAILED_TASKS, "Did you mean 'clean'? It has 'load', 'clean', 'store'"),
        ({f"t{number}": TaskStatus.SUCCEEDED for number in range(500)}, "'t19', …"),
    ],
    ids=["few", "many"],
)
async def test_an_unknown_task_is_refused_with_the_known_ones(
    gateway: RunningGateway, tasks: dict[str, TaskStatus], message: str
) -> None:
    origin = await end(gateway, await gateway.submit("chain"), tasks=tasks)
    response = await gateway.http.post(f"/runs/{origin}/rerun", json={"mode": "task", "task": "claen"})
    [error] = assert_problem(response, 422, 2)["errors"]
    assert (error["field"], error["value"]) == ("task", "'claen'")
    assert error["message"].endswith(message)


async def test_a_run_without_task_states_accepts_any_task(gateway: RunningGateway) -> None:
    origin = await end(gateway, await gateway.submit("chain"), tasks={})
    assert (await rerun(gateway, origin, mode="task", task="anything"))["origin_run_id"] == origin


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"mode": "task"}, "task", "needs the name of the task"),
        ({"mode": "start", "task": "load"}, "task", "use mode 'task', or leave the task out"),
        ({"mode": "failed", "task": "load"}, "task", "use mode 'task', or leave the task out"),
        ({"task": "load"}, "task", "use mode 'task', or leave the task out"),
        ({"mode": "task", "task": ""}, "task", "length >= 1"),
        ({"mode": "begin"}, "mode", "expected one of start, failed, task"),
        ({"mode": None}, "mode", "expected one of start, failed, task"),
        ({"form": "start"}, "form", "unknown field"),
        ([], "", "Expected `object`"),
    ],
)
async def test_an_invalid_rerun_is_refused(
    gateway: RunningGateway, body: Any, field: str, message: str
) -> None:
    origin = await end(gateway, await gateway.submit("chain"))
    response = await gateway.http.post(f"/runs/{origin}/rerun", json=body)
    [error] = assert_problem(response, 422, 2)["errors"]
    assert error["field"] == field
    assert message in error["message"]
    assert await reruns(gateway, origin) == []


@pytest.mark.parametrize("content", [b"{", b"\xff", b'{"task": "' + b"x" * 20_000 + b'"}'])
async def test_an_invalid_body_is_refused(gateway: RunningGateway, content: bytes) -> None:
    origin = await end(gateway, await gateway.submit("chain"))
    assert_problem(await gateway.http.post(f"/runs/{origin}/rerun", content=content), 422, 2)


@pytest.mark.parametrize("run_id", ["nope", "a.*", "*", ">", "00000000-0000-4000-8000-000000000000"])
async def test_an_unknown_run_is_not_found(gateway: RunningGateway, run_id: str) -> None:
    await end(gateway, await gateway.submit("chain"))
    assert_problem(await gateway.http.post(f"/runs/{run_id}/rerun"), 404, 5)


@pytest.mark.parametrize("mode", ["start", "failed"])
async def test_a_lost_flow_yaml_is_reported(gateway: RunningGateway, mode: str) -> None:
    origin = await end(gateway, (await gateway.submit_yaml(YAML)).json()["run_id"])
    await Journal(gateway.inside.connection).remove(origin)
    response = await gateway.http.post(f"/runs/{origin}/rerun", json={"mode": mode})
    assert "submit the file again" in assert_problem(response, 409, 25)["detail"]


async def test_a_failed_rerun_leaves_no_journal(
    own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = await end(own_gateway, await own_gateway.submit("chain"))
    await Journal(own_gateway.inside.connection).append("default", origin, entry("load"))
    copied: set[str] = set()

    async def lost(job: Job, *, run_revision: int, encoded: bytes) -> None:
        copied.update(await journalled_runs(own_gateway))
        raise NatsUnavailable("lost")

    monkeypatch.setattr(own_gateway.inside.runs.submitter._queue, "publish", lost)
    response = await own_gateway.http.post(f"/runs/{origin}/rerun", json={"mode": "failed"})
    assert_problem(response, 503, 3)
    assert len(copied) == 2, "the journal was not copied before the job was published"
    await eventually_equals(lambda: stored_run_ids(own_gateway), {origin}, describe="the rerun is withdrawn")
    await eventually_equals(lambda: journalled_runs(own_gateway), {origin}, describe="its journal is removed")


async def has_waited(gateway: RunningGateway) -> str:
    """A run that has waited twice, and then failed."""
    run_id = await end(gateway, await gateway.submit("chain", params={"x": 1}))
    stored = await gateway.inside.runs.store.get(run_id)
    assert stored is not None
    waited = structs.replace(stored.snapshot, generation=2, reason="execution_error")
    await gateway.inside.runs.store.replace(waited, revision=stored.revision)
    return run_id


async def test_the_rerun_of_a_run_with_waits_is_executed(
    config: NatsBackendConfig, own_gateway: RunningGateway
) -> None:
    modes = ({"mode": "start"}, {"mode": "failed"}, {"mode": "task", "task": "load"})
    accepted = [await rerun(own_gateway, await has_waited(own_gateway), **mode) for mode in modes]
    # And by its dead letter.
    origin = await has_waited(own_gateway)
    letter = DeadLetter(timestamp=1.0, reason="execution_error", error="x", run_id=origin, tag="default")
    await DeadLetters(own_gateway.inside.connection).publish(letter, tag="default")
    response = await own_gateway.http.post("/dlq/1/replay")
    assert response.status_code == 200, response.text
    accepted.append(response.json())
    async with serving_worker(config):
        for each in accepted:
            run = await own_gateway.ends(each["run_id"])
            assert (run["status"], run["origin_run_id"]) == ("COMPLETED", each["origin_run_id"])
            # It is another run, and has not waited for anybody.
            assert run["generation"] == 0
