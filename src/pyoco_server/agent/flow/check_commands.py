"""The configured checks of a repository: unit tests, end-to-end tests, linter, type checker."""

import os
from dataclasses import dataclass
from typing import TextIO

from pyoco_server.agent.agent_errors import AgentError
from pyoco_server.agent.agent_settings import Argv
from pyoco_server.agent.chosen_environment import program_path
from pyoco_server.agent.flow.cli_calls import run_program
from pyoco_server.agent.flow.run_log import shown_line
from pyoco_server.agent.flow.work_session import WorkSession
from pyoco_server.agent.git.git_command import Interrupted


@dataclass(frozen=True, slots=True)
class CheckResult:
    name: str
    passed: bool
    command: str = ""
    # How it ended, and its last lines, if it failed.
    problem: str = ""


def run_check(session: WorkSession, name: str, command: Argv, log_name: str | None = None) -> CheckResult:
    """Run a check in the worktree; what it leaves behind there is removed.

    Its result goes to the log, and its output also to a file of its own.
    """
    shown = " ".join(command)
    try:
        program = program_path(command[0], session.settings.repo)
    except AgentError as error:
        session.log.say("TEST", f"{name} ... FAIL: {error.message}")
        return CheckResult(name, passed=False, command=shown, problem=str(error))
    session.worktree.stage()
    with _log_file(session, log_name) as file:
        file.write(f"$ {shown_line(shown)}\n")
        result = run_program(
            session,
            list(command),
            program,
            {"AIFLOW_ROLE": "test", "CI": "1"},
            lambda line: file.write(f"{shown_line(line)}\n"),
        )
    session.worktree.restore_staged()
    if result.cancelled:
        raise Interrupted
    how = result.outcome(session.settings.cli_timeout_sec)
    session.log.say("TEST", f"{name} ... {'PASS' if result.succeeded else f'FAIL: {how}'}")
    problem = "" if result.succeeded else f"`{shown}` {how}:\n" + "\n".join(result.tail)
    return CheckResult(name, passed=result.succeeded, command=shown, problem=problem)


def _log_file(session: WorkSession, name: str | None) -> TextIO:
    path = os.devnull if name is None else session.files.path / name
    return open(path, "a", encoding="utf-8", errors="backslashreplace")
