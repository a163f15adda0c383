"""What can be wrong with a repository or a coding CLI: how each ends."""

import sys
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.agent.git.worktrees import is_saved
from tests.support.agent.repository import git
from tests.support.agent.running import Agent, AgentRun
from tests.support.processes import is_alive
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _failed(agent: Agent, request_id: str, code: str) -> AgentRun:
    run, ended = await agent.run(request_id)
    assert ended["status"] == "FAILED", run.log
    assert code in ended["error"]
    assert (run.header["status"], run.stage.status) == ("failed", "failed")
    assert run.header["failure_reason"].startswith(f"{code}: ")
    assert run.files.errors()["code"] == code
    return run


async def test_dirty_tree_fails_before_anything_is_made(agent: Agent) -> None:
    (agent.repository.repo / "README.md").write_text("changed\n")
    run = await _failed(agent, agent.repository.request(), "WORKTREE_DIRTY")
    assert run.files.errors()["details"]["paths"] == ["README.md"]
    assert agent.repository.calls() == []


async def test_requests_and_runs_do_not_make_a_tree_dirty(agent: Agent) -> None:
    repository = agent.repository
    request_id = repository.request()
    git(repository.repo, "add", "requests")
    git(repository.repo, "commit", "-q", "-m", "track requests")
    repository.request("Another one, not tracked")
    run, ended = await agent.run(request_id)
    assert ended["status"] == "COMPLETED", run.log


async def test_missing_origin_fails(agent: Agent) -> None:
    git(agent.repository.repo, "remote", "remove", "origin")
    await _failed(agent, agent.repository.request(), "REMOTE_ORIGIN_MISSING")


async def test_missing_base_fails(agent: Agent) -> None:
    request_id = agent.repository.request()
    agent.repository.settings.paths.requests.change(
        request_id, lambda file: file.changed({"base": "develop"})
    )
    run = await _failed(agent, request_id, "BASE_BRANCH_NOT_FOUND")
    assert "develop" in run.header["failure_reason"]


async def test_refused_push_fails_and_keeps_the_branch(agent: Agent) -> None:
    hook = agent.repository.origin / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'no pushes on Fridays' >&2\nexit 1\n")
    hook.chmod(0o755)
    request_id = agent.repository.request()
    run = await _failed(agent, request_id, "PUSH_FAILED")
    assert "no pushes on Fridays" in run.header["failure_reason"]
    assert len(agent.repository.step_keys(agent.repository.branch(request_id))) == 3
    hook.unlink()
    again, ended = await agent.run(request_id, "002")
    assert ended["status"] == "COMPLETED", again.log
    assert agent.repository.calls() == ["planner", "S01", "S02", "S03"]
    assert (again.header["status"], again.header.get("failure_reason")) == ("done", None)


async def test_branch_that_somebody_else_has_changed_is_not_overwritten(agent: Agent) -> None:
    request_id = agent.repository.request()
    branch = agent.repository.branch(request_id)
    other = agent.repository.repo.parent / "other"
    git(agent.repository.repo.parent, "clone", "-q", str(agent.repository.origin), str(other))
    git(other, "switch", "-q", "-c", branch)
    git(other, "commit", "-q", "--allow-empty", "-m", "by a person")
    git(other, "push", "-q", "origin", branch)
    run, ended = await agent.run(request_id)
    assert ended["status"] == "COMPLETED", run.log
    assert agent.repository.subjects(branch, remote=True)[0] == "by a person"
    git(other, "pull", "-q", "origin", branch)
    git(other, "commit", "-q", "--allow-empty", "-m", "later")
    git(other, "push", "-q", "origin", branch)
    worktree = agent.repository.settings.paths.worktree(request_id)
    git(worktree, "commit", "-q", "--allow-empty", "-m", "here too")
    run, ended = await agent.run(request_id, "002")
    assert ended["status"] == "FAILED"
    assert run.header["failure_reason"].startswith("PUSH_FAILED")
    assert agent.repository.subjects(branch, remote=True)[-1] == "later"


async def test_missing_cli_asks_and_continues_when_it_is_there(agent: Agent) -> None:
    command = list(agent.repository.settings.implementer or ())
    agent.repository.configure({"ai": {"implementer": ["no-such-agent", "{prompt}"]}})
    git(agent.repository.repo, "commit", "-q", "-am", "configure")
    request_id = agent.repository.request()
    run = await agent.start(request_id)
    await run.asks()
    assert run.header["status"] == "needs_input"
    assert "COMMAND_NOT_FOUND: The command 'no-such-agent' was not found" in run.header["blocked_reason"]
    agent.repository.configure({"ai": {"implementer": command}})
    await run.answer("retry")
    assert (await run.ends())["status"] == "COMPLETED", run.log


async def test_hanging_cli_is_ended_retried_and_then_asked_about(agent: Agent) -> None:
    agent.repository.configure({"ai": {"timeoutSec": 2}})
    git(agent.repository.repo, "commit", "-q", "-am", "configure")
    agent.repository.script(S01=[{"hang": True, "ignore_term": True, "detach": True}] * 2 + [{}])
    request_id = agent.repository.request()
    run = await agent.start(request_id)
    await run.asks()
    assert agent.repository.calls() == ["planner", "S01", "S01"]
    assert "ended after its time limit of 2 s" in run.header["blocked_reason"]
    for name in ("hangs", "detached.pid"):
        assert not is_alive(int((agent.repository.cli / name).read_text()))
    await run.answer("retry")
    assert (await run.ends())["status"] == "COMPLETED", run.log


async def test_fallback_is_used_after_two_failed_calls(agent: Agent) -> None:
    command = list(agent.repository.settings.implementer or ())
    agent.repository.configure(
        {"ai": {"planner": [sys.executable, "-c", "exit(7)", "{prompt}"], "fallback": command}}
    )
    git(agent.repository.repo, "commit", "-q", "-am", "configure")
    run, ended = await agent.run(agent.repository.request())
    assert ended["status"] == "COMPLETED", run.log
    assert run.log.count("[CLI] planner exited with code 7") == 2
    assert agent.repository.calls()[0] == "planner"


async def test_fifty_megabytes_of_output_are_in_the_log_and_not_in_memory(agent: Agent) -> None:
    size = 50_000_000
    agent.repository.script(S01=[{"print_bytes": size}])
    run, ended = await agent.run(agent.repository.request())
    assert ended["status"] == "COMPLETED"
    assert (run.files.path / "runner.log").stat().st_size > size
    assert run.log.rstrip().splitlines()[-1].startswith("[DONE]")
    logs = await agent.gateway.http.get(f"/runs/{run.run_id}/logs", params={"limit": 10})
    assert logs.status_code == 200


async def test_request_that_does_not_exist_writes_nothing(agent: Agent) -> None:
    run, ended = await agent.run("20260101-nothing")
    assert ended["status"] == "FAILED"
    assert "REQUEST_NOT_FOUND" in ended["error"]
    assert not run.files.path.exists()


@pytest.mark.parametrize(
    "params",
    [{"request_id": "../../etc/passwd"}, {"request_id": 7}, {"request_run": "../1"}, {"request_run": None}],
    ids=str,
)
async def test_invalid_parameters_fail_and_write_nothing(agent: Agent, params: dict[str, Any]) -> None:
    agent.repository.request()
    before = sorted(path.name for path in agent.repository.repo.rglob("*") if ".git" not in path.parts)
    run = AgentRun(agent.gateway, agent.repository, "20260101-nothing", "001")
    await run.submit(**params)
    ended = await run.ends()
    assert ended["status"] == "FAILED"
    assert "INVALID_REQUEST" in ended["error"]
    after = sorted(path.name for path in agent.repository.repo.rglob("*") if ".git" not in path.parts)
    assert after == before


async def test_earlier_run_does_not_continue_beside_a_later_one(agent: Agent) -> None:
    request_id = agent.repository.request()
    await agent.run(request_id, "002")
    before = agent.repository.header(request_id)
    run, ended = await agent.run(request_id, "001")
    assert ended["status"] == "FAILED"
    assert "is not its latest run" in ended["error"]
    assert agent.repository.header(request_id) == before
    assert run.stage.status == "failed"


async def test_header_that_a_person_has_broken_does_not_stop_the_run(agent: Agent, tmp_path: Path) -> None:
    del tmp_path
    request_id = agent.repository.request()
    path = agent.repository.settings.paths.requests.file_of(request_id)
    broken = path.read_text().replace("title: Write", "title: 'Write")
    path.write_text(broken)
    run, ended = await agent.run(request_id)
    assert ended["status"] == "COMPLETED", run.log
    assert path.read_text() == broken
    assert run.stage.status == "done"


async def test_stopped_cli_that_has_removed_its_git_file_has_not_saved_its_work(agent: Agent) -> None:
    repository = agent.repository
    repository.script(S02=[{"write": {"S02.txt": "mine"}, "run": ["rm", ".git"], "hang": True}, {}])
    request_id = repository.request()
    run = await agent.start(request_id)
    await eventually((repository.cli / "hangs").exists, describe="the CLI hangs in S02")
    await run.cancel()
    assert (await run.ends())["status"] == "CANCELLED"
    assert (run.header["status"], run.stage.work_saved) == ("failed", False)
    worktree = repository.settings.paths.worktree(request_id)
    assert run.header["failure_reason"].startswith("WORK_NOT_SAVED: Stopped, and the work could not be saved")
    assert str(worktree) in run.header["failure_reason"]
    assert not is_saved(repository.settings, request_id, repository.branch(request_id))
    # The next run keeps what is there, and says where.
    again, ended = await agent.run(request_id, "002")
    assert ended["status"] == "COMPLETED", again.log
    (kept,) = worktree.parent.glob(f"{request_id}.kept-*")
    assert (kept / "S02.txt").read_text() == "mine\n"
    assert f"is kept in {kept}" in again.log


@pytest.mark.parametrize("has_commit", [True, False])
async def test_repository_in_the_worktree_is_not_committed_as_a_link(agent: Agent, has_commit: bool) -> None:
    """Git would commit the id of its commit, and none of its files."""
    commit = "git -c user.name=x -c user.email=x@x commit -qm x" if has_commit else "true"
    nested = ["sh", "-c", f"git init -q lib/sub && cd lib/sub && echo x > a && git add a && {commit}"]
    cure = {"run": ["rm", "-rf", "lib/sub/.git"]}
    agent.repository.script(S01=[{"run": nested}, cure])
    request_id = agent.repository.request()
    run, ended = await agent.run(request_id)
    assert ended["status"] == "COMPLETED", run.log
    assert agent.repository.calls() == ["planner", "S01", "S01", "S02", "S03"]
    prompt = (agent.repository.cli / "prompt-S01-2.md").read_text()
    assert "lib/sub is a git repository of its own" in prompt
    files = git(agent.repository.origin, "ls-tree", "-r", agent.repository.branch(request_id))
    assert "lib/sub/a" in files
    assert "160000" not in files


async def test_repository_that_a_cli_has_added_itself_is_not_committed_as_a_link(agent: Agent) -> None:
    made = "git init -q sub && git -C sub -c user.name=x -c user.email=x@x commit -qm x --allow-empty"
    agent.repository.script(
        S01=[
            {"run": ["sh", "-c", f"{made}; echo x > sub/a; git add sub"]},
            {"run": ["rm", "-rf", "sub/.git"]},
        ]
    )
    request_id = agent.repository.request()
    run, ended = await agent.run(request_id)
    assert ended["status"] == "COMPLETED", run.log
    files = git(agent.repository.origin, "ls-tree", "-r", agent.repository.branch(request_id))
    assert "sub/a" in files
    assert "160000" not in files


async def test_stop_with_a_repository_in_the_worktree_has_not_saved_its_work(agent: Agent) -> None:
    agent.repository.script(
        S01=[{"run": ["git", "init", "-q", "sub"], "write": {"sub/a": "x"}, "hang": True}]
    )
    request_id = agent.repository.request()
    run = await agent.start(request_id)
    await eventually((agent.repository.cli / "hangs").exists, describe="the CLI hangs in S01")
    await run.cancel()
    assert (await run.ends())["status"] == "CANCELLED"
    assert run.header["failure_reason"].startswith("WORK_NOT_SAVED")
    assert "sub is a git repository of its own" in run.header["failure_reason"]


@pytest.mark.parametrize(
    ("pushed", "status"), [("by-a-person.txt", "COMPLETED"), ("S01.txt", "FAILED")], ids=["other", "same"]
)
async def test_push_of_a_person_beside_uncommitted_work_is_taken_over(
    agent: Agent, pushed: str, status: str
) -> None:
    repository = agent.repository
    repository.script(S01=[{"exit": 3}] * 3 + [{}])
    request_id = repository.request()
    branch, other = repository.branch(request_id), repository.repo.parent / "other"
    await agent.run(request_id)
    git(repository.repo.parent, "clone", "-q", str(repository.origin), str(other))
    git(other, "switch", "-q", "-c", branch)
    (other / pushed).write_text("by a person\n")
    git(other, "add", pushed)
    git(other, "commit", "-q", "-m", "by a person")
    git(other, "push", "-q", "origin", branch)
    run, ended = await agent.run(request_id, "002")
    assert ended["status"] == status, run.log
    if status == "COMPLETED":
        subjects = [subject.split(" ")[0] for subject in repository.subjects(branch, remote=True)]
        assert subjects == ["by", "wip:", "feat:", "feat:", "feat:"]
    else:
        assert "change files with uncommitted work" in run.header["failure_reason"]
        assert "both changed" not in run.header["failure_reason"]
        worktree = repository.settings.paths.worktree(request_id)
        assert (worktree / "S01.txt").read_text() == "S01\n"
