"""The prompts of the coding CLI."""

import json
from collections.abc import Sequence
from typing import Final

from pyoco_server.agent.step_plan import MIN_DONE, MIN_STEPS, PlanStep, StepPlan, plan_markdown

_CONTEXT_CHARS: Final = 60_000

_QUESTION: Final = {
    "question": {
        "text": "Which date format do the reports use?",
        "why": "the files contain two",
        "format": "ISO or US",
        "choices": ["ISO", "US"],
    }
}
_PLAN: Final = {
    "plan": {
        "acceptance": ["AC1: The session ends after 30 minutes without a request"],
        "steps": [
            {
                "id": "S01",
                "title": "Add the setting",
                "objective": "The timeout can be configured",
                "scope": "settings.py",
                "done": ["The setting has a default of 30", "A value below 1 is refused"],
                "tests": ["test_settings.py: default and bounds"],
                "links": ["AC1"],
                "commit": "feat: add a setting for the session timeout",
            }
        ],
    }
}
_SUMMARY: Final = {"summary": "what you changed, in a sentence"}
_RULES: Final = """Rules:
- Work only in the current folder, which is a git worktree of the branch {branch}.
- Do not commit, push, or switch branches: that is done for you.
- Do not change anything in {excluded}.
- If only a person can decide something, ask: print the question block below and end."""


def plan_prompt(
    *,
    title: str,
    want: str,
    history: str,
    problems: Sequence[str],
    answers: Sequence[str],
    branch: str,
    excluded: str,
) -> str:
    """Asks for a plan; `problems` are those of the plan before."""
    rules = (
        f"- At least {MIN_STEPS} steps, each small enough for one commit.\n"
        f"- Each step has at least {MIN_DONE} observable done criteria and a unit test.\n"
        "- Every acceptance criterion is linked to a step."
    )
    parts = [
        "You are the planner. Plan the change of this repository that the request below asks for. "
        "Read the code first. Change no file.",
        _request(title, want, answers),
        _section("What earlier runs did", history),
        f"The plan:\n{rules}",
        _section("Your last plan was not accepted", "\n".join(f"- {problem}" for problem in problems)),
        _rules(branch, excluded),
        f"Print the plan as the last thing, in this form:\n{_block(_PLAN)}",
        f"Or, to ask a person:\n{_block(_QUESTION)}",
    ]
    return _joined(parts)


def step_prompt(
    *,
    title: str,
    want: str,
    plan: StepPlan,
    step: PlanStep,
    failure: str,
    answers: Sequence[str],
    branch: str,
    excluded: str,
) -> str:
    """Asks for one step; `failure` is what was wrong with the last try."""
    parts = [
        f"You are the implementer. Do step {step.id} of the plan below, and nothing else: "
        f"{step.title}. Write its unit tests too.",
        _request(title, want, answers),
        f"The plan:\n\n{plan_markdown(plan)}",
        _section("Your last try failed; correct it", failure[-_CONTEXT_CHARS:]),
        _rules(branch, excluded),
        f"When you are done, print as the last thing:\n{_block(_SUMMARY)}",
        f"Or, to ask a person:\n{_block(_QUESTION)}",
    ]
    return _joined(parts)


def repair_prompt(*, title: str, want: str, command: str, output: str, branch: str, excluded: str) -> str:
    """Asks the CLI of the role qa to repair what a check has found."""
    parts = [
        f"You are responsible for quality. `{command}` fails. Correct the code, or a test that is wrong.",
        _request(title, want, ()),
        _section("Its output", output[-_CONTEXT_CHARS:]),
        _rules(branch, excluded),
        f"When you are done, print as the last thing:\n{_block(_SUMMARY)}",
        f"Or, to ask a person:\n{_block(_QUESTION)}",
    ]
    return _joined(parts)


def _request(title: str, want: str, answers: Sequence[str]) -> str:
    given = "".join(f"\n\nAnswer of a person:\n{answer}" for answer in answers)
    return f"Request: {title}\n\n{want.strip() or '(no further text)'}{given}"


def _rules(branch: str, excluded: str) -> str:
    return _RULES.format(branch=branch, excluded=excluded)


def _section(heading: str, text: str) -> str:
    return f"{heading}:\n\n{text.strip()}" if text.strip() else ""


def _block(value: object) -> str:
    return f"```aiflow\n{json.dumps(value, ensure_ascii=False, indent=1)}\n```"


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
