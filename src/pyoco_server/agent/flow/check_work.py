"""One check of the testing phase, and its repair by the role qa."""

from typing import Any, Final

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.agent_settings import Argv
from pyoco_server.agent.coding_cli.cli_reply import CliQuestion
from pyoco_server.agent.flow.check_commands import CheckResult, run_check
from pyoco_server.agent.flow.cli_calls import call_cli
from pyoco_server.agent.flow.prompts import repair_prompt
from pyoco_server.agent.flow.questions import ask
from pyoco_server.agent.flow.work_session import WorkSession
from pyoco_server.agent.git.worktrees import STEP_TRAILER

_TAIL_CHARS: Final = 20_000


class CheckWork:
    def __init__(
        self, session: WorkSession, name: str, command: Argv, log_name: str | None, plan_run: str
    ) -> None:
        self._session = session
        self.name = name
        self.command = command
        self._log_name = log_name
        self._key = f"{session.request_id}/{plan_run}"

    def run(self) -> dict[str, Any]:
        result: CheckResult = run_check(self._session, self.name, self.command, self._log_name)
        return {"passed": result.passed, "problem": result.problem[-_TAIL_CHARS:]}

    def repair(self, number: int, problem: str) -> dict[str, Any]:
        """Have the CLI of the role qa correct what the check has found, and commit that if it helps."""
        session, worktree = self._session, self._session.worktree
        key = f"{self._key}/{session.run_number}-{self.name}-fix{number}"
        if worktree.commit_of(key):
            return {"passed": True}
        session.count_attempt()
        start, request = worktree.head(), session.request
        prompt = repair_prompt(
            title=request.title,
            want=request.want or "",
            command=" ".join(self.command),
            output=problem,
            branch=session.stage.branch,
            excluded=", ".join(session.paths.excluded),
        )
        called = call_cli(session, "qa", prompt)
        worktree.undo_commits(start)
        if called.question is not None:
            return {"passed": False, "question": called.question.as_json(), "problem": problem}
        try:
            worktree.stage()
        except AgentError as error:
            return {"passed": False, "problem": str(error)}
        result = self.run()
        if result["passed"]:
            subject = f"fix: repair {self.name} (req:{session.request_id} step:{self.name})"
            commit = worktree.commit(subject, f"{STEP_TRAILER}: {key}")
            session.stage.last_commit = commit
            session.log.say("COMMIT", f"{commit[:7]} {subject}")
        return result


def checked(ctx: Any, session: WorkSession, work: CheckWork, *, repeats: int) -> dict[str, Any]:
    """The result of the check: a failed one is repeated up to so often, then repaired."""
    tries = 1
    done = ctx.step(f"{work.name}-1", work.run)
    while not done["passed"] and tries <= repeats:
        tries += 1
        session.count_attempt()
        done = ctx.step(f"{work.name}-{tries}", work.run)
    return dict(done) if done["passed"] else _repaired(ctx, session, work, done)


def _repaired(ctx: Any, session: WorkSession, work: CheckWork, found: dict[str, Any]) -> dict[str, Any]:
    """The result after the repairs by the role qa; without a command for that role nobody tries."""
    done, context = found, found["problem"]
    calls = questions = fixes = 0
    while session.settings.qa is not None and fixes < session.settings.step_fix_retries:
        calls += 1
        done = ctx.step(
            f"{work.name}-repair-{calls}",
            lambda number=calls, problem=context: work.repair(number, problem),
        )
        if done["passed"]:
            break
        context = done["problem"]
        if done.get("question"):
            questions += 1
            answer = ask(ctx, session, CliQuestion.from_json(done["question"]), questions, work.name)
            context = f"{context}\n\nAnswer of a person: {answer}"
        else:
            fixes += 1
    return dict(done)


def check_failed(code: AgentCode, command: Argv, output: str) -> AgentError:
    return AgentError(
        code,
        f"`{' '.join(command)}` fails.",
        hint="Read runner.log; correct the cause, or make the want more precise, and run it again.",
        details={"output": output[-_TAIL_CHARS:]},
    )
