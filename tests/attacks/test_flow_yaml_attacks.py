"""A hostile flow.yaml, submitted to a gateway and executed by a worker with the default policy."""

from pathlib import Path

import pytest

from tests.support.running.gateway import RunningGateway

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("callable_path", "inputs"),
    [
        ("test.support:run_in_subinterp", '{code: \'open("FILE", "w")\'}'),
        ("test.support.script_helper:make_script", "{script_dir: DIR, script_basename: file, source: ''}"),
        ("_testcapi:run_in_subinterp", '{code: \'open("FILE", "w")\'}'),
        ("_xxsubinterpreters:create", "{}"),
        ("pycparser:preprocess_file", "{filename: FILE, cpp_path: touch}"),
        ("requests:get", "{url: 'http://127.0.0.1:1/'}"),
    ],
)
async def test_a_callable_of_python_or_of_a_dependency_is_refused(
    working_gateway: RunningGateway, tmp_path: Path, callable_path: str, inputs: str
) -> None:
    inputs = inputs.replace("FILE", str(tmp_path / "file")).replace("DIR", str(tmp_path))
    source = f"flow: {{graph: a}}\ntasks: {{a: {{callable: '{callable_path}', inputs: {inputs}}}}}\n"
    response = await working_gateway.submit_yaml(source)
    assert response.status_code == 200, response.text
    run = await working_gateway.ends(response.json()["run_id"])
    assert (run["status"], run["reason"]) == ("FAILED", "execution_error")
    assert f"'{callable_path}' is refused" in run["error"]
    assert f"set PYOCO_CALLABLE_ALLOW=*,{callable_path.partition(':')[0]} on this worker" in run["error"]
    assert list(tmp_path.iterdir()) == []


LOAD = 'tasks: {load: {callable: "tests.flows.basics:load"}}\n'


@pytest.mark.parametrize(
    ("graph", "inputs", "field", "part"),
    [
        ('until(cond="$ctx.loop.__init__.__globals__"){load}', "{}", "flow.graph", "__init__"),
        ('switch(on="$ctx.results.load.__class__"){default: load}', "{}", "flow.graph", "__class__"),
        ("load", "{x: $node.load.output.__init__.b}", "tasks.load.inputs.x", "__init__"),
    ],
)
async def test_a_path_to_the_code_behind_a_value_is_rejected_at_submit(
    working_gateway: RunningGateway, graph: str, inputs: str, field: str, part: str
) -> None:
    source = f"flow: {{graph: '{graph}'}}\n" + LOAD.replace('load"', f'load", inputs: {inputs}')
    response = await working_gateway.submit_yaml(source)
    assert response.status_code == 422, response.text
    [error] = response.json()["errors"]
    assert error["field"] == field
    assert f"'{part}' begins with '_'" in error["message"]


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("$ctx.params.s * 2000000000 == 1", "the operator * needs two numbers, not a str"),
        ("$ctx.params.l * 2000000000 == 1", "the operator * needs two numbers, not a list"),
        ("$ctx.params.f % 1 == 1", "the operator % needs two numbers, not a str"),
        ("$ctx.params.s.format == 1", "a value of the type str has no fields"),
        ("$ctx.loops.append == 1", "a value of the type list has no fields"),
    ],
)
async def test_an_expression_without_a_bound_fails_on_the_worker(
    working_gateway: RunningGateway, condition: str, words: str
) -> None:
    graph = f'until(cond="{condition}"){{load}}'
    source = f"flow: {{graph: '{graph}', defaults: {{s: a, l: [0], f: '%999999999d'}}}}\n" + LOAD
    response = await working_gateway.submit_yaml(source)
    assert response.status_code == 200, response.text
    run = await working_gateway.ends(response.json()["run_id"])
    assert (run["status"], run["reason"]) == ("FAILED", "execution_error")
    assert words in run["error"]
    assert "compute it in a task" in run["error"] or "not data" in run["error"]
