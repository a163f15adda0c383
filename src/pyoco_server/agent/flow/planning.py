"""Makes the plan of a run: asks the planner until its plan passes the gate, or asks a person."""

import hashlib
from typing import Any, Final

from pyoco_server.agent.agent_errors import AgentCode
from pyoco_server.agent.coding_cli.cli_reply import CliQuestion
from pyoco_server.agent.flow.cli_calls import call_cli
from pyoco_server.agent.flow.prompts import plan_prompt
from pyoco_server.agent.flow.questions import ask
from pyoco_server.agent.flow.work_session import WorkSession
from pyoco_server.agent.git.worktrees import Worktree
from pyoco_server.agent.request_file import RequestFile, RequestStatus
from pyoco_server.agent.run_files import RunFiles, StepState, run_numbers
from pyoco_server.agent.step_plan import (
    PlanUnreadable,
    StepPlan,
    gate_problems,
    plan_from_markdown,
    plan_markdown,
    plan_of,
)

_HISTORY_CHARS: Final = 20_000


def earlier_plan(session: WorkSession) -> dict[str, Any] | None:
    """The plan of a run that was stopped or failed, if the want is still the same: its steps count."""
    earlier = [
        run for run in run_numbers(session.paths, session.request_id) if int(run) < int(session.run_number)
    ]
    if not earlier:
        return None
    files = RunFiles(session.paths, session.request_id, earlier[-1])
    stage, found = files.stage(), files.plan()
    if stage is None or stage.status == RequestStatus.DONE or not isinstance(found, dict):
        return None
    if found.get("want_digest") != _want_digest(session.request) or not found.get("plan_run"):
        return None
    try:
        kept = plan_of(found)
    except PlanUnreadable:
        return None
    if gate_problems(kept):
        return None
    session.log.say("PLAN", f"continuing the plan of run {found['plan_run']}")
    return {"plan": kept.as_json(), "plan_run": str(found["plan_run"])}


def new_plan(ctx: Any, session: WorkSession, base: str) -> dict[str, Any]:
    answers: list[str] = []
    problems: list[str] = []
    calls = questions = retries = 0
    while True:
        calls += 1
        made = ctx.step(
            f"plan-{calls}", lambda problems=problems: _plan_once(session, base, problems, answers)
        )
        question = made.get("question")
        if made.get("plan"):
            return dict(made["plan"])
        if question is None:
            problems = made["problems"]
            retries += 1
            if retries <= session.settings.plan_retries:
                continue
            question = _plan_question(problems)
        questions += 1
        answers.append(ask(ctx, session, CliQuestion.from_json(question), questions))
        problems, retries = [], 0


def _plan_question(problems: list[str]) -> dict[str, Any]:
    return CliQuestion(
        text=f"The plan does not pass its gate: {'; '.join(problems[:5])}. How shall the work be divided?",
        why=f"{AgentCode.PLAN_INVALID}: the planner was asked again, and its plan still lacks this",
        format="What the steps are, or what may be left out; or: retry",
    ).as_json()


def _plan_once(session: WorkSession, base: str, problems: list[str], answers: list[str]) -> dict[str, Any]:
    """A plan, the problems of one, or a question."""
    if problems:
        session.count_attempt()
        session.log.say("PLAN", f"is made again: {'; '.join(problems)}")
    request = session.request
    prompt = plan_prompt(
        title=request.title,
        want=request.want or "",
        history=_history(session, request, base),
        problems=problems,
        answers=answers,
        branch=session.stage.branch,
        excluded=", ".join(session.paths.excluded),
    )
    worktree = session.worktree
    start = worktree.head()
    called = call_cli(session, "planner", prompt)
    _discard_changes(worktree, start)
    if called.question is not None:
        return {"question": called.question.as_json()}
    try:
        found = (
            plan_of(called.reply.plan) if called.reply.plan is not None else plan_from_markdown(called.stdout)
        )
    except PlanUnreadable as error:
        return {"problems": [called.reply.problem or str(error)]}
    if lacking := gate_problems(found):
        return {"problems": lacking}
    session.log.say("PLAN", f"{len(found.steps)} steps: {', '.join(found.step_ids())}")
    return {"plan": found.as_json()}


def _discard_changes(worktree: Worktree, start: str) -> None:
    """A planner changes no file; what it wrote all the same is kept as a commit beside the branch."""
    worktree.undo_commits(start)
    worktree.keep_aside()


def _history(session: WorkSession, request: RequestFile, base: str) -> str:
    """What earlier runs have put on the branch, and their report."""
    commits = [f"- {commit[:7]} {subject}" for commit, subject in session.worktree.commits_since(base)]
    report = (request.report or "").strip()
    if not commits and not report:
        return ""
    return ("Commits on the branch:\n" + "\n".join(commits[-50:]) + f"\n\nReport:\n{report}")[
        -_HISTORY_CHARS:
    ]


def write_plan(session: WorkSession, made: StepPlan, plan_run: str) -> None:
    """plan.json, the section `## Plan`, and the steps in stage.json."""
    session.edit_request(lambda file: file.changed(plan=plan_markdown(made)))
    digest = _want_digest(session.request)
    session.files.write_plan({**made.as_json(), "plan_run": plan_run, "want_digest": digest})
    known = {step.id: step for step in session.stage.steps}
    session.stage.steps = [
        known.get(step.id) or StepState(id=step.id, title=step.title) for step in made.steps
    ]
    session.save_stage()


def _want_digest(request: RequestFile) -> str:
    return hashlib.sha256((request.want or "").strip().encode(errors="backslashreplace")).hexdigest()
