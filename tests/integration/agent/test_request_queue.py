"""Which request is executed next, and what is done again when a gateway dies between two writes."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.agent.request_file import RequestFile
from pyoco_server.agent.request_folder import RequestFolder
from pyoco_server.agent.requests.request_queue import RequestQueue
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.runs.lifecycle.durable_start import DurableStarter
from tests.support.agent.repository import AgentRepository
from tests.support.agent.served_repository import ServedRepository, serving
from tests.support.waiting import eventually


async def open_runs(served: ServedRepository) -> list[str]:
    """The requests with a run that has not ended, by the records and the runs."""
    found = []
    for record in served.queue.records():
        stored = None
        if record.latest is not None:
            stored = await served.gateway.inside.runs.store.get_from_leader(record.latest.run_id)
        if stored is not None and not stored.snapshot.status.terminal:
            found.append(record.request_id)
    return found


async def set_status(served: ServedRepository, request_id: str, status: RunStatus, **fields: Any) -> None:
    """What a worker would write."""
    await set_run_status(served, await served.has_run(request_id), status, **fields)


async def set_run_status(served: ServedRepository, run_id: str, status: RunStatus, **fields: Any) -> None:
    store = served.gateway.inside.runs.store
    stored = await store.get_from_leader(run_id)
    assert stored is not None
    changed = structs.replace(stored.snapshot, status=status, **fields)
    await store.replace(changed, revision=stored.revision)


async def test_one_run_at_a_time_by_priority(served: ServedRepository) -> None:
    for name, priority in (("first", "P3"), ("low", "P3"), ("high", "P0"), ("mid", "P2")):
        await served.create(name, priority=priority)
    await served.act("first", "enqueue")
    await served.has_run("first")
    for name in ("low", "mid", "high"):
        await served.act(name, "enqueue")
    order = []
    for _ in range(4):
        (running,) = await eventually(lambda: open_runs(served), describe="a request is executed")
        order.append(running)
        await served.act(running, "stop")
        await served.reaches(running, "queued")
    assert order == ["first", "high", "mid", "low"]
    assert [each["status"] for each in await served.runs()] == ["CANCELLED"] * 4


async def test_priority_of_an_edited_file_counts(served: ServedRepository) -> None:
    for name in ("first", "one", "two"):
        await served.create(name, priority="P2")
        await served.act(name, "enqueue")
    await served.has_run("first")
    path = served.repository.repo / "requests" / "two.md"
    path.write_text(path.read_text(encoding="utf-8").replace("priority: P2", "priority: P0"))
    await served.act("first", "stop")
    await served.has_run("two")
    assert (await served.get("one"))["run_id"] is None


async def test_repeated_enqueue_starts_one_run(served: ServedRepository) -> None:
    await served.create("one")
    states = await asyncio.gather(*(served.act("one", "enqueue") for _ in range(8)))
    assert {state["status"] for state in states} == {"queued"}
    await served.has_run("one")
    await served.act("one", "enqueue")
    assert len(await served.runs()) == 1


async def test_run_names_its_request_and_the_repository_worker(served: ServedRepository) -> None:
    await served.create("one")
    await served.act("one", "enqueue")
    run = await served.gateway.get(await served.has_run("one"))
    assert run["cause"] == {"kind": "request", "id": "one"}
    assert (run["flow_name"], run["tag"]) == ("agent_request", "repo-0123456789ab")
    assert run["params"]["request_id"] == "one"
    assert run["params"]["request_run"] == "001"


@pytest.mark.parametrize(("written", "next_run"), [("'005'", "006"), ("999999", "001")])
async def test_run_of_another_clone_is_not_counted_again(
    served: ServedRepository, written: str, next_run: str
) -> None:
    """The file is in the repository, the folders of runs are not; commits of run 001 may be on the base."""
    await served.create("one")
    path = served.repository.repo / "requests" / "one.md"
    path.write_text(path.read_text(encoding="utf-8").replace("\n---\n\n", f"\nrun_id: {written}\n---\n\n", 1))
    await served.act("one", "enqueue")
    await served.has_run("one", next_run)


async def test_stop_takes_a_request_out_of_the_queue(served: ServedRepository) -> None:
    for name in ("first", "second"):
        await served.create(name)
        await served.act(name, "enqueue")
    await served.has_run("first")
    stopped = await served.act("second", "stop")
    assert (stopped["status"], stopped["enqueued_at"]) == ("queued", None)
    assert await served.error("POST", "/requests/second/stop") == (409, "NOT_RUNNING")
    await served.act("first", "stop")
    await served.reaches("first", "queued")
    assert await open_runs(served) == []


@pytest.mark.parametrize("status", [RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.COMPLETED])
async def test_rerun_that_is_stopped_before_its_turn_leaves_the_request_queued(
    served: ServedRepository, status: RunStatus
) -> None:
    await served.create("one")
    await served.act("one", "enqueue")
    await set_status(served, "one", status, error="it failed")
    await served.reaches("one", "failed", "queued")
    await served.create("first", priority="P0")
    await served.act("first", "enqueue")
    await served.has_run("first")
    await served.act("one", "rerun")
    stopped = await served.act("one", "stop")
    for request in (stopped, await served.get("one"), (await _listed(served))["one"]):
        assert (request["status"], request["failure_reason"], request["enqueued_at"]) == (
            "queued",
            None,
            None,
        )
    header = served.repository.header("one")
    assert (header["status"], header.get("failure_reason")) == ("queued", None)
    # The run itself has ended as before.
    (run,) = (await served.ok("GET", "/requests/one/runs"))["items"]
    assert run["status"] == ("queued" if status is RunStatus.CANCELLED else "failed")
    assert await served.error("POST", "/requests/one/stop") == (409, "NOT_RUNNING")
    await served.act("first", "stop")
    await served.act("one", "enqueue")
    await served.has_run("one", "002")


async def _listed(served: ServedRepository) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in (await served.ok("GET", "/requests"))["items"]}


async def test_request_that_is_made_again_is_a_new_one(served: ServedRepository) -> None:
    await served.create("one")
    await served.act("one", "enqueue")
    run_id = await served.has_run("one")
    # Or the gateway would write this to the file after it is removed, and so make it again.
    await eventually(
        lambda: served.repository.header("one").get("run_id") == "001", describe="the file names the run"
    )
    await set_run_status(served, run_id, RunStatus.RUNNING)
    path = served.repository.repo / "requests" / "one.md"
    path.unlink()
    body = {"title": "One", "id": "one"}
    # Its run goes on.
    assert await served.error("POST", "/requests", body) == (409, "FILE_ALREADY_EXISTS")
    assert not path.exists()
    await set_run_status(served, run_id, RunStatus.FAILED, error="it failed")

    async def has_ended() -> bool:
        stored = await served.queue.get("one")
        return stored is not None and stored.record.open_run is None

    await eventually(has_ended, describe="the end of its run is noted")
    created = (await served.ok("POST", "/requests", body))["request"]
    assert (created["status"], created["run_id"], created["failure_reason"]) == ("queued", None, None)
    assert (await served.get("one"))["status"] == "queued"
    assert await served.queue.get("one") is None


async def test_want_is_not_changed_in_the_moment_in_which_a_run_begins(
    served: ServedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run reads the want after it has written to the file that it is running."""
    await served.create("one")
    await served.act("one", "enqueue")
    await set_status(served, "one", RunStatus.PENDING)
    folder = served.repository.settings.paths.requests
    change = RequestFolder.change

    def begun(self: RequestFolder, request_id: str, decide: Any, *args: Any) -> RequestFile:
        if "RequestService.edit" in decide.__qualname__:
            monkeypatch.undo()
            folder.change("one", lambda file: file.changed({"status": "running", "run_id": "001"}))
        return change(self, request_id, decide, *args)

    monkeypatch.setattr(RequestFolder, "change", begun)
    want = {"want": {"text": "Something else"}}
    assert await served.error("PATCH", "/requests/one", want) == (409, "CANNOT_EDIT_WHILE_RUNNING")
    assert folder.read("one").want == "Three files"
    # The file of a run that nobody executes any more says so for ever: it can be edited.
    await set_status(served, "one", RunStatus.FAILED, error="it failed")
    await served.reaches("one", "failed")
    folder.change("one", lambda file: file.changed({"status": "running", "run_id": "001"}))
    await served.ok("PATCH", "/requests/one", want)
    assert folder.read("one").want == "Something else"


@pytest.mark.parametrize(
    ("status", "fields", "shown"),
    [
        (RunStatus.FAILED, {"error": "the worker died every time"}, "failed"),
        (RunStatus.CANCELLED, {}, "queued"),
        # Without a link for a pull request nothing was handed over.
        (RunStatus.COMPLETED, {}, "failed"),
    ],
)
async def test_end_of_a_run_is_written_to_the_file(
    served: ServedRepository, status: RunStatus, fields: dict[str, Any], shown: str
) -> None:
    await served.create("one")
    await served.act("one", "enqueue")
    await set_status(served, "one", RunStatus.RUNNING)
    assert (await served.get("one"))["status"] == "running"
    assert await served.error("POST", "/requests/one/enqueue") == (409, "ALREADY_RUNNING")
    assert await served.error("POST", "/requests/one/rerun") == (409, "ALREADY_RUNNING")
    assert await served.error("PATCH", "/requests/one", {"want": {"text": "x"}}) == (
        409,
        "CANNOT_EDIT_WHILE_RUNNING",
    )
    assert (await served.ok("PATCH", "/requests/one", {"priority": "P0"}))["request"]["priority"] == "P0"
    await set_status(served, "one", status, **fields)
    request = await served.reaches("one", shown)
    if shown == "failed":
        assert request["failure_reason"]
    await eventually(
        lambda: served.repository.header("one")["status"] == shown, describe="the file has the status"
    )
    again = await served.act("one", "rerun")
    assert (again["status"], again["failure_reason"]) == ("queued", None)
    await served.has_run("one", "002")


async def test_deleted_run_ends_as_failed(served: ServedRepository) -> None:
    await served.create("one")
    await served.act("one", "enqueue")
    run_id = await served.has_run("one")
    store = served.gateway.inside.runs.store
    stored = await store.get_from_leader(run_id)
    assert stored is not None
    await store.delete(run_id, revision=stored.revision)
    request = await served.reaches("one", "failed")
    assert "was deleted" in request["failure_reason"]


async def test_folders_of_earlier_runs_are_not_used_again(served: ServedRepository) -> None:
    await served.create("one")
    (served.repository.repo / "runs" / "one" / "007").mkdir(parents=True)
    await served.act("one", "enqueue")
    await served.has_run("one", "008")
    assert [each["id"] for each in (await served.ok("GET", "/requests/one/runs"))["items"]] == ["008", "007"]


async def test_request_whose_file_is_gone_leaves_the_queue(served: ServedRepository) -> None:
    for name in ("first", "gone", "last"):
        await served.create(name)
        await served.act(name, "enqueue")
    await served.has_run("first")
    (served.repository.repo / "requests" / "gone.md").unlink()
    await served.act("first", "stop")
    await served.has_run("last")

    async def is_out() -> bool:
        stored = await served.queue.get("gone")
        return stored is not None and stored.record.queued_at is None

    await eventually(is_out, describe="the request has left the queue")


async def test_run_is_started_by_the_next_gateway_if_one_dies_after_its_decision(
    config: NatsBackendConfig, repository: AgentRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(self: DurableStarter, job: Any) -> bool:
        raise NatsUnavailable("the gateway was killed here")

    async with serving(config, repository) as served:
        await served.create("one")
        monkeypatch.setattr(DurableStarter, "ensure_run", dies)
        await served.act("one", "enqueue")

        async def is_decided() -> str | None:
            stored = await served.queue.get("one")
            return None if stored is None or stored.record.latest is None else stored.record.latest.run_id

        run_id = await eventually(is_decided, describe="the next run is decided")
        assert await served.gateway.inside.runs.store.get_from_leader(run_id) is None
    monkeypatch.undo()
    async with serving(config, repository) as served:
        assert await served.has_run("one") == run_id
        assert len(await served.runs()) == 1


async def test_stop_is_done_by_the_next_gateway_if_one_dies_after_storing_it(
    config: NatsBackendConfig, repository: AgentRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(self: RequestQueue, *args: Any) -> None:
        raise NatsUnavailable("the gateway was killed here")

    async with serving(config, repository) as served:
        await served.create("one")
        await served.act("one", "enqueue")
        await served.has_run("one")
        monkeypatch.setattr(RequestQueue, "_reconcile_run", _once_then(RequestQueue._reconcile_run, dies))
        assert (await served.call("POST", "/requests/one/stop")).status_code == 503
    monkeypatch.undo()
    async with serving(config, repository) as served:
        await served.reaches("one", "queued")
        await eventually(lambda: _has_ended(served), describe="the run is cancelled")


def _once_then(first: Any, then: Any) -> Any:
    """The first call as it is: it comes before the stop is stored."""
    calls = 0

    async def call(self: RequestQueue, *args: Any) -> None:
        nonlocal calls
        calls += 1
        stored = await self.get(args[0].request_id)
        assert stored is not None
        assert stored.record.latest is not None
        await (first if stored.record.latest.stop is None else then)(self, *args)

    return call


async def _has_ended(served: ServedRepository) -> bool:
    return [each["status"] for each in await served.runs()] == ["CANCELLED"]


async def test_two_gateways_start_one_run_at_a_time(
    config: NatsBackendConfig, repository: AgentRepository, tmp_path: Path
) -> None:
    other_config = replace(config, index_dir=str(tmp_path / "other-index"))
    async with serving(config, repository) as one, serving(other_config, repository) as other:
        names = [f"request-{number}" for number in range(6)]
        for number, name in enumerate(names):
            await (one, other)[number % 2].create(name)
        await asyncio.gather(*((one, other)[n % 2].act(name, "enqueue") for n, name in enumerate(names)))
        done: set[str] = set()
        while len(done) < len(names):
            running = await eventually(lambda: open_runs(one), describe="a request is executed")
            assert len(running) == 1
            await other.act(running[0], "stop")
            await one.reaches(running[0], "queued")
            done.add(running[0])
        assert len(await one.runs()) == len(names)
