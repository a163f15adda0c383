"""The task `use: pyoco/human` of a flow.yaml."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import FieldProblem, InvalidRequest
from pyoco_server.testing import run_flow
from pyoco_server.waits.human.human_task_yaml import HUMAN_TASK, SlowSchemaCheck, ask, check_submitted_flow
from pyoco_server.worker.flows.callable_policy import CallablePolicy
from pyoco_server.worker.flows.yaml_flow import build_yaml_flow
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.samples.flow_yaml import text_at

INVOICE = """version: 1
flow:
  graph: write >> approve >> store
  defaults: {name: "a param that is not the name of a wait", inputs: "nor its inputs"}
tasks:
  write: {callable: "tests.flows.basics:large", inputs: {size: 3}}
  approve:
    use: pyoco/human
    inputs:
      message: $node.write.output
      schema: {type: integer, minimum: 1}
  store:
    callable: tests.flows.basics:store
    inputs: {load: $node.approve.output}
"""


def asking(inputs: str, **tasks: str) -> str:
    others = "".join(f"  {name}: {text}\n" for name, text in tasks.items())
    return (
        f"flow: {{graph: approve}}\ntasks:\n{others}  approve:\n    use: pyoco/human\n    inputs:\n{inputs}"
    )


def problems_of(source: str) -> tuple[FieldProblem, ...]:
    with pytest.raises(InvalidRequest) as caught:
        check_submitted_flow(source.encode())
    return caught.value.problems


def the_problem(source: str) -> FieldProblem:
    [problem] = problems_of(source)
    return problem


def test_every_input_can_be_given() -> None:
    source = asking(
        "      message: Is it right?\n"
        "      schema: {type: object, required: [amount]}\n"
        "      timeout_ms: 60000\n"
        "      name: amount\n"
        "      proposal: {amount: 3}\n"
        "      assignees: [ada, grace]\n"
        "      default: {amount: 0}\n"
        "      details: true\n"
    )
    [task] = check_submitted_flow(source.encode()).tasks.values()
    assert task.use == HUMAN_TASK
    assert task.inputs["timeout_ms"] == 60000


def test_every_input_can_be_a_reference() -> None:
    names = ("message", "schema", "timeout_ms", "name", "proposal", "assignees", "default", "details")
    source = asking("".join(f"      {name}: $ctx.params.{name}\n" for name in names))
    assert set(check_submitted_flow(source.encode()).tasks["approve"].inputs) == set(names)


def test_details_are_true_or_false() -> None:
    source = asking("      message: Right?\n      details: maybe\n")
    problem = the_problem(source)
    assert (problem.field, problem.message) == (
        "tasks.approve.inputs.details",
        "expected true or false",
    )
    assert text_at(source, problem) == "maybe"


def test_a_later_task_receives_who_answered(tmp_path: Path) -> None:
    file = tmp_path / "ask.yaml"
    file.write_text(
        asking("      message: Right?\n      details: true\n", store="{callable: 'tests.flows.basics:store'}")
        .replace("graph: approve", "graph: approve >> store")
        .replace("basics:store'", "basics:store', inputs: {load: $node.approve.output.by}")
    )
    result = run_flow(file, answers={"approve": True}, answered_by="ann")
    assert result.task_records["store"]["inputs"] == {"load": "ann"}, result.error


def test_a_missing_message_is_reported_at_the_task() -> None:
    source = asking("      schema: {type: string}\n")
    problem = the_problem(source)
    assert problem.field == "tasks.approve.inputs.message"
    assert "is missing" in problem.message
    assert text_at(source, problem) == "pyoco/human"
    without_inputs = "flow: {graph: approve}\ntasks:\n  approve: {use: pyoco/human}\n"
    assert the_problem(without_inputs).field == "tasks.approve.inputs.message"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("message", "''", "a text of 1 to"),
        ("message", "[1]", "a text of 1 to"),
        ("schema", "{type: strin}", "strin"),
        ("schema", "{type: object, properties: 3}", "properties"),
        ("schema", "word", "a JSON Schema"),
        ("timeout_ms", "0", "more than 0"),
        ("timeout_ms", "-1", "more than 0"),
        ("timeout_ms", "true", "milliseconds"),
        ("timeout_ms", "99999999999999", "at most"),
        ("name", "a|b", "without '|'"),
        ("assignees", "[1]", "names or ids"),
        ("proposal", "{amount: $node.load.output}", "a whole input"),
        ("default", "[$ctx.params.amount]", "a whole input"),
    ],
)
def test_an_invalid_input_is_reported_with_its_place(name: str, value: str, why: str) -> None:
    message = "" if name == "message" else "      message: Is it right?\n"
    source = asking(f"{message}      {name}: {value}\n")
    problem = the_problem(source)
    assert problem.field == f"tasks.approve.inputs.{name}"
    assert why in problem.message
    assert "ctx.human" not in problem.message
    assert text_at(source, problem) == value


def test_schemas_that_would_take_long_to_check_are_rejected() -> None:
    properties = ", ".join(f"p{number}: {{type: integer}}" for number in range(4000))
    schema = f"{{type: object, properties: {{{properties}}}}}"
    problem = the_problem(asking(f"      message: Is it right?\n      schema: {schema}\n"))
    assert problem.field == "tasks.approve.inputs.schema"
    assert "longer than 65536 bytes" in problem.message


def test_a_schema_that_many_questions_share_counts_once() -> None:
    properties = ", ".join(f"p{number}: {{type: integer}}" for number in range(300))
    names = [f"ask{number}" for number in range(20)]
    shared = (
        f"  ask: {{use: pyoco/human, inputs: {{message: a?, schema: {{properties: {{{properties}}}}}}}}}\n"
    )
    tasks = shared + "".join(f"  {name}: {{use: ask}}\n" for name in names)
    flow = check_submitted_flow(f"flow: {{graph: {' >> '.join(names)}}}\ntasks:\n{tasks}".encode())
    assert len(flow.tasks) == 20


def test_fast_only_rejects_files_with_schemas() -> None:
    with pytest.raises(SlowSchemaCheck):
        check_submitted_flow(
            asking("      message: a?\n      schema: {type: string}\n").encode(), fast_only=True
        )
    assert check_submitted_flow(asking("      message: a?\n").encode(), fast_only=True).tasks


def test_an_unknown_input_is_reported_with_the_nearest_one() -> None:
    problem = the_problem(asking("      message: Is it right?\n      shema: {type: string}\n"))
    assert problem.field == "tasks.approve.inputs.shema"
    assert "did you mean 'schema'?" in problem.message


def test_all_problems_are_reported_at_once() -> None:
    source = asking("      timeout_ms: -1\n      schema: {type: strin}\n") + "extra: 1\n"
    assert len(problems_of(source)) == 4


def test_an_unknown_task_of_the_server_is_rejected() -> None:
    source = "flow: {graph: approve}\ntasks:\n  approve: {use: pyoco/humam}\n"
    problem = the_problem(source)
    assert "did you mean 'pyoco/human'?" in problem.message
    assert problem.field == "tasks.approve.use"


def test_a_task_of_the_file_can_be_the_pattern_of_others() -> None:
    source = """
flow: {graph: first >> second}
tasks:
  ask: {use: pyoco/human, inputs: {message: Right?, schema: {type: boolean}}}
  first: {use: ask}
  second: {use: ask, inputs: {message: Really?}}
"""
    tasks = check_submitted_flow(source.encode()).tasks
    assert {name: task.inputs["message"] for name, task in tasks.items()} == {
        "first": "Right?",
        "second": "Really?",
    }
    problem = the_problem(source.replace("Really?", "''"))
    assert problem.field == "tasks.second.inputs.message"


def test_a_task_that_the_graph_does_not_reach_is_not_looked_at() -> None:
    source = 'flow: {graph: load}\ntasks:\n  load: {callable: "a:b"}\n  approve: {use: pyoco/human}\n'
    assert set(check_submitted_flow(source.encode()).tasks) == {"load"}


def test_it_is_allowed_whatever_the_policy_says() -> None:
    source = asking("      message: Is it right?\n")
    flow, _ = build_yaml_flow(source.encode(), "ask", CallablePolicy.parse("nothing.else"))
    [task] = flow.tasks
    assert task.func is ask


def test_only_its_own_inputs_reach_the_question() -> None:
    class Asked:
        def human(self, **arguments: Any) -> dict[str, Any]:
            return arguments

    assert ask(Asked(), message="?", inputs="a param of the run", default=None) == {
        "message": "?",
        "default": None,
    }


async def test_an_invalid_question_is_rejected_at_submit(gateway: RunningGateway) -> None:
    answer = await gateway.submit_yaml(asking("      schema: {type: strin}\n"))
    assert answer.status_code == 422, answer.text
    errors = {error["field"]: error for error in answer.json()["errors"]}
    assert set(errors) == {"tasks.approve.inputs.message", "tasks.approve.inputs.schema"}
    assert (errors["tasks.approve.inputs.schema"]["line"], answer.json()["err_id"]) == (6, "ERR-PYOCO-0002")


async def test_a_run_asks_and_continues_with_the_answer(
    config: NatsBackendConfig, gateway: RunningGateway
) -> None:
    async with serving_worker(replace(config, callable_allow="tests.flows.*")):
        submitted = await gateway.submit_yaml(INVOICE)
        assert submitted.status_code == 200, submitted.text
        run_id = submitted.json()["run_id"]
        waiting = await gateway.reaches(run_id, "WAITING_HUMAN", "FAILED")
        assert waiting["status"] == "WAITING_HUMAN", waiting["error"]
        assert waiting["tasks"]["approve"] == "WAITING"
        assert waiting["wait_message"] == "xxx", "a message can come from an earlier task"
        [wait] = waiting["open_waits"]
        assert (wait["task"], wait["name"]) == ("approve", "human")

        refused = await gateway.http.post("/resume", json={"runId": run_id, "payload": 0})
        assert refused.status_code == 422, refused.text
        answered = await gateway.http.post("/resume", json={"runId": run_id, "payload": 6})
        assert answered.status_code == 200, answered.text
        run = await gateway.ends(run_id)
    assert run["status"] == "COMPLETED", run["error"]
    assert run["task_records"]["approve"]["output"] == 6
    assert run["task_records"]["store"]["output"] == {"stored": 6}
