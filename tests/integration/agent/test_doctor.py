"""The doctor of a repository: each failed check names the command that repairs it."""

import re
from pathlib import Path

import pytest

from pyoco_server.agent.agent_settings import load_settings
from pyoco_server.agent.doctor import run_doctor
from tests.support.agent.repository import AgentRepository, git
from tests.support.places import ROOT


@pytest.fixture
def repository(tmp_path: Path) -> AgentRepository:
    return AgentRepository(tmp_path)


def test_good_repository_passes(repository: AgentRepository) -> None:
    checks = {check.name: check for check in run_doctor(repository.settings, port=0)}
    assert {name for name, check in checks.items() if not check.ok} <= {"node"}
    expected = {
        "git",
        "repo",
        "git_config",
        "worktree",
        "origin",
        "base_branch",
        "folders",
        "node",
        "ai_cli",
        "port",
    }
    assert checks.keys() == expected
    assert checks["git"].version
    assert (checks["git"].details, checks["git"].fix) == (None, None)


def test_each_check_has_japanese_texts_in_the_dashboard(repository: AgentRepository) -> None:
    # A program that several roles share is checked once.
    roles = {
        role: [program, "{prompt}"]
        for role, program in (("planner", "sh"), ("qa", "env"), ("fallback", "git"))
    }
    commands = {name: ["git"] for name in ("unitTest", "e2eTest", "lint", "typecheck")}
    repository.configure({"ai": roles, "commands": commands})
    checked = {check.name for check in run_doctor(repository.settings)}
    table = (ROOT / "ui/src/screens/doctor/checkTexts.ts").read_text(encoding="utf-8")
    assert set(re.findall(r"^  (\w+): \{", table, re.MULTILINE)) == checked


def test_program_of_several_roles_is_that_of_the_implementer(repository: AgentRepository) -> None:
    repository.configure({"ai": {role: ["sh", "{prompt}"] for role in ("planner", "implementer")}})
    names = [check.name for check in run_doctor(repository.settings)]
    assert [name for name in names if name.startswith("ai_cli")] == ["ai_cli"]


def test_failed_checks_have_a_cure(repository: AgentRepository) -> None:
    repository.configure(
        {"ai": {"implementer": ["no-such-agent", "{prompt}"]}, "git": {"baseBranchDefault": "dev"}}
    )
    failed = {check.name: check for check in run_doctor(repository.settings) if not check.ok}
    assert {"worktree", "base_branch", "ai_cli"} <= failed.keys()
    assert all(check.fix and check.details for check in failed.values())
    git(repository.repo, "remote", "remove", "origin")
    failed = {check.name: check for check in run_doctor(repository.settings) if not check.ok}
    assert "remote add origin" in (failed["origin"].fix or "")


def test_folder_that_is_no_repository_fails_and_is_not_changed(tmp_path: Path) -> None:
    failed = {check.name for check in run_doctor(load_settings(tmp_path, environ={})) if not check.ok}
    assert {"repo", "origin", "base_branch", "ai_cli"} <= failed
    assert list(tmp_path.iterdir()) == []


def test_address_of_the_remote_is_shown_without_its_password(repository: AgentRepository) -> None:
    git(repository.repo, "remote", "set-url", "origin", "https://ada:secret@127.0.0.1:1/x.git")
    shown = str(run_doctor(repository.settings))
    assert "127.0.0.1" in shown
    assert "secret" not in shown


def test_doctor_executes_nothing_of_an_untrusted_configuration(
    repository: AgentRepository, tmp_path: Path
) -> None:
    trace = tmp_path / "executed"
    git(repository.repo, "remote", "set-url", "origin", "ssh://localhost/x")
    git(repository.repo, "config", "core.sshCommand", f"touch {trace}; false")
    git(repository.repo, "config", "filter.evil.clean", f"touch {trace}; cat")
    (repository.repo / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    (repository.repo / "README.md").write_text("changed\n")
    checks = {check.name: check for check in run_doctor(repository.settings)}
    assert not trace.exists()
    assert not checks["git_config"].ok
    for name in ("worktree", "origin", "base_branch"):
        assert (checks[name].ok, checks[name].details) == (False, "not checked: see git_config")
