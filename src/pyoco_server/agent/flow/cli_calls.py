"""Calls of a coding CLI by a task: one retry, then the fallback, then a question to a person."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.agent_settings import Argv
from pyoco_server.agent.atomic_files import write_atomically
from pyoco_server.agent.chosen_environment import chosen_environment, program_path
from pyoco_server.agent.coding_cli.cli_arguments import cli_arguments
from pyoco_server.agent.coding_cli.cli_process import ProcessResult, execute
from pyoco_server.agent.coding_cli.cli_reply import CliQuestion, CliReply, reply_of
from pyoco_server.agent.file_lock import FileLock
from pyoco_server.agent.flow.work_session import WorkSession
from pyoco_server.agent.git.git_command import Interrupted

_TRIES: Final = 2


@dataclass(frozen=True, slots=True)
class CliOutcome:
    """How the last call ended; `question` if a person has to help."""

    reply: CliReply
    exit_code: int = 0
    how: str = ""
    tail: str = ""
    stdout: str = ""
    question: CliQuestion | None = None

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0 and self.question is None


def call_cli(session: WorkSession, role: str, prompt: str, *, step: str | None = None) -> CliOutcome:
    """Call the CLI of a role until one ends by itself.

    A call that cannot be started, hangs or is killed is repeated once, then made with the fallback. An exit
    code other than 0 is the caller's to judge, except for the planner, whose result would be missing.
    """
    failures: list[str] = []
    for template in _templates(session, role):
        if failures:
            session.count_attempt()
        try:
            result = _call(session, role, template, prompt, step)
        except (AgentError, OSError) as error:
            failures.append(str(error))
            session.log.say("CLI", f"{role} could not be started: {error}")
            continue
        if result.cancelled:
            raise Interrupted
        reply = reply_of(result.block, result.stdout_tail)
        how = result.outcome(session.settings.cli_timeout_sec)
        session.log.say("CLI", f"{role} {how}")
        if reply.question is not None or _ended_by_itself(result, role):
            tail = "\n".join(result.tail)
            return CliOutcome(reply, result.exit_code, how, tail, result.stdout_tail, reply.question)
        failures.append(how)
    return CliOutcome(CliReply(), 1, failures[-1], question=_help_needed(role, failures))


def _templates(session: WorkSession, role: str) -> list[Argv]:
    own, fallback = session.settings.cli(role), session.settings.cli("fallback")
    return [*([own] * _TRIES if own else []), *([fallback] if fallback else [])] or [("",)]


def _ended_by_itself(result: ProcessResult, role: str) -> bool:
    if result.timed_out or result.printed_too_much or result.exit_code < 0:
        return False
    return role != "planner" or result.exit_code == 0


def _help_needed(role: str, failures: list[str]) -> CliQuestion:
    return CliQuestion(
        text=f"The coding CLI of the role {role} does not work: {failures[-1]}. What shall be done?",
        why=f"it was called {len(failures)} times, the last time with this result",
        format="Correct ai in .aiflowrc.json, or the CLI itself, then answer: retry",
        choices=("retry",),
    )


def _call(session: WorkSession, role: str, template: Argv, prompt: str, step: str | None) -> ProcessResult:
    settings, worktree = session.settings, session.worktree.path
    if not template[0]:
        raise AgentError(
            AgentCode.COMMAND_NOT_FOUND,
            f"no command is configured: .aiflowrc.json has neither ai.{role} nor ai.implementer",
        )
    program = program_path(template[0], settings.repo)
    prompt_file = session.files.path / f"prompt-{role}-{step or 'all'}-{session.stage.attempt}.md"
    write_atomically(prompt_file, prompt)
    argv = cli_arguments(
        template, model=settings.model, workdir=worktree, prompt=prompt, prompt_file=prompt_file
    )
    return run_program(
        session,
        argv,
        program,
        {
            "AIFLOW_ROLE": role,
            "AIFLOW_STEP": step or "",
        },
    )


def run_program(
    session: WorkSession,
    argv: list[str],
    program: str,
    extra: dict[str, str],
    also: Callable[[str], object] | None = None,
) -> ProcessResult:
    """Execute a program in the worktree; its lines go to the log, and to `also`."""
    settings = session.settings
    environment = {
        "AIFLOW_REQUEST_ID": session.request_id,
        "AIFLOW_RUN_ID": session.run_number,
        "AIFLOW_ATTEMPT": str(session.stage.attempt),
        **extra,
    }

    def on_line(line: str) -> None:
        session.log.program_line(line)
        if also is not None:
            also(line)

    try:
        return execute(
            argv,
            program=program,
            folder=session.worktree.path,
            environment=chosen_environment(settings.cli_env, environment),
            timeout_sec=settings.cli_timeout_sec,
            on_line=on_line,
            is_cancelled=session.is_cancelled,
            lock=FileLock(session.paths.cli_lock(session.request_id)),
        )
    finally:
        session.log.flush()
