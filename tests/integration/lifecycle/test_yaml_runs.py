"""Runs of a flow.yaml: executed, refused, and never imported."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker import nats_worker
from pyoco_server.worker.flows.code_version import code_version
from tests.support.running.gateway import RunningGateway, flow_is
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

TASKS = """
tasks:
  load: {callable: "tests.flows.basics:load"}
  store: {callable: "tests.flows.basics:store"}
"""


async def run_yaml(gateway: RunningGateway, source: str) -> dict[str, Any]:
    response = await gateway.submit_yaml(source)
    assert response.status_code == 200, response.text
    return await gateway.ends(response.json()["run_id"])


async def test_a_flow_yaml_runs_with_its_defaults(working_gateway: RunningGateway) -> None:
    source = "version: 1\nflow:\n  graph: |\n    load >> store\n  defaults: {x: 41}\n" + TASKS
    run = await run_yaml(working_gateway, source)
    assert run["status"] == "COMPLETED", run["error"]
    assert run["params"] == {"x": 41}
    assert run["task_records"]["store"]["output"] == {"stored": 42}


async def test_control_flow_runs(working_gateway: RunningGateway) -> None:
    source = "version: 1\nflow:\n  graph: 'repeat(count=3){ load } >> store'\n" + TASKS
    run = await run_yaml(working_gateway, source)
    assert run["status"] == "COMPLETED", run["error"]
    assert run["tasks"] == {"load": "SUCCEEDED", "store": "SUCCEEDED"}


async def test_only_tasks_in_the_graph_are_imported_and_run(working_gateway: RunningGateway) -> None:
    unused = "  unused: {callable: 'no_such_module_at_all:f'}\n"
    run = await run_yaml(working_gateway, "version: 1\nflow: {graph: load}\n" + TASKS + unused)
    assert run["status"] == "COMPLETED", run["error"]
    assert set(run["tasks"]) == {"load"}


@pytest.mark.parametrize("callable_path", ["os:system", "subprocess:run", "pyoco_server.config:safe_url"])
async def test_a_callable_outside_the_policy_is_refused_with_the_setting(
    working_gateway: RunningGateway, callable_path: str
) -> None:
    source = f"version: 1\nflow: {{graph: bad}}\ntasks:\n  bad: {{callable: '{callable_path}'}}\n"
    run = await run_yaml(working_gateway, source)
    assert (run["status"], run["reason"]) == ("FAILED", "execution_error")
    assert callable_path in run["error"]
    assert "PYOCO_CALLABLE_ALLOW" in run["error"]


async def test_a_refused_callable_is_not_even_imported(
    config: NatsBackendConfig, own_gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = tmp_path / "imported"
    (tmp_path / "forbidden_module.py").write_text(f"open({str(evidence)!r}, 'w').close()\ndef f(): pass\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    source = "version: 1\nflow: {graph: bad}\ntasks:\n  bad: {callable: 'forbidden_module:f'}\n"
    async with serving_worker(replace(config, callable_allow="tests.*")):
        run = await run_yaml(own_gateway, source)
    assert run["status"] == "FAILED"
    assert "forbidden_module:f" in run["error"]
    assert not evidence.exists()
    async with serving_worker(replace(config, callable_allow="forbidden_module")):
        assert (await run_yaml(own_gateway, source))["status"] == "COMPLETED"
    assert evidence.exists()


async def test_an_import_error_names_the_task_and_the_module(working_gateway: RunningGateway) -> None:
    source = "version: 1\nflow: {graph: bad}\ntasks:\n  bad: {callable: 'no_such_module:f'}\n"
    run = await run_yaml(working_gateway, source)
    assert run["status"] == "FAILED"
    assert "'bad'" in run["error"]
    assert "no_such_module" in run["error"]


async def test_a_flow_yaml_cannot_read_secrets_of_the_worker(
    config: NatsBackendConfig, own_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYOCO_AUTH_PEPPER", "grind-me")
    monkeypatch.setenv("PYOCO_NATS_URL", "nats://user:hunter2@127.0.0.1")
    monkeypatch.setenv("HARMLESS", "7")
    source = (
        "version: 1\nflow: {graph: load}\ntasks:\n"
        "  load: {callable: 'tests.flows.basics:load', inputs: {x: $env.VARIABLE}}\n"
    )
    async with serving_worker(config):
        for secret in ("PYOCO_AUTH_PEPPER", "PYOCO_NATS_URL"):
            run = await run_yaml(own_gateway, source.replace("VARIABLE", secret))
            assert run["status"] == "FAILED"
            assert "not found" in run["error"]
        run = await run_yaml(own_gateway, source.replace("VARIABLE", "HARMLESS"))
        assert run["task_records"]["load"]["inputs"] == {"x": "7"}


FLOW_FILE = """
from pyoco import Flow, task

@task
def greet(name="you"):
    return f"hello, {name}"

late = Flow("late") >> greet
"""


async def test_a_flow_file_can_be_submitted_as_soon_as_it_is_written(
    config: NatsBackendConfig, own_gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also before the worker notices that its folder has changed."""
    monkeypatch.setattr(nats_worker, "_WATCH_EVERY_SEC", 3600.0)
    async with serving_worker(config, flows=tmp_path):
        missing = await own_gateway.ends(await own_gateway.submit("late"))
        assert missing["reason"] == "flow_not_found"
        (tmp_path / "late.py").write_text(FLOW_FILE)
        run = await own_gateway.ends(await own_gateway.submit("late"))
        assert run["status"] == "COMPLETED", run["error"]
        # A submitted file names its task, without declaring it.
        run = await run_yaml(own_gateway, "flow: {graph: greet, defaults: {name: Ann}}")
        assert run["task_records"]["greet"]["output"] == "hello, Ann"


async def test_a_run_says_which_version_of_the_code_executed_it(
    config: NatsBackendConfig, own_gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_worker, "_WATCH_EVERY_SEC", 0.05)
    (tmp_path / "late.py").write_text(FLOW_FILE)
    async with serving_worker(config, flows=tmp_path):
        first = await own_gateway.ends(await own_gateway.submit("late"))
        again = await own_gateway.ends(await own_gateway.submit("late"))
        assert first["code_version"] == again["code_version"] == code_version(tmp_path, [])
        (tmp_path / "late.py").write_text(FLOW_FILE.replace("hello", "good evening"))
        changed = code_version(tmp_path, [])

        async def has_new_version() -> dict[str, Any] | None:
            run = await own_gateway.ends(await own_gateway.submit("late"))
            return run if run["task_records"]["greet"]["output"] == "good evening, you" else None

        later = await eventually(has_new_version, describe="the worker has loaded the changed flow")
        assert later["code_version"] == changed != first["code_version"]
        await flow_is(
            own_gateway, "late", lambda flow: [each["version"] for each in flow["workers"]] == [changed]
        )


async def test_the_time_limit_of_a_task_holds(working_gateway: RunningGateway) -> None:
    source = (
        "flow: {graph: slow, defaults: {seconds: 60}}\ntasks: {slow: {callable: 'tests.flows.basics:deaf', "
    )
    run = await run_yaml(working_gateway, source + "timeout_sec: 0.2}}")
    assert (run["reason"], run["error"]) == ("timeout", "task slow: it took longer than its limit of 0.2 s")


async def test_retries_and_fail_policy_of_a_task_hold(working_gateway: RunningGateway) -> None:
    source = "flow: {graph: fail >> load}\n" + TASKS
    source += "  fail: {callable: 'tests.flows.basics:fail', retries: 1, fail_policy: isolate}\n"
    run = await run_yaml(working_gateway, source)
    assert run["status"] == "COMPLETED"
    assert run["tasks"] == {"fail": "FAILED", "load": "FAILED"}
    assert run["task_records"]["fail"]["calls"] == 2


async def test_a_task_that_no_worker_has_is_named(working_gateway: RunningGateway) -> None:
    run = await run_yaml(working_gateway, "flow: {graph: archive}")
    assert (run["status"], run["reason"]) == ("FAILED", "execution_error")
    assert "no flow file on this worker has a task 'archive'; there are: " in run["error"]
