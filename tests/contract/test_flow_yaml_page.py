"""docs/flow-yaml.md says what the code does."""

import re
from pathlib import Path

import yaml
from pyoco.dsl.graph import MAX_PIPE_EXPANDED_TERMS

from pyoco_server.runs.flow_yaml import check_flow_yaml
from pyoco_server.runs.flow_yaml import yaml_graph as graph
from pyoco_server.runs.flow_yaml import yaml_problems as problems
from pyoco_server.runs.flow_yaml import yaml_tasks as tasks
from pyoco_server.runs.flow_yaml import yaml_tree as tree
from pyoco_server.runs.flow_yaml import yaml_values as values
from pyoco_server.waits.human.human_task_yaml import MAX_SCHEMA_BYTES
from pyoco_server.worker.flows.callable_policy import CallablePolicy
from pyoco_server.worker.flows.flow_files import FlowFolder
from pyoco_server.worker.flows.yaml_flow import build_yaml_flow
from tests.contract.test_readme import files_in
from tests.support.modules import ModuleFolder, forgotten_imports
from tests.support.places import DOCS
from tests.support.running.flow_runs import FlowUnderTest, output
from tests.support.samples.flow_yaml import problems_of

PAGE = (DOCS / "flow-yaml.md").read_text(encoding="utf-8")


def test_the_files_on_the_page_are_valid() -> None:
    files = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert files
    for file in files:
        assert check_flow_yaml(file.encode()).tasks


def test_the_first_example_is_complete(tmp_path: Path) -> None:
    folder = ModuleFolder(tmp_path)
    files = {**files_in(DOCS / "flow-yaml.md", "py"), **files_in(DOCS / "flow-yaml.md", "yaml")}
    for name, text in files.items():
        folder.write(name, text)
    with forgotten_imports(tmp_path):
        flows = FlowFolder(tmp_path / "flows")
        flows.load()
        flow, defaults = build_yaml_flow(
            files["orders.yaml"].encode(), "orders", CallablePolicy(), flows.tasks
        )
        for mode in ("fast", "thorough"):
            outcome = FlowUnderTest(flow).execute({**defaults, "mode": mode})
            assert output(outcome, "save") == "2 orders saved"


def test_the_graphs_on_the_page_are_valid() -> None:
    rows = PAGE.partition("## The graph")[2].partition("##")[0].splitlines()
    graphs = [found[1] for row in rows if (found := re.match(r"\| `(.*?)` \|", row))]
    assert len(graphs) == 7
    declared = {name: {"callable": "m:f"} for name in "abcd"}
    for written in graphs:
        source = yaml.safe_dump({"flow": {"graph": written}, "pipes": {"x": "a"}, "tasks": declared})
        assert check_flow_yaml(source.encode()).graph == written


def test_the_errors_on_the_page_are_what_is_said() -> None:
    source = "flow:\n  defaults: {}\n  graph: load >> svae\ntasks:\n  load: {callable: etl.steps.load}\n"
    source += "  save: {callable: 'etl.steps:save'}\n"
    for problem in problems_of(source):
        assert str(problem) in PAGE


def test_the_limits_on_the_page_are_the_limits() -> None:
    table = PAGE.partition("### Limits")[2].partition("##")[0]
    numbers = [int(number) for number in re.findall(r"\b\d+\b", table) if number != "413"]
    assert numbers == [
        tree.MAX_DEPTH,
        values.MAX_NUMBER_CHARS,
        values.MAX_BASE_60_CHARS,
        tree.MAX_ALIAS_NODES,
        tree.MAX_ALIAS_CHARS,
        graph.MAX_GRAPH_NESTING,
        MAX_PIPE_EXPANDED_TERMS,
        graph.MAX_EXPANDED_CHARS,
        graph.MAX_ARGUMENTS,
        graph.MAX_EXPRESSION_CHARS,
        tasks.MAX_USE_STEPS,
        MAX_SCHEMA_BYTES,
        problems.MAX_REPORTED,
    ]
