"""One step of the plan: the change, its unit tests, its commit and its line in the report."""

from typing import Any, Final

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.coding_cli.cli_reply import CliQuestion
from pyoco_server.agent.flow.check_commands import run_check
from pyoco_server.agent.flow.cli_calls import call_cli
from pyoco_server.agent.flow.prompts import step_prompt
from pyoco_server.agent.flow.questions import ask
from pyoco_server.agent.flow.report_parts import STEPS, flat, with_line
from pyoco_server.agent.flow.work_session import WorkSession
from pyoco_server.agent.git.worktrees import STEP_TRAILER
from pyoco_server.agent.request_file import RequestFile
from pyoco_server.agent.run_files import UNIT_LOG
from pyoco_server.agent.step_plan import (
    PlanStep,
    StepPlan,
)

_TAIL_CHARS: Final = 20_000


class StepWork:
    """One step of the plan, tried until it passes its gate."""

    def __init__(
        self, session: WorkSession, made: StepPlan, step: PlanStep, plan_run: str, base: str
    ) -> None:
        self._session = session
        self._plan = made
        self._step = step
        self._key = f"{session.request_id}/{plan_run}/{step.id}"
        self._base = base
        # What was wrong with the last try, and what people have answered.
        self._failure = ""
        self._answers: list[str] = []

    def complete(self, ctx: Any) -> str:
        """The commit of the step; AgentError RETRY_EXCEEDED if it does not pass its gate."""
        session, step = self._session, self._step
        calls = fixes = questions = 0
        while True:
            calls += 1
            done = ctx.step(f"{step.id}-{calls}", self._attempt)
            if done.get("commit"):
                return str(done["commit"])
            if done.get("question"):
                questions += 1
                question = CliQuestion.from_json(done["question"])
                self._answers.append(ask(ctx, session, question, questions, step.id))
                continue
            fixes += 1
            self._failure = done["failure"]
            if fixes > session.settings.step_fix_retries:
                raise _step_failed(step, fixes, self._failure)

    def _attempt(self) -> dict[str, Any]:
        """`commit`, `question`, or `failure` with what the next try has to know."""
        session, step = self._session, self._step
        if commit := session.worktree.commit_of(self._key):
            # Committed by an attempt that was killed before it could say so, or by an earlier run.
            session.log.say("STEP", f"{step.id} is on the branch")
            return self._done(commit, None)
        if self._failure:
            session.count_attempt()
        session.set_step(step.id, state="running", tests=None)
        session.log.say("STEP", f"{step.id} start")
        start = session.worktree.head()
        request = session.request
        prompt = step_prompt(
            title=request.title,
            want=request.want or "",
            plan=self._plan,
            step=step,
            failure=self._failure,
            answers=self._answers,
            branch=session.stage.branch,
            excluded=", ".join(session.paths.excluded),
        )
        called = call_cli(session, "implementer", prompt, step=step.id)
        session.worktree.undo_commits(start)
        if called.question is not None:
            return {"question": called.question.as_json()}
        if not called.succeeded:
            return self._failed(f"the coding CLI {called.how}\n{called.tail}")
        return self._gate(called.reply.summary)

    def _gate(self, summary: str | None) -> dict[str, Any]:
        """Something has changed, and the unit tests pass."""
        session, worktree = self._session, self._session.worktree
        try:
            worktree.stage()
        except AgentError as error:
            return self._failed(str(error))
        if not summary and not worktree.differs_from(worktree.last_step_commit(self._base)):
            return self._failed("nothing was changed, and no `summary` says why")
        command = session.settings.unit_test
        if command is not None:
            checked = run_check(session, "unit", command, UNIT_LOG)
            session.set_step(self._step.id, state="running", tests="passed" if checked.passed else "failed")
            if not checked.passed:
                return self._failed(checked.problem)
        session.check_stop()
        subject = _subject(self._step, session.request_id)
        commit = worktree.commit(subject, f"{STEP_TRAILER}: {self._key}")
        session.log.say("COMMIT", f"{commit[:7]} {subject}")
        return self._done(commit, summary)

    def _failed(self, why: str) -> dict[str, Any]:
        self._session.log.say("STEP", f"{self._step.id} failed: {why.partition(chr(10))[0]}")
        return {"failure": why[-_TAIL_CHARS:]}

    def _done(self, commit: str, summary: str | None) -> dict[str, Any]:
        session, step = self._session, self._step
        session.stage.last_commit = commit
        session.files.write_diff(step.id, session.worktree.changes_of(commit))
        session.set_step(step.id, state="done", commit=commit, summary=summary)
        tests = {"passed": ", unit tests passed", "failed": ", unit tests failed"}
        state = session.step_state(step.id)
        tested = tests.get(state.tests or "", "") if state else ""
        explained = f": {flat(summary)}" if summary else ""
        line = f"- {step.id}: {step.title} (`{commit[:7]}`{tested}){explained}"
        marker = f"- {step.id}: {step.title} (`{commit[:7]}`"

        def change(file: RequestFile) -> RequestFile:
            report = file.report or ""
            if marker in report:
                return file
            return file.changed(report=with_line(report, session.run_number, STEPS, line))

        session.edit_request(change)
        session.log.say("STEP", f"{step.id} done")
        return {"commit": commit}


def _subject(step: PlanStep, request_id: str) -> str:
    """`type: summary (req:<id> step:S01)`; the end of a long summary is cut, not the ids."""
    given = step.commit or step.title
    head = given if ":" in given.split(" ")[0] else f"feat: {given}"
    ids = f"(req:{request_id} step:{step.id})"
    room = max(20, 99 - len(ids))
    return f"{head if len(head) <= room else head[: room - 1] + '…'} {ids}"


def _step_failed(step: PlanStep, tries: int, failure: str) -> AgentError:
    return AgentError(
        AgentCode.RETRY_EXCEEDED,
        f"{step.id} ({step.title}) failed {tries} times: {failure.partition(chr(10))[0]}",
        hint="Read runner.log; make the want more precise, or the step smaller, and run it again.",
        details={"step": step.id, "output": failure[-_TAIL_CHARS:]},
    )
