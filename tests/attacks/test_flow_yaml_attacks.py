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
