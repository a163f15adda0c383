"""Which parameters a flow has: what its tasks take, and neither an input nor an earlier task provides."""

from typing import Any

import pytest
from pyoco import task
from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import switch

from pyoco_server.runs.flow_yaml.flow_order import in_order, predecessors
from pyoco_server.worker.flows.callable_policy import CallablePolicy, FlowBuildError
from pyoco_server.worker.flows.flow_parameters import parameters_of
from pyoco_server.worker.flows.yaml_flow import build_yaml_flow


def parameters(flow: Flow, **defaults: Any) -> dict[str, Any]:
    return parameters_of(flow, in_order(flow), predecessors(flow), defaults)


def test_results_of_earlier_tasks_and_ctx_are_no_parameters() -> None:
    @task
    def load(path: str) -> list[str]:
        return [path]

    @task
    def store(load: list[str], ctx: Any, table: str = "t") -> None: ...

    schema = parameters(Flow("f") >> load >> store)
    assert schema == {
        "type": "object",
        "properties": {"path": {"type": "string"}, "table": {"type": "string", "default": "t"}},
        "required": ["path"],
    }


def test_a_result_of_a_later_or_parallel_task_is_a_parameter() -> None:
    def first(second: int) -> None: ...
    def second(other: int) -> None: ...
    def other() -> None: ...

    one, two, three = Task(first, "first"), Task(second, "second"), Task(other, "other")
    two.dependencies.add(one)
    one.dependents.add(two)
    assert list(parameters(Flow("f", {one, two, three}))["properties"]) == ["second", "other"]


def test_without_ctx_other_params_are_refused() -> None:
    @task
    def work(x: int, *rest: Any, **more: Any) -> None: ...

    @task
    def open_ended(x: int, ctx: Any) -> None: ...

    assert parameters(Flow("f") >> work)["additionalProperties"] is False
    assert "additionalProperties" not in parameters(Flow("f") >> open_ended)


def test_a_default_that_is_taken_by_position_only_is_no_parameter() -> None:
    def work(x: int = 1, /, y: int = 2) -> None: ...

    assert list(parameters(Flow("f", {Task(work, "work")}))["properties"]) == ["y"]


def test_what_is_passed_cannot_be_taken_by_position_only() -> None:
    def with_input(x: int = 1, /) -> None: ...
    def with_context(ctx: Any = None, /) -> None: ...
    def with_nothing(x: int, /) -> None: ...

    for function in (with_input, with_context, with_nothing):
        inputs = {"x": 2} if function is with_input else {}
        with pytest.raises(FlowBuildError, match="by position only"):
            parameters(Flow("f", {Task(function, "work", inputs=inputs)}))


def test_inputs_are_no_parameters_unless_they_name_a_param() -> None:
    def work(x: int, y: str, z: bool) -> None: ...

    with_inputs = Task(work, "work", inputs={"x": "$ctx.params.count", "y": "fixed"})
    assert parameters(Flow("f", {with_inputs})) == {
        "type": "object",
        "properties": {"count": {"type": "integer"}, "z": {"type": "boolean"}},
        "required": ["count", "z"],
        "additionalProperties": False,
    }


def test_outputs_of_earlier_tasks_count_as_results() -> None:
    def load() -> int:
        return 1

    def store(rows: int, limit: int, other: int) -> None: ...

    first = Task(load, "load", outputs=["results.rows", "params.limit", "scratch.other"])
    second = Task(store, "store", dependencies={first})
    first.dependents.add(second)
    assert list(parameters(Flow("f", {first, second}))["properties"]) == ["other"]


def test_a_parameter_of_two_tasks_must_match_both() -> None:
    @task
    def first(x: int, y: int, z=1) -> None: ...  # type: ignore[no-untyped-def]

    @task
    def second(x: int = 3, y: float = 1.5, z: str = "a") -> None: ...

    schema = parameters(Flow("f") >> first >> second)
    assert schema["properties"] == {
        "x": {"type": "integer"},
        "y": {"allOf": [{"type": "integer"}, {"type": "number"}]},
        "z": {"type": "string"},
    }
    assert schema["required"] == ["x", "y"]


def test_a_task_of_a_branch_requires_nothing() -> None:
    @task
    def always(a: int) -> None: ...

    @task
    def sometimes(b: int) -> None: ...

    flow = Flow("f") >> always >> switch("$ctx.params.mode")["a" >> sometimes]
    schema = parameters(flow)
    assert schema["required"] == ["a"]
    assert set(schema["properties"]) == {"a", "b", "mode"}


YAML = b"""
version: 1
flow:
  graph: |
    look >> foreach(over="$ctx.params.items", item="each") { look_again }
  defaults:
    items: [1, 2]
    a: hello
tasks:
  look: {callable: "tests.unit.worker.flows.test_flow_parameters:looked_at"}
  look_again: {callable: "tests.unit.worker.flows.test_flow_parameters:looked_again"}
"""


def looked_at(a: str) -> str:
    return a


def looked_again(b: int) -> int:
    return b


def test_defaults_of_a_flow_yaml_are_those_of_its_parameters() -> None:
    flow, defaults = build_yaml_flow(YAML, "f", CallablePolicy.parse(""))
    assert parameters(flow, **defaults) == {
        "type": "object",
        "properties": {
            "a": {"type": "string", "default": "hello"},
            "b": {"type": "integer"},
            "items": {"default": [1, 2]},
        },
        "additionalProperties": False,
    }
