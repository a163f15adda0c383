"""The gate of a plan, and its two forms."""

import copy
from typing import Any

import pytest

from pyoco_server.agent.step_plan import (
    PlanUnreadable,
    gate_problems,
    plan_from_markdown,
    plan_markdown,
    plan_of,
)
from tests.support.agent.scripted_cli import plan


def changed(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = copy.deepcopy(plan())
    for name, value in changes.items():
        if name == "acceptance":
            made[name] = value
        else:
            made["steps"][0][name] = value
    return made


def test_good_plan_passes() -> None:
    assert gate_problems(plan_of(plan())) == []


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (plan(2), "it has 2 steps"),
        (plan(0), "it has 0 steps"),
        (plan(31), "it has 31 steps"),
        (changed(done=["one"]), "S01: it has 1 done criteria"),
        (changed(done=None), "S01: it has 0 done criteria"),
        (changed(tests=[]), "S01: it has no unit test"),
        (changed(tests=["none"]), "S01: it has no unit test"),
        (changed(title=""), "S01: it has no title"),
        (changed(id="S02"), "two steps have the same id"),
        (changed(acceptance=[]), "it has no acceptance criteria"),
        (changed(acceptance=["AC1: a", "AC2: b"]), "AC2 is linked to no step"),
        (changed(acceptance=["AC1: a", "AC1: b"]), "two acceptance criteria have the same id"),
        (changed(links=["AC1", "AC9"]), "AC9 is linked to a step, but is no criterion"),
    ],
)
def test_gate_names_what_is_missing(made: dict[str, Any], problem: str) -> None:
    assert any(problem in found for found in gate_problems(plan_of(made)))


def test_criteria_without_ids_get_those_of_their_places() -> None:
    assert plan_of(changed(acceptance=["first", "AC2 - second"])).acceptance == ("AC1: first", "AC2: second")


@pytest.mark.parametrize("found", [None, [], "x", {}, {"steps": "x"}, {"steps": [1]}])
def test_what_is_not_a_plan_is_refused(found: object) -> None:
    with pytest.raises(PlanUnreadable):
        plan_of(found)


def test_markdown_comes_back_as_the_same_plan() -> None:
    made = plan_of(plan())
    assert plan_from_markdown(f"Here it is.\n\n## Plan\n\n{plan_markdown(made)}\n\nBye") == made


def test_markdown_of_a_cli_may_use_bold_labels_and_one_line() -> None:
    text = """
### Acceptance Criteria (AC)
* AC1: it works

### Step Plan
#### S1: Do it
- **Objective:** x
- **Links**: AC1
- Done:
  * one
  * two
- Tests: test_it
"""
    [step] = plan_from_markdown(text).steps
    assert (step.id, step.title, step.done, step.tests, step.links) == (
        "S01",
        "Do it",
        ("one", "two"),
        ("test_it",),
        ("AC1",),
    )


def test_output_without_a_plan_is_refused() -> None:
    with pytest.raises(PlanUnreadable, match="#### S01"):
        plan_from_markdown("I could not do it.")


def test_newlines_in_a_plan_cannot_start_a_heading() -> None:
    made = plan_of(changed(title="x\n## Report\nstatus", objective="a\r\n# 要望"))
    assert all(not line.startswith(("## ", "# ")) for line in plan_markdown(made).split("\n"))
