"""A request from its file to a pushed branch: each phase, questions, stops and later runs."""

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.agent.git.worktrees import is_saved
from pyoco_server.agent.header_status import AgentRunFacts, write_run_state
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.runs.lifecycle.cancel_request import cancel_run
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from tests.support.agent.repository import WEB_URL, git
from tests.support.agent.running import Agent
from tests.support.agent.scripted_cli import plan
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNIT_TEST = [sys.executable, "-c", "import glob; assert all(open(f).read() for f in glob.glob('S*.txt'))"]


async def test_request_becomes_a_pushed_branch_with_a_compare_url(agent: Agent) -> None:
    repository = agent.repository
    repository.configure({"commands": {"unitTest": UNIT_TEST}})
    git(repository.repo, "commit", "-q", "-am", "configure")
    git(repository.repo, "push", "-q", "origin", "main")
    request_id = repository.request()
    run, ended = await agent.run(request_id)
    assert (ended["status"], ended["error"]) == ("COMPLETED", None), run.log
    branch = repository.branch(request_id)
    assert repository.subjects(branch, remote=True) == [
        f"feat: write file {number} (req:{request_id} step:S0{number})" for number in (1, 2, 3)
    ]
    assert repository.step_keys(branch, remote=True) == [
        f"{request_id}/001/S0{number}" for number in (1, 2, 3)
    ]
    url = f"{WEB_URL}/compare/main...{branch}?expand=1"
    head = git(repository.origin, "rev-parse", branch).strip()
    header = run.header
    assert {name: header[name] for name in ("status", "run_id", "phase", "pr_url", "last_commit")} == {
        "status": "done",
        "run_id": "001",
        "phase": "reporting",
        "pr_url": url,
        "last_commit": head,
    }
    assert header["updated_at"].endswith("+09:00")
    stage = run.stage
    assert (stage.status, stage.phase, stage.pr_url, stage.last_commit) == ("done", "reporting", url, head)
    assert [(step.id, step.state, step.tests) for step in stage.steps] == [
        (f"S0{number}", "done", "passed") for number in (1, 2, 3)
    ]
    assert set(run.files.artifact_names()) >= {
        "runner.log",
        "stage.json",
        "plan.json",
        "unit.log",
        "artifacts.json",
    }
    kinds = [line.split(" ")[0] for line in run.log.splitlines() if not line.startswith("| ")]
    assert kinds[0] == "[RUN]"
    assert kinds[-1] == "[DONE]"
    phases = [line.split(" ")[1] for line in run.log.splitlines() if line.startswith("[PHASE]")]
    assert phases == ["planning", "implementing", "testing", "documenting", "pushing", "reporting"]
    file = repository.settings.paths.requests.read(request_id)
    assert file.want == "Three files, please."
    assert "#### S01: Write file 1" in (file.plan or "")
    for heading in ("Summary", "Acceptance Criteria", "Steps Executed", "Tests", "Changes", "Risks / Notes"):
        assert f"#### {heading}" in (file.report or "")
    # The folder of the person is as it was.
    assert git(repository.repo, "rev-parse", "--abbrev-ref", "HEAD").strip() == "main"
    assert git(repository.repo, "status", "--porcelain").split() == ["??", "requests/"]


async def test_question_parks_the_run_and_its_answer_continues_it(agent: Agent) -> None:
    question = {
        "text": "ISO or US dates?",
        "why": "both occur",
        "format": "one word",
        "choices": ["ISO", "US"],
    }
    agent.repository.script(S02=[{"question": question, "write": {"half.txt": "begun"}}, {}])
    request_id = agent.repository.request()
    run = await agent.start(request_id)
    asked = await run.asks()
    assert "ISO or US dates?" in asked["wait_message"]
    assert run.header["status"] == run.stage.status == "needs_input"
    assert run.header["blocked_reason"].startswith("ISO or US dates?")
    assert run.files.errors()["code"] == "AMBIGUOUS_REQUIREMENT"
    await run.answer("ISO, please")
    ended = await run.ends()
    assert ended["status"] == "COMPLETED", run.log
    # The step before the question is not done again.
    assert agent.repository.calls() == ["planner", "S01", "S02", "S02", "S03"]
    assert "ISO, please" in (agent.repository.cli / "prompt-S02-2.md").read_text()
    file = agent.repository.settings.paths.requests.read(request_id)
    assert (file.want or "").count("### 回答 (") == 1
    assert (file.want or "").endswith("ISO, please")
    assert (run.header["status"], run.header.get("blocked_reason")) == ("done", None)


async def test_stop_commits_uncommitted_work_and_the_next_run_continues(agent: Agent) -> None:
    agent.repository.script(S02=[{"hang": True}, {}])
    request_id = agent.repository.request()
    run = await agent.start(request_id)
    hanging = agent.repository.cli / "hangs"
    await eventually(hanging.exists, describe="the CLI hangs in S02")
    await run.cancel()
    ended = await run.ends()
    assert ended["status"] == "CANCELLED", run.log
    assert not Path(f"/proc/{hanging.read_text()}").exists()
    assert (run.header["status"], run.stage.status, run.stage.work_saved) == ("queued", "queued", True)
    assert run.stage.ended_at is not None
    branch = agent.repository.branch(request_id)
    assert git(agent.repository.repo, "show", f"{branch}:S02.txt") == "S02\n"
    assert agent.repository.subjects(branch)[-1].startswith("wip: ")

    again, ended = await agent.run(request_id, "002")
    assert ended["status"] == "COMPLETED", again.log
    # Neither the plan nor the first step is made again.
    assert agent.repository.calls() == ["planner", "S01", "S02", "S02", "S03"]
    assert agent.repository.step_keys(branch, remote=True) == [f"{request_id}/001/S0{n}" for n in (1, 2, 3)]
    assert again.header["status"] == "done"


async def test_work_of_a_run_that_was_ended_by_force_is_saved_by_the_next(agent: Agent) -> None:
    agent.repository.script(S02=[{"hang": True}, {}])
    request_id = agent.repository.request()
    run = await agent.start(request_id)
    await eventually((agent.repository.cli / "hangs").exists, describe="the CLI hangs in S02")
    gateway = agent.gateway.inside
    await cancel_run(gateway.connection, RunStore(gateway.connection), run.run_id, ANYBODY, force=True)
    assert (await run.ends())["status"] == "CANCELLED"
    settings, branch = agent.repository.settings, agent.repository.branch(request_id)
    assert run.stage.work_saved is None
    assert not is_saved(settings, request_id, branch)
    facts = AgentRunFacts(status=RunStatus.CANCELLED, work_saved=False)
    file = write_run_state(settings, request_id, "001", facts, datetime.now(UTC))
    assert (file.text("failure_reason") or "").startswith("WORK_NOT_SAVED: ")

    again, ended = await agent.run(request_id, "002")
    assert ended["status"] == "COMPLETED", again.log
    assert [subject.split(" ")[0] for subject in agent.repository.subjects(branch)] == [
        "feat:",
        "wip:",
        "feat:",
        "feat:",
    ]
    assert agent.repository.calls() == ["planner", "S01", "S02", "S02", "S03"]


async def test_rerun_of_a_finished_request_continues_its_branch(agent: Agent) -> None:
    request_id = agent.repository.request()
    await agent.run(request_id)
    path = agent.repository.settings.paths.requests.file_of(request_id)
    path.write_text(path.read_text() + "\nA note of a person.\n")
    agent.repository.script(
        S01=[{"write": {"more.txt": "x"}}], S02=[{"write": {"y": "y"}}], S03=[{"write": {"z": "z"}}]
    )
    run, ended = await agent.run(request_id, "002")
    assert ended["status"] == "COMPLETED", run.log
    branch = agent.repository.branch(request_id)
    keys = agent.repository.step_keys(branch, remote=True)
    assert keys == [f"{request_id}/{run}/S0{n}" for run in ("001", "002") for n in (1, 2, 3)]
    assert "feat: write file 1" in (agent.repository.cli / "prompt-planner-2.md").read_text()
    report = agent.repository.settings.paths.requests.read(request_id).report or ""
    assert report.index("### Run 001") < report.index("A note of a person.") < report.index("### Run 002")
    assert "#### Summary" in report[report.index("### Run 002") :]


async def test_plan_that_fails_the_gate_is_made_again_and_then_asked_about(agent: Agent) -> None:
    agent.repository.script(planner=[{"plan": plan(1)}, {"plan": plan(2)}, {"plan": plan(2)}, {}])
    request_id = agent.repository.request()
    run = await agent.start(request_id)
    await run.asks()
    assert agent.repository.calls() == ["planner"] * 3
    assert "it has 2 steps" in run.header["blocked_reason"]
    assert "it has 1 steps" in (agent.repository.cli / "prompt-planner-2.md").read_text()
    await run.answer("Use three steps")
    assert (await run.ends())["status"] == "COMPLETED", run.log
    assert "Use three steps" in (agent.repository.cli / "prompt-planner-4.md").read_text()


async def test_failed_unit_test_is_repaired_with_its_output_as_context(agent: Agent) -> None:
    agent.repository.configure(
        {
            "commands": {
                "unitTest": [
                    sys.executable,
                    "-c",
                    "import os,sys; sys.exit(os.path.exists('bad') and 'BAD!')",
                ]
            }
        }
    )
    git(agent.repository.repo, "commit", "-q", "-am", "configure")
    agent.repository.script(S01=[{"write": {"bad": "x", "S01.txt": "x"}}, {"run": ["rm", "bad"]}])
    request_id = agent.repository.request()
    run, ended = await agent.run(request_id)
    assert ended["status"] == "COMPLETED", run.log
    assert agent.repository.calls() == ["planner", "S01", "S01", "S02", "S03"]
    assert "BAD!" in (agent.repository.cli / "prompt-S01-2.md").read_text()
    assert run.stage.attempt == 2
    assert "bad" not in git(
        agent.repository.origin, "ls-tree", "--name-only", agent.repository.branch(request_id)
    )


async def test_step_that_does_not_converge_fails_the_run(agent: Agent) -> None:
    agent.repository.script(S01=[{"exit": 3, "say": ["no idea"]}])
    request_id = agent.repository.request()
    run, ended = await agent.run(request_id)
    assert ended["status"] == "FAILED"
    assert agent.repository.calls() == ["planner", "S01", "S01", "S01"]
    assert run.header["status"] == "failed"
    assert run.header["failure_reason"].startswith("RETRY_EXCEEDED: S01")
    assert "no idea" in run.files.errors()["details"]["output"]
    assert "no idea" in (agent.repository.cli / "prompt-S01-2.md").read_text()


async def test_step_without_a_change_needs_a_summary(agent: Agent) -> None:
    nothing: dict[str, Any] = {"write": {}, "summary": None}
    agent.repository.script(S01=[nothing, {"write": {}, "summary": "was there already"}])
    request_id = agent.repository.request()
    run, ended = await agent.run(request_id)
    assert ended["status"] == "COMPLETED", run.log
    assert "nothing was changed" in (agent.repository.cli / "prompt-S01-2.md").read_text()
    assert len(agent.repository.step_keys(agent.repository.branch(request_id))) == 3


async def test_what_a_cli_commits_or_writes_to_our_folders_is_not_in_the_branch(agent: Agent) -> None:
    commit = ["git", "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "by myself"]
    stray = {"requests/x.md": "x", "runs/y": "y", ".aiflow/z": "z", "S01.txt": "good"}
    run_it = ["sh", "-c", "git add -Af . && " + " ".join(f"'{part}'" for part in commit)]
    agent.repository.script(S01=[{"write": stray, "run": run_it}])
    request_id = agent.repository.request()
    run, ended = await agent.run(request_id)
    assert ended["status"] == "COMPLETED", run.log
    branch = agent.repository.branch(request_id)
    assert len(agent.repository.subjects(branch, remote=True)) == 3
    names = git(agent.repository.origin, "ls-tree", "-r", "--name-only", branch).split()
    assert names == [".aiflowrc.json", "README.md", "S01.txt", "S02.txt", "S03.txt"]


async def test_environment_of_a_cli_is_chosen(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    del monkeypatch
    agent.repository.script(S01=[{"environment": True}])
    await agent.run(agent.repository.request())
    found = json.loads((agent.repository.cli / "environment.json").read_text())
    allowed = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "TERM", "PWD"}
    ours = {"AIFLOW_ROLE", "AIFLOW_REQUEST_ID", "AIFLOW_RUN_ID", "AIFLOW_STEP", "AIFLOW_ATTEMPT"}
    assert found.keys() - allowed - {"PYOCO_EXECUTOR_MARK"} == ours
    assert (found["TERM"], found["AIFLOW_ROLE"], found["AIFLOW_STEP"]) == ("dumb", "implementer", "S01")
    assert found["HOME"] == os.environ["HOME"]


async def test_unknown_host_asks_for_the_web_page(agent: Agent) -> None:
    agent.repository.configure({"git": {"repoWebUrl": None}})
    git(agent.repository.repo, "commit", "-q", "-am", "configure")
    request_id = agent.repository.request()
    run = await agent.start(request_id)
    await run.asks()
    assert "web page of the repository" in run.header["blocked_reason"]
    await run.answer("https://gitlab.example.com/team/app is the page")
    await eventually(lambda: run.log.count("[QUESTION]") == 2, describe="what is no address is asked again")
    await run.asks()
    await run.answer("https://gitlab.example.com/team/app")
    assert (await run.ends())["status"] == "COMPLETED", run.log
    assert run.header["pr_url"].startswith("https://gitlab.example.com/team/app/-/merge_requests/new?")


async def test_qa_repairs_what_the_testing_phase_finds(agent: Agent) -> None:
    command = agent.repository.settings.implementer
    assert command is not None
    lint = [sys.executable, "-c", "import os,sys; sys.exit(0 if os.path.exists('linted') else 'not linted')"]
    agent.repository.configure({"ai": {"qa": list(command)}, "commands": {"lint": lint}})
    git(agent.repository.repo, "commit", "-q", "-am", "configure")
    agent.repository.script(qa=[{"write": {"linted": "x"}}])
    request_id = agent.repository.request()
    run, ended = await agent.run(request_id)
    assert ended["status"] == "COMPLETED", run.log
    assert agent.repository.calls()[-1] == "qa"
    assert "not linted" in (agent.repository.cli / "prompt-qa-1.md").read_text()
    assert agent.repository.subjects(agent.repository.branch(request_id), remote=True)[-1].startswith(
        "fix: repair lint"
    )
