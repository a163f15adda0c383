"""Files to check, and helpers for the tests of flow.yaml."""

from typing import Any

import pytest
import yaml

from pyoco_server.errors import FieldProblem, InvalidRequest
from pyoco_server.runs.flow_yaml import check_flow_yaml
from pyoco_server.runs.flow_yaml import yaml_tree as tree

VALID_FLOW_YAML = """version: 1
flow:
  graph: load
  defaults: {x: 1}
tasks:
  load: {callable: 'tests.flows.basics:load'}
"""
TASKS = """
tasks:
  load: {callable: "etl.steps:load"}
  clean: {callable: "etl.steps:clean"}
  save: {callable: "etl.steps:save"}
"""


@pytest.fixture(params=["libyaml", "python"])
def each_parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML comes without libyaml on some platforms: both must say the same."""
    monkeypatch.setattr(tree, "_LOADER", yaml.CSafeLoader if request.param == "libyaml" else yaml.SafeLoader)


def problems_of(source: str | bytes) -> tuple[FieldProblem, ...]:
    with pytest.raises(InvalidRequest) as caught:
        check_flow_yaml(source.encode() if isinstance(source, str) else source)
    assert caught.value.problems
    return caught.value.problems


def the_problem(source: str | bytes) -> FieldProblem:
    problems = problems_of(source)
    assert len(problems) == 1, [str(problem) for problem in problems]
    return problems[0]


def text_at(source: str, problem: FieldProblem) -> str:
    """The rest of the line that the problem points to."""
    assert problem.line is not None
    assert problem.column is not None
    return source.splitlines()[problem.line - 1][problem.column - 1 :]


def flow(graph: str, **sections: Any) -> str:
    """A file with this graph and the three tasks of TASKS."""
    tasks = {name: {"callable": f"etl.steps:{name}"} for name in ("load", "clean", "save")}
    return yaml.safe_dump({"flow": {"graph": graph}, "tasks": tasks, **sections}, sort_keys=False)
