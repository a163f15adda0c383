"""The flow `agent_request`: preflight, plan, implement, test, document, push, report.

Each task works under the lock of the repository. What a task has done is a `ctx.step`, so that an attempt
after a crash, or after the answer to a question, does not do it again. A commit is made before its step is
recorded: an attempt that finds the key of a step in the trailer of a commit does not repeat that step.
"""

from collections.abc import Mapping
from typing import Any

from pyoco import Flow, task

from pyoco_server.agent.agent_errors import AgentCode
from pyoco_server.agent.agent_settings import web_url_in
from pyoco_server.agent.coding_cli.cli_reply import CliQuestion
from pyoco_server.agent.compare_url import compare_url
from pyoco_server.agent.flow.check_work import CheckWork, check_failed, checked
from pyoco_server.agent.flow.planning import earlier_plan, new_plan, write_plan
from pyoco_server.agent.flow.questions import ask
from pyoco_server.agent.flow.report_parts import NEXT_ACTIONS, NOTES, with_line, with_parts
from pyoco_server.agent.flow.report_text import (
    changes_text,
    criteria_text,
    risks_text,
    run_summary,
    tests_text,
)
from pyoco_server.agent.flow.step_work import StepWork
from pyoco_server.agent.flow.work_session import FLOW_NAME, WorkSession, working
from pyoco_server.agent.git.git_command import Git, check_config, without_credentials
from pyoco_server.agent.git.repository import check_repository
from pyoco_server.agent.git.worktrees import Worktree, wip_subject, wip_trailer
from pyoco_server.agent.request_file import RequestStatus
from pyoco_server.agent.run_files import E2E_LOG, UNIT_LOG
from pyoco_server.agent.step_plan import plan_of

# preflight


@task
def preflight(ctx: Any) -> dict[str, str]:
    """Check the repository, and make the worktree on the request's branch."""
    with working(ctx, "preflight") as session:
        request, settings = session.request, session.settings
        base, branch = settings.base_of(request), settings.branch_of(request)
        check_repository(settings, base, branch, session.is_cancelled)
        session.stage.base_branch, session.stage.branch = base, branch
        session.save_stage()
        worktree = session.worktree
        worktree.fetch(base)
        if kept := worktree.prepare(base):
            session.log.say("GIT", f"what was in place of the worktree is kept in {kept}")
        _save_leftover(session, worktree)
        session.log.say("GIT", f"worktree of {branch} is ready, base {base}")
        return {"base": base, "branch": branch}


def _save_leftover(session: WorkSession, worktree: Worktree) -> None:
    """Commit what a run left that was ended by force: nothing of it may be lost."""
    trailer = wip_trailer(session.run_number, session.now())
    if commit := worktree.save(wip_subject(session.request_id, None), trailer):
        session.log.say("COMMIT", f"{commit[:7]} work that an earlier run had left")


# plan


@task
def plan(ctx: Any, preflight: Mapping[str, str]) -> dict[str, Any]:
    """A plan that passes the gate, with the run in which it was made."""
    with working(ctx, "plan") as session:
        session.worktree.open()
        found = ctx.step("earlier-plan", lambda: earlier_plan(session))
        made = found or {"plan": new_plan(ctx, session, preflight["base"]), "plan_run": session.run_number}
        write_plan(session, plan_of(made["plan"]), made["plan_run"])
        return dict(made)


# implement


@task
def implement(ctx: Any, plan: Mapping[str, Any], preflight: Mapping[str, str]) -> dict[str, str]:
    """Each step of the plan as one commit; returns the commits by step."""
    with working(ctx, "implement") as session:
        session.worktree.open()
        made = plan_of(plan["plan"])
        return {
            step.id: StepWork(session, made, step, plan["plan_run"], preflight["base"]).complete(ctx)
            for step in made.steps
        }


# test


@task
def test(ctx: Any, plan: Mapping[str, Any], implement: Mapping[str, str]) -> list[dict[str, Any]]:
    """Run every configured check; the role qa may repair what fails."""
    del implement
    with working(ctx, "test") as session:
        session.worktree.open()
        settings = session.settings
        checks = [
            ("lint", settings.lint, None, 0, AgentCode.COMMAND_FAILED),
            ("typecheck", settings.typecheck, None, 0, AgentCode.COMMAND_FAILED),
            ("unit", settings.unit_test, UNIT_LOG, 0, AgentCode.UNIT_TEST_FAILED),
            ("e2e", settings.e2e_test, E2E_LOG, settings.e2e_retries, AgentCode.E2E_TEST_FAILED),
        ]
        results = []
        for name, command, log_name, repeats, code_of_failure in checks:
            if command is None:
                continue
            work = CheckWork(session, name, command, log_name, plan["plan_run"])
            done = checked(ctx, session, work, repeats=repeats)
            if not done["passed"]:
                raise check_failed(code_of_failure, command, done["problem"])
            results.append({"name": name, "command": " ".join(command), "passed": True})
        return results


# document


@task
def document(
    ctx: Any, plan: Mapping[str, Any], preflight: Mapping[str, str], test: list[dict[str, Any]]
) -> dict[str, Any]:
    """Complete the report of this run."""
    with working(ctx, "document") as session:
        worktree = session.worktree
        worktree.open()
        base = preflight["base"]
        commits, files = worktree.commits_since(base), worktree.difference(base)
        session.files.write_artifacts(
            {
                "commits": [{"commit": commit, "subject": subject} for commit, subject in commits],
                "files": files,
            }
        )
        made = plan_of(plan["plan"])
        summary = run_summary(session, len(commits), files)
        before = [("#### Summary", summary), ("#### Acceptance Criteria", criteria_text(made))]
        after = [
            ("#### Tests", tests_text(test)),
            ("#### Changes", changes_text(files)),
            (NOTES, risks_text(test)),
            (NEXT_ACTIONS, "- Review the branch and open the pull request (`pr_url`)."),
        ]
        session.edit_request(
            lambda file: file.changed(report=with_parts(file.report or "", session.run_number, before, after))
        )
        session.stage.summary = summary.partition("\n")[0]
        session.stage.last_commit = worktree.head()
        session.save_stage()
        return {"summary": summary, "commits": len(commits), "files": len(files)}


# push


@task
def push(ctx: Any, preflight: Mapping[str, str], document: Mapping[str, Any]) -> dict[str, str]:
    """Push the branch; returns the link where a person opens the pull request."""
    del document
    with working(ctx, "push") as session:
        worktree = session.worktree
        worktree.open()
        check_config(Git(session.settings.repo))
        commit = ctx.step("push", lambda: _pushed(session, worktree))
        base, branch = preflight["base"], preflight["branch"]
        web_url, questions = session.settings.repo_web_url, 0
        while True:
            url = compare_url(worktree.remote_url(), base, branch, web_url)
            if url is not None:
                break
            questions += 1
            answer = ask(ctx, session, _ask_web_url(worktree), questions)
            web_url = web_url_in(answer)
        session.stage.pr_url, session.stage.last_commit = url, commit
        session.save_stage()
        return {"pr_url": url, "commit": commit}


def _pushed(session: WorkSession, worktree: Worktree) -> str:
    commit = worktree.push()
    session.log.say("PUSH", "success")
    return commit


def _ask_web_url(worktree: Worktree) -> CliQuestion:
    return CliQuestion(
        text=f"What is the web page of the repository {without_credentials(worktree.remote_url())}?",
        why="the link for the pull request cannot be made of that address",
        format="such as https://git.example.com/team/app (git.repoWebUrl in .aiflowrc.json)",
    )


# report


@task
def report(ctx: Any, push: Mapping[str, str]) -> dict[str, str]:
    """The final status."""
    with working(ctx, "report") as session:
        session.stage.pr_url, session.stage.last_commit = push["pr_url"], push["commit"]
        session.check_stop()
        line = f"- Pull request: {push['pr_url']}"
        session.edit_request(
            lambda file: file.changed(
                report=with_line(file.report or "", session.run_number, NEXT_ACTIONS, line)
            )
        )
        session.write_status(RequestStatus.DONE)
        session.log.say("DONE", f"pr_url={push['pr_url']}")
        return dict(push)


agent_request = Flow(FLOW_NAME) >> preflight >> plan >> implement >> test >> document >> push >> report
