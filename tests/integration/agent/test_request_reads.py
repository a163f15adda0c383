"""A request that changes while it is read: its fields are those of its status."""

import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from pyoco_server.agent.header_status import HeaderStatus
from pyoco_server.agent.request_file import RequestFile, RequestStatus
from pyoco_server.agent.requests.repository_files import RepositoryFiles
from pyoco_server.agent.requests.request_queue import RequestQueue
from pyoco_server.agent.run_files import RunFiles, Stage
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import RunStatus
from tests.integration.agent.test_request_queue import set_run_status
from tests.support.agent.served_repository import ServedRepository

PR_URL = "https://github.com/acme/app/compare/main...ai/one?expand=1"


class WorkingRun:
    """The first run of the request `one`, as its flow writes it; no worker executes it."""

    def __init__(self, served: ServedRepository, run_id: str) -> None:
        self._served = served
        self._run_id = run_id
        self._paths = served.repository.settings.paths
        self._files = RunFiles(self._paths, "one", "001")
        self._stage = Stage(request_id="one", run_id="001", pyoco_run_id=run_id, branch="ai/one")

    async def begin(self) -> None:
        self._files.create()
        self._write_run_state(RequestStatus.RUNNING)
        await set_run_status(self._served, self._run_id, RunStatus.RUNNING)

    async def complete(self) -> None:
        self._stage.pr_url, self._stage.last_commit, self._stage.phase = PR_URL, "abc", "reporting"
        self._stage.ended_at = _now().isoformat()
        self._write_run_state(RequestStatus.DONE)
        await set_run_status(self._served, self._run_id, RunStatus.COMPLETED)

    async def die(self) -> None:
        """Its process was killed: the files stay as they are."""
        await set_run_status(self._served, self._run_id, RunStatus.FAILED, error="killed")

    def _write_run_state(self, status: RequestStatus) -> None:
        self._stage.status = status
        self._files.write_stage(self._stage)
        fields = HeaderStatus(status=status).fields(self._stage, "001")
        self._paths.requests.change("one", lambda file: file.changed(fields), _now())


def _now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
async def working_run(served: ServedRepository) -> WorkingRun:
    await served.create("one")
    await served.act("one", "enqueue")
    run = WorkingRun(served, await served.has_run("one"))
    await run.begin()
    assert (await served.get("one"))["status"] == "running"
    return run


@pytest.fixture
async def no_rounds(
    served: ServedRepository, working_run: WorkingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but a request over HTTP reads the run, or notes its end."""

    async def nothing(self: RequestQueue, now: float) -> float | None:
        return None

    monkeypatch.setattr(RequestQueue, "run_due", nothing)
    async with served.queue._reconcile_lock:
        # A round that had begun has read it.
        return


def interleave(
    patch: pytest.MonkeyPatch, method: str, event: Callable[[], Awaitable[object]], *, after: bool = False
) -> list[str]:
    """Have something happen before the next call of a method of the queue, or after it; what happened."""
    original, happened = getattr(RequestQueue, method), list[str]()

    async def call(self: RequestQueue, *args: Any) -> Any:
        is_first = not happened
        happened.append(method)
        if is_first and not after:
            await event()
        found = await original(self, *args)
        if is_first and after:
            await event()
        return found

    patch.setattr(RequestQueue, method, call)
    return happened


async def one_of_list(served: ServedRepository) -> dict[str, Any]:
    (found,) = (await served.ok("GET", "/requests"))["items"]
    return dict(found)


async def one_by_id(served: ServedRepository) -> dict[str, Any]:
    detail = await served.ok("GET", "/requests/one")
    assert f"status: {detail['request']['status']}\n" in detail["content"]["raw_md"]
    return dict(detail["request"])


# After the file was read: before its record is read, or before its run is.
@pytest.mark.usefixtures("no_rounds")
@pytest.mark.parametrize(
    ("read", "method"),
    [(one_by_id, "get"), (one_by_id, "_run"), (one_of_list, "caught_up"), (one_of_list, "_run")],
)
async def test_request_whose_run_ends_while_it_is_read_is_done_with_its_link(
    served: ServedRepository,
    working_run: WorkingRun,
    read: Callable[[ServedRepository], Awaitable[dict[str, Any]]],
    method: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    happened = interleave(monkeypatch, method, working_run.complete)
    request = await read(served)
    assert happened
    assert (request["status"], request["phase"]) == ("done", "reporting")
    assert (request["pr_url"], request["last_commit"]) == (PR_URL, "abc")


async def test_request_that_begins_while_it_is_read_has_not_failed(
    served: ServedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file says that it is running, and the record that was read knows no run."""
    await served.create("one")

    async def begin() -> None:
        await served.act("one", "enqueue")
        await WorkingRun(served, await served.has_run("one")).begin()

    happened = interleave(monkeypatch, "get", begin, after=True)
    request = await one_by_id(served)
    assert happened
    assert (request["status"], request["run_id"]) == ("running", "001")


@pytest.mark.usefixtures("no_rounds")
async def test_end_of_a_killed_run_is_in_its_files_when_it_is_reported(
    served: ServedRepository, working_run: WorkingRun
) -> None:
    await working_run.die()
    run = (await served.ok("GET", "/requests/one/runs/latest"))["run"]
    assert (run["status"], run["error"]["message"]) == ("failed", "killed")
    assert run["ended_at"]
    request = await one_by_id(served)
    assert (request["status"], request["failure_reason"]) == ("failed", "killed")


@pytest.mark.usefixtures("no_rounds")
async def test_list_notes_the_end_of_a_killed_run(served: ServedRepository, working_run: WorkingRun) -> None:
    await working_run.die()
    assert (await one_of_list(served))["status"] == "failed"
    assert served.repository.header("one")["failure_reason"] == "killed"


@pytest.mark.usefixtures("no_rounds")
async def test_end_is_reported_while_nats_cannot_store_it(
    served: ServedRepository, working_run: WorkingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(self: RequestQueue, *args: Any, **fields: Any) -> None:
        raise NatsUnavailable("the disk is full")

    await working_run.die()
    monkeypatch.setattr(RequestQueue, "_change_run", refused)
    request = await one_by_id(served)
    assert (request["status"], request["failure_reason"]) == ("failed", "killed")


async def test_request_whose_file_never_stays_is_refused(
    served: ServedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    await served.create("one")
    read, count = RepositoryFiles.file, itertools.count()

    def written(self: RepositoryFiles, request_id: str) -> RequestFile:
        file = read(self, request_id)
        return RequestFile.parse(request_id, f"{file.raw}\n{next(count)}\n")

    monkeypatch.setattr(RepositoryFiles, "file", written)
    response = await served.call("GET", "/requests/one")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "NATS_UNAVAILABLE")


async def test_lists_that_are_read_at_once_do_not_disturb_each_other(
    served: ServedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that listed the folder before a file was added forgets what others have read of it."""
    await served.create("one")
    read = RepositoryFiles.file

    def forgotten(self: RepositoryFiles, request_id: str) -> RequestFile:
        file = read(self, request_id)
        self._read = {}
        return file

    monkeypatch.setattr(RepositoryFiles, "file", forgotten)
    assert (await one_of_list(served))["id"] == "one"
