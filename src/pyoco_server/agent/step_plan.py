"""The plan of a request: criteria and steps, its Markdown form, and the gate that it has to pass."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyoco_server.agent.request_file import one_line

MIN_STEPS: Final = 3
MAX_STEPS: Final = 30
MIN_DONE: Final = 2
_TEXT_CHARS: Final = 2000
_AC: Final = re.compile(r"(AC[0-9]{1,3})\s*[:.-]\s*(.+)", re.DOTALL)
_STEP_HEADING: Final = re.compile(r"#### +(S[0-9]{1,2})\s*[:.-]\s*(.+)")
_ITEM: Final = re.compile(r"\s*[-*]\s+(.*)")
_LABEL: Final = re.compile(
    r"\s*[-*]?\s*\**(Objective|Scope|Links|Done|Tests|Commit)\**\s*:\**\s*(.*)", re.IGNORECASE
)
_NO_TEST: Final = frozenset({"", "-", "none", "n/a", "no", "なし"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    id: str
    title: str
    objective: str = ""
    scope: str = ""
    # Observable criteria.
    done: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    # Ids of acceptance criteria.
    links: tuple[str, ...] = ()
    # The subject of its commit, such as `feat: add a timeout`.
    commit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    # Each starts with its id: `AC1: ...`.
    acceptance: tuple[str, ...]
    steps: tuple[PlanStep, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def step_ids(self) -> list[str]:
        return [step.id for step in self.steps]


class PlanUnreadable(ValueError):
    """The text or the object is not a plan at all."""


def plan_of(found: Any) -> StepPlan:
    """A plan from the JSON object of a CLI, or from plan.json."""
    if not isinstance(found, Mapping):
        raise PlanUnreadable("`plan` is not a JSON object")
    steps = found.get("steps")
    if not isinstance(steps, list | tuple) or not all(isinstance(step, Mapping) for step in steps):
        raise PlanUnreadable("`plan.steps` is not a list of objects")
    acceptance = _numbered(_texts(found.get("acceptance")))
    return StepPlan(acceptance=acceptance, steps=tuple(map(_step, steps, range(1, len(steps) + 1))))


def _step(found: Mapping[str, Any], number: int) -> PlanStep:
    given = found.get("id")
    match = re.fullmatch(r"[Ss]?0*([0-9]{1,2})", given.strip()) if isinstance(given, str) else None
    return PlanStep(
        id=f"S{int(match[1]):02d}" if match else f"S{number:02d}",
        title=_line(found.get("title")),
        objective=_line(found.get("objective")),
        scope=_line(found.get("scope")),
        done=_texts(found.get("done")),
        tests=_texts(found.get("tests")),
        links=tuple(
            link for text in _texts(found.get("links")) for link in re.findall(r"AC[0-9]{1,3}", text)
        ),
        commit=_line(found.get("commit")),
    )


def _numbered(texts: Sequence[str]) -> tuple[str, ...]:
    """Criteria with their ids; one without an id gets that of its place."""
    found = []
    for number, text in enumerate(texts, 1):
        match = _AC.fullmatch(text)
        found.append(f"{match[1]}: {match[2]}" if match else f"AC{number}: {text}")
    return tuple(found)


def _texts(found: Any) -> tuple[str, ...]:
    """A list of texts, of one text one; anything else is left to the gate."""
    items = [found] if isinstance(found, str) else found if isinstance(found, list | tuple) else []
    return tuple(line for item in items if (line := _line(item)))


def _line(found: Any) -> str:
    """One line: a newline could start a heading of the file that the plan is written to."""
    if not isinstance(found, str | int | float) or isinstance(found, bool):
        return ""
    return one_line(str(found))[:_TEXT_CHARS]


def gate_problems(plan: StepPlan) -> list[str]:
    """What the plan lacks; empty if it passes."""
    problems = []
    if not MIN_STEPS <= len(plan.steps) <= MAX_STEPS:
        problems.append(f"it has {len(plan.steps)} steps; {MIN_STEPS} to {MAX_STEPS} are needed")
    ids = plan.step_ids()
    if len(set(ids)) < len(ids):
        problems.append(f"two steps have the same id: {', '.join(ids)}")
    for step in plan.steps:
        problems.extend(f"{step.id}: {problem}" for problem in _step_problems(step))
    if not plan.acceptance:
        problems.append("it has no acceptance criteria")
    criteria = [text.partition(":")[0] for text in plan.acceptance]
    if len(set(criteria)) < len(criteria):
        problems.append(f"two acceptance criteria have the same id: {', '.join(criteria)}")
    linked = {link for step in plan.steps for link in step.links}
    problems.extend(f"{name} is linked to no step" for name in criteria if name not in linked)
    problems.extend(
        f"{name} is linked to a step, but is no criterion" for name in sorted(linked - set(criteria))
    )
    return problems


def _step_problems(step: PlanStep) -> Iterable[str]:
    if not step.title:
        yield "it has no title"
    if len(step.done) < MIN_DONE:
        yield f"it has {len(step.done)} done criteria; at least {MIN_DONE} are needed"
    if not any(test.lower() not in _NO_TEST for test in step.tests):
        yield "it has no unit test"


def plan_markdown(plan: StepPlan) -> str:
    """The text of the section `## Plan`."""
    lines = [
        "### Acceptance Criteria (AC)",
        "",
        *(f"- {text}" for text in plan.acceptance),
        "",
        "### Step Plan",
    ]
    for step in plan.steps:
        lines += ["", f"#### {step.id}: {step.title}", ""]
        lines += [
            f"- Objective: {step.objective}",
            f"- Scope: {step.scope}",
            f"- Links: {', '.join(step.links)}",
        ]
        lines += ["- Done:", *(f"  - {text}" for text in step.done)]
        lines += ["- Tests:", *(f"  - {text}" for text in step.tests)]
        lines += [f"- Commit: {step.commit}"]
    return "\n".join(lines)


def plan_from_markdown(text: str) -> StepPlan:
    """A plan that a CLI has printed in the form of `plan_markdown`; PlanUnreadable if there is none."""
    acceptance: list[str] = []
    steps: list[dict[str, Any]] = []
    label: str | None = None
    for line in text.splitlines():
        if heading := _STEP_HEADING.match(line.strip()):
            steps.append({"id": heading[1], "title": heading[2]})
            label = None
        elif line.lstrip().startswith("#"):
            label = None
        elif steps and (match := _LABEL.match(line)):
            label = match[1].lower()
            steps[-1][label] = _listed(match[2]) if label in {"done", "tests", "links"} else match[2]
        elif (item := _ITEM.match(line)) and steps and label in {"done", "tests", "links"}:
            steps[-1][label].append(item[1])
        elif item and _AC.match(item[1]):
            acceptance.append(item[1])
    if not steps:
        raise PlanUnreadable(
            "there is neither an `aiflow` block with a plan nor a heading such as '#### S01: title'"
        )
    return plan_of({"acceptance": acceptance, "steps": steps})


def _listed(text: str) -> list[str]:
    return [text] if text.strip() else []
