"""The configured checks of a repository: unit tests, end-to-end tests, linter, type checker."""

from dataclasses import dataclass

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
    result = run_program(session, list(command), program, {"AIFLOW_ROLE": "test", "CI": "1"})
    session.worktree.restore_staged()
    if result.cancelled:
        raise Interrupted
    how = result.outcome(session.settings.cli_timeout_sec)
    if log_name is not None:
        lines = "\n".join(shown_line(line) for line in result.tail)
        with open(session.files.path / log_name, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"$ {shown}\n{lines}\n{name} {how}\n")
    session.log.say("TEST", f"{name} ... {'PASS' if result.succeeded else f'FAIL: {how}'}")
    problem = "" if result.succeeded else f"`{shown}` {how}:\n" + "\n".join(result.tail)
    return CheckResult(name, passed=result.succeeded, command=shown, problem=problem)
