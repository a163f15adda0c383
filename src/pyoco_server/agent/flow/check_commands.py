"""The configured checks of a repository: unit tests, end-to-end tests, linter, type checker."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from pyoco_server.agent.agent_errors import AgentError
from pyoco_server.agent.agent_settings import Argv
from pyoco_server.agent.atomic_files import append_to
from pyoco_server.agent.chosen_environment import program_path
from pyoco_server.agent.coding_cli.cli_process import ProcessResult
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
    result = _executed(session, command, program, log_name)
    if result.exit_code < 0 and not (result.timed_out or result.cancelled or result.printed_too_much):
        # Killed by somebody else, which says nothing about the code.
        session.log.say("TEST", f"{name} was ended by signal {-result.exit_code}, and is repeated")
        session.worktree.restore_staged()
        result = _executed(session, command, program, log_name)
    session.worktree.restore_staged()
    if result.cancelled:
        raise Interrupted
    how = result.outcome(session.settings.cli_timeout_sec)
    session.log.say("TEST", f"{name} ... {'PASS' if result.succeeded else f'FAIL: {how}'}")
    problem = "" if result.succeeded else f"`{shown}` {how}:\n" + "\n".join(result.tail)
    return CheckResult(name, passed=result.succeeded, command=shown, problem=problem)


def _executed(session: WorkSession, command: Argv, program: str, log_name: str | None) -> ProcessResult:
    with _log_file(session, log_name) as file:
        file.write(f"$ {shown_line(' '.join(command))}\n")
        return run_program(
            session,
            list(command),
            program,
            {"AIFLOW_ROLE": "test", "CI": "1"},
            lambda line: file.write(f"{shown_line(line)}\n"),
        )


def _log_file(session: WorkSession, name: str | None) -> TextIO:
    return append_to(Path(os.devnull) if name is None else session.files.path / name)
