"""A remote that asks for credentials, and a repository that another process works in."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.coding_cli import cli_lock
from pyoco_server.agent.coding_cli.cli_lock import take_over
from pyoco_server.agent.file_lock import FileLock
from pyoco_server.agent.flow import work_session
from pyoco_server.agent.flow.request_flow import agent_request
from pyoco_server.agent.flow.work_session import run_params
from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.testing import run_flow
from pyoco_server.worker.engine import run_facts
from tests.support.agent.repository import AgentRepository, git
from tests.support.agent.running import Agent
from tests.support.agent.served_repository import ServedRepository
from tests.support.http_stub import stub
from tests.support.places import ROOT
from tests.support.waiting import eventually

_HOLDER = """
import signal, sys
from pathlib import Path
from pyoco_server.agent.file_lock import FileLock
assert FileLock(Path(sys.argv[1])).try_acquire()
print("held", flush=True)
signal.pause()
"""


@contextmanager
def asking_remote() -> Iterator[str]:
    """The address of a remote that answers everything with 401."""
    with stub([(401, "text/plain", "who are you?")], WWW_Authenticate='Basic realm="git"') as (url, _):
        yield f"{url}/app.git"


@contextmanager
def held_by_another_process(lock: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _HOLDER, str(lock)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


async def test_remote_that_asks_for_credentials_is_refused_without_a_prompt(
    served: ServedRepository, tmp_path: Path
) -> None:
    repo = served.repository.repo
    askpass, asked = tmp_path / "askpass", tmp_path / "asked"
    askpass.write_text(f"#!/bin/sh\ntouch {asked}\necho ada\n")
    askpass.chmod(0o755)
    git(repo, "config", "core.askPass", str(askpass))
    await served.create("asks")
    with asking_remote() as url:
        git(repo, "remote", "set-url", "origin", url)
        response = await served.call("POST", "/requests/asks/enqueue")
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (409, "AUTH_REQUIRED")
    assert f"origin ({url}) asks for credentials" in error["message"]
    assert "terminal prompts disabled" in error["message"]
    assert error["details"]["hint"].startswith(f"Try: git -C {repo} ls-remote origin.")
    assert not asked.exists()
    found = await served.get("asks")
    assert (found["status"], found["enqueued_at"], found["run_id"]) == ("queued", None, None)


async def test_refused_password_is_not_shown(served: ServedRepository) -> None:
    await served.create("refused")
    with asking_remote() as url:
        with_password = url.replace("http://", "http://ada:s3cret@")
        git(served.repository.repo, "remote", "set-url", "origin", with_password)
        response = await served.call("POST", "/requests/refused/enqueue")
        doctor = await served.call("POST", "/doctor")
    assert response.json()["error"]["code"] == "AUTH_REQUIRED"
    assert "s3cret" not in response.text
    assert "s3cret" not in doctor.text
    failed = {check["name"]: check for check in doctor.json()["checks"] if not check["ok"]}
    assert "asks for credentials" in failed["base_branch"]["details"]


@pytest.mark.asyncio(loop_scope="module")
async def test_push_that_needs_credentials_fails_and_keeps_the_commits(agent: Agent) -> None:
    repository = agent.repository
    request_id = repository.request()
    with asking_remote() as url:
        git(repository.repo, "remote", "set-url", "--push", "origin", url)
        run, ended = await agent.run(request_id)
    assert ended["status"] == "FAILED", run.log
    assert run.header["failure_reason"].startswith("AUTH_REQUIRED: ")
    assert run.files.errors()["code"] == "AUTH_REQUIRED"
    assert len(repository.step_keys(repository.branch(request_id))) == 3
    git(repository.repo, "remote", "set-url", "--push", "origin", "../origin.git")
    again, ended = await agent.run(request_id, "002")
    assert ended["status"] == "COMPLETED", again.log
    assert repository.calls() == ["planner", "S01", "S02", "S03"]


def test_run_beside_another_one_fails_and_changes_nothing(
    repository: AgentRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_session, "_LOCK_SEC", 0.0)
    # Here no queue starts the run.
    monkeypatch.setattr(work_session, "_check_cause", lambda *_: None)
    request_id = repository.request()
    # As the queue of the repository starts it.
    monkeypatch.setattr(run_facts, "BY_API", Cause(kind=CauseKind.REQUEST, id=request_id))
    before = repository.header(request_id)
    with held_by_another_process(repository.settings.paths.repo_lock) as holder:
        result = run_flow(agent_request, run_params(request_id, "001", repository.repo))
        assert holder.poll() is None
    assert result.status == "FAILED"
    assert f"LOCK_HELD: {repository.repo} is in use by another process: [{holder.pid}]." in str(result.error)
    assert "One run at a time works in a repository" in str(result.error)
    assert repository.header(request_id) == before
    assert repository.calls() == []


@pytest.mark.asyncio(loop_scope="module")
async def test_run_waits_for_the_lock_and_takes_that_of_a_killed_process(agent: Agent) -> None:
    request_id = agent.repository.request()
    with held_by_another_process(agent.repository.settings.paths.repo_lock) as holder:
        run = await agent.start(request_id)
        await eventually((run.files.path / "runner.log").exists, describe="the run has begun")
        assert run.files.stage() is None
        assert agent.repository.calls() == []
        os.kill(holder.pid, signal.SIGKILL)
    # The file of the lock is still there; nobody holds it.
    assert agent.repository.settings.paths.repo_lock.exists()
    assert (await run.ends())["status"] == "COMPLETED", run.log


def test_lock_of_a_cli_that_does_not_end_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_lock, "_KILL_SEC", 0.0)
    lock = tmp_path / "cli.lock"
    with held_by_another_process(lock) as holder, pytest.raises(AgentError) as raised:
        take_over(FileLock(lock))
    assert raised.value.code == AgentCode.LOCK_HELD
    assert str(holder.pid) in raised.value.message
    assert raised.value.hint == "End that process, then run the request again."
