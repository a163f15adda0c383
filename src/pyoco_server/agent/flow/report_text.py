"""The texts of a report: summary, criteria, tests, changes and risks of a run."""

from typing import Any

from pyoco_server.agent.flow.report_parts import flat
from pyoco_server.agent.flow.work_session import WorkSession
from pyoco_server.agent.step_plan import StepPlan


def run_summary(session: WorkSession, commits: int, files: list[dict[str, Any]]) -> str:
    lines = [f"{commits} commits on `{session.stage.branch}` change {len(files)} files."]
    lines += [f"- {step.id}: {flat(step.summary)}" for step in session.stage.steps if step.summary]
    return "\n".join(lines)


def criteria_text(made: StepPlan) -> str:
    lines = []
    for text in made.acceptance:
        name = text.partition(":")[0]
        steps = ", ".join(step.id for step in made.steps if name in step.links)
        lines.append(f"- {text} ({steps})")
    return "\n".join(lines)


def tests_text(results: list[dict[str, Any]]) -> str:
    return (
        "\n".join(f"- {each['name']}: `{each['command']}` passed" for each in results) or "- none configured"
    )


def changes_text(files: list[dict[str, Any]]) -> str:
    lines = []
    for each in files[:100]:
        counts = "binary" if each["added"] is None else f"+{each['added']} -{each['removed']}"
        lines.append(f"- `{flat(str(each['path']))}` ({counts})")
    return "\n".join(lines) or "- none"


def risks_text(results: list[dict[str, Any]]) -> str:
    return "- none known" if results else "- no tests are configured (commands.unitTest in .aiflowrc.json)"
