"""One check of the testing phase, and its repair by the role qa."""

from typing import Any, Final

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
        self, session: WorkSession, name: str, command: Any, log_name: str | None, plan_run: str
    ) -> None:
        self._session = session
        self.name = name
        self.command = command
        self._log_name = log_name
        self._key = f"{session.request_id}/{plan_run}"
        self.problem = ""

    def run(self) -> dict[str, Any]:
        result: CheckResult = run_check(self._session, self.name, self.command, self._log_name)
        self.problem = result.problem
        return {"passed": result.passed, "problem": result.problem[-_TAIL_CHARS:]}

    def repair(self, number: int, problem: str) -> dict[str, Any]:
        """Have the CLI of the role qa correct what the check has found, and commit that if it helps."""
        session, worktree = self._session, self._session.worktree
        key = f"{self._key}/{session.run_id}-{self.name}-fix{number}"
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
        worktree.stage()
        result = self.run()
        if result["passed"]:
            subject = f"fix: repair {self.name} (req:{session.request_id} step:{self.name})"
            commit = worktree.commit(subject, f"{STEP_TRAILER}: {key}")
            session.stage.last_commit = commit
            session.log.say("COMMIT", f"{commit[:7]} {subject}")
        return result


def repaired(ctx: Any, session: WorkSession, work: CheckWork, tries: int) -> bool:
    """Whether the role qa could repair it; without a command for that role nobody tries."""
    if session.settings.qa is None:
        return False
    problem, questions, fixes = work.problem, 0, 0
    while fixes < session.settings.step_fix_retries:
        number = tries + fixes + questions
        done = ctx.step(
            f"{work.name}-repair-{number}",
            lambda number=number, problem=problem: work.repair(number, problem),
        )
        if done["passed"]:
            return True
        problem = work.problem = done["problem"]
        if done.get("question"):
            questions += 1
            answer = ask(ctx, session, CliQuestion.from_json(done["question"]), questions)
            problem = f"{problem}\n\nAnswer of a person: {answer}"
        else:
            fixes += 1
    return False
