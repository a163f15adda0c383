"""Building a flow from a flow.yaml: imports, their order, and errors."""

import importlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyoco.core.engine import Engine
from pyoco.core.models import Flow

from pyoco_server.errors import InvalidRequest
from pyoco_server.worker.flows.callable_policy import CallablePolicy, CallableRefused, FlowBuildError
from pyoco_server.worker.flows.yaml_flow import build_yaml_flow
from tests.support.modules import ModuleFolder, importable_folder
from tests.support.running.flow_runs import FlowUnderTest


class Silent:
    """A trace backend that says nothing."""

    def on_flow_start(self, flow_name: str, run_id: str | None = None) -> None: ...
    def on_flow_end(self, flow_name: str) -> None: ...
    def on_node_start(self, node_name: str) -> None: ...
    def on_node_end(self, node_name: str, duration_ms: float) -> None: ...
    def on_node_error(self, node_name: str, error: Exception) -> None: ...


def build(source: str, patterns: str = "") -> tuple[Flow, dict[str, Any]]:
    return build_yaml_flow(source.encode(), "nightly", CallablePolicy.parse(patterns))


@pytest.fixture
def modules(tmp_path: Path) -> Iterator[ModuleFolder]:
    with importable_folder(tmp_path / "modules") as folder:
        yield folder


def results(flow: Flow, params: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = Engine(trace_backend=Silent()).run(flow, params).results
    return found


def test_a_flow_with_everything_runs(modules: ModuleFolder) -> None:
    modules.write(
        "steps.py",
        """
from pyoco import task

@task
def load(path, limit):
    return [path] * limit

def count(rows):
    return len(rows)
""",
    )
    flow, defaults = build(
        """
flow:
  graph: |
    load >> pipe(counting) >> switch(on="$ctx.results.count"){3: again: count; default: never}
  defaults: {path: a.csv, size: 3}
tasks:
  load: {callable: steps:load, inputs: {limit: $ctx.params.size}}
  count: {callable: steps:count, inputs: {rows: $node.load.output}, outputs: [scratch.counted]}
  never: {callable: steps:count}
pipes: {counting: count}
"""
    )
    assert flow.name == "nightly"
    assert defaults == {"path": "a.csv", "size": 3}
    assert results(flow, defaults) == {"load": ["a.csv"] * 3, "count": 3, "again": 3}


@pytest.mark.parametrize(
    "flow",
    [
        "flow: {graph: 'until(cond=\"$ctx.loop.__init__.x\"){a}'}\ntasks: {a: {callable: steps:f}}\n",
        "flow: {graph: a}\ntasks: {a: {callable: steps:f, inputs: {x: $node.b.output.__init__}}}\n",
    ],
)
def test_a_path_to_code_is_refused_although_the_job_is_in_the_queue(flow: str) -> None:
    with pytest.raises(InvalidRequest, match=r"'__init__' begins with '_'"):
        build(flow)


def test_only_tasks_of_the_graph_are_imported(modules: ModuleFolder) -> None:
    modules.write("wanted.py", "def f(): return 1\n")
    modules.write("unwanted.py", "raise RuntimeError('imported')\n")
    flow, _ = build("flow: {graph: a}\ntasks: {a: {callable: wanted:f}, b: {callable: unwanted:f}}")
    assert {task.name for task in flow.tasks} == {"a"}
    assert "unwanted" not in sys.modules


def test_two_flows_of_one_file_share_nothing(modules: ModuleFolder) -> None:
    modules.write("wanted.py", "def f(): return 1\n")
    source = "flow: {graph: a >> b, defaults: {x: []}}\ntasks: {a: {callable: wanted:f}, b: {use: a}}"
    (first, first_defaults), (second, second_defaults) = build(source), build(source)
    first_defaults["x"].append(1)
    assert second_defaults == {"x": []}
    assert not {id(task) for task in first.tasks} & {id(task) for task in second.tasks}


class TestRefused:
    def test_a_worker_does_not_trust_the_queue(self) -> None:
        with pytest.raises(InvalidRequest, match="flows"):
            build("flows: {}\nflow: {graph: a}\ntasks: {a: {callable: m:f}}")

    def test_before_anything_is_imported(self, modules: ModuleFolder) -> None:
        modules.write("first.py", "def f(): return 1\n")
        with pytest.raises(CallableRefused) as caught:
            build(
                "flow: {graph: a >> b >> c}\n"
                "tasks: {a: {callable: first:f}, b: {callable: os:system}, c: {callable: subprocess:run}}"
            )
        assert [problem.field for problem in caught.value.problems] == [
            "tasks.b.callable",
            "tasks.c.callable",
        ]
        assert "'os:system' is refused" in str(caught.value)
        assert "first" not in sys.modules

    def test_through_an_alias_of_the_file(self) -> None:
        with pytest.raises(CallableRefused, match="os:system"):
            build("flow: {graph: b}\ntasks: {a: {callable: os:system}, b: {use: a}}")

    def test_what_a_module_imported_from_elsewhere(self, modules: ModuleFolder) -> None:
        modules.write(
            "steps.py",
            "from subprocess import run\nfrom pyoco import task\nfrom os import system\nt = task(system)\n",
        )
        for name in ("run", "t", "system"):
            with pytest.raises(
                CallableRefused, match=f"task 'a': 'steps:{name}' is refused: it comes from"
            ) as caught:
                build(f"flow: {{graph: a}}\ntasks: {{a: {{callable: steps:{name}}}}}")
            assert caught.value.task == "a"
        flow, _ = build("flow: {graph: a}\ntasks: {a: {callable: steps:run}}", patterns="steps, subprocess")
        assert len(flow.tasks) == 1


class TestNotImportable:
    @pytest.mark.parametrize(
        ("text", "path", "reason"),
        [
            (None, "steps:f", "there is no module 'steps' on this worker"),
            (None, "steps.sub:f", "there is no module 'steps' on this worker"),
            ("", "steps.sub:f", "there is no module 'steps.sub' on this worker"),
            ("import not_installed", "steps:f", "No module named 'not_installed' (steps.py, line 1)"),
            ("\n1 / 0", "steps:f", "ZeroDivisionError: division by zero (steps.py, line 2)"),
            ("def f(:", "steps:f", "SyntaxError: "),
            ("import sys\nsys.exit('stop')", "steps:f", "SystemExit: stop (steps.py, line 2)"),
            ("def load(): ...", "steps:laod", "the module 'steps' has no 'laod'; did you mean 'load'?"),
            ("f = 5", "steps:f", "'steps:f' cannot be called; it is of type int"),
            ("import subprocess", "steps:subprocess", "cannot be called; it is of type module"),
        ],
    )
    def test_the_task_the_module_and_the_reason_are_named(
        self,
        modules: ModuleFolder,
        capsys: pytest.CaptureFixture[str],
        text: str | None,
        path: str,
        reason: str,
    ) -> None:
        if text is not None:
            modules.write("steps.py", text)
        with pytest.raises(FlowBuildError) as caught:
            build(f"flow: {{graph: extract}}\ntasks: {{extract: {{callable: '{path}'}}}}")
        assert (caught.value.task, caught.value.module) == ("extract", path.partition(":")[0])
        assert "task 'extract'" in str(caught.value)
        assert reason in str(caught.value)
        assert capsys.readouterr().out == ""


PLUGIN = """
def register(registry):
    @registry.task(name="demo/double", inputs={"value": 1, "more": [1]})
    def double(value, more):
        return value * 2

    @registry.task(name="unused")
    def unused():
        raise RuntimeError("an installed task ran that nobody asked for")
"""


class TestPlugins:
    def test_use_binds_a_plugins_task(self, modules: ModuleFolder) -> None:
        modules.plugin("demo", "demo_tasks", PLUGIN)
        flow, _ = build(
            "flow: {graph: one >> two}\n"
            "tasks:\n"
            "  one: {use: demo/double, inputs: {value: 4}}\n"
            "  two: {use: one, inputs: {value: $node.one.output}}\n"
        )
        assert results(flow, {}) == {"one": 8, "two": 16}

    def test_a_plugins_task_may_keep_its_name(self, modules: ModuleFolder) -> None:
        modules.plugin("demo", "demo_tasks", PLUGIN.replace("demo/double", "double"))
        flow, _ = build("flow: {graph: double}\ntasks: {double: {use: double}}")
        assert results(flow, {}) == {"double": 2}

    def test_its_policies_are_kept(self, modules: ModuleFolder) -> None:
        modules.write(
            "extra.py",
            "from pyoco.core.models import Task\n"
            "flaky = Task(func=lambda: 1, name='flaky', retries=2, timeout_sec=9.0, fail_policy='isolate')\n",
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYOCO_DISCOVERY_MODULES", "extra")
            flow, _ = build("flow: {graph: mine}\ntasks: {mine: {use: flaky}}")
        (task,) = flow.tasks
        assert (task.name, task.retries, task.timeout_sec, task.fail_policy) == ("mine", 2, 9.0, "isolate")

    def test_an_unknown_task(self, modules: ModuleFolder) -> None:
        modules.plugin("demo", "demo_tasks", PLUGIN)
        with pytest.raises(
            FlowBuildError, match=r"task 'one': no plug-in .* did you mean 'demo/double'"
        ) as caught:
            build("flow: {graph: one}\ntasks: {one: {use: demo/duoble}}")
        assert caught.value.task == "one"

    def test_a_broken_plugin_does_not_affect_others(
        self,
        modules: ModuleFolder,
        caplog: pytest.LogCaptureFixture,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        modules.plugin("demo", "demo_tasks", PLUGIN)
        modules.plugin("broken", "broken_tasks", "def register(registry): raise RuntimeError('no licence')\n")
        with caplog.at_level(logging.WARNING):
            flow, _ = build("flow: {graph: one}\ntasks: {one: {use: demo/double}}")
        assert results(flow, {}) == {"one": 2}
        assert "no licence" in caplog.text
        with pytest.raises(FlowBuildError, match="no licence"):
            build("flow: {graph: one}\ntasks: {one: {use: broken/task}}")
        assert capsys.readouterr().out == ""

    def test_plugins_are_not_loaded_for_a_flow_that_uses_none(self, modules: ModuleFolder) -> None:
        modules.plugin("broken", "broken_tasks", "raise SystemExit('never import this')\n")
        modules.write("steps.py", "def f(): return 1\n")
        build("flow: {graph: a}\ntasks: {a: {callable: steps:f}}")
        assert "broken_tasks" not in sys.modules
        with pytest.raises(FlowBuildError, match="never import this"):
            build("flow: {graph: a}\ntasks: {a: {use: any}}")

    @pytest.mark.parametrize("tasks", ["", "tasks: {double: {inputs: {value: 1}}}"])
    def test_a_plugins_task_needs_no_declaration(self, modules: ModuleFolder, tasks: str) -> None:
        modules.plugin("demo", "demo_tasks", PLUGIN.replace("demo/double", "double"))
        flow, _ = build(f"flow: {{graph: double}}\n{tasks}")
        assert results(flow, {}) == {"double": 2}

    def test_a_missing_task_is_named_with_those_that_there_are(self, modules: ModuleFolder) -> None:
        modules.plugin("demo", "demo_tasks", PLUGIN)
        with pytest.raises(FlowBuildError) as caught:
            build("flow: {graph: archive}")
        assert str(caught.value).endswith(
            "task 'archive': no plug-in and no flow file on this worker has a task 'archive'; "
            "there are: demo/double, unused"
        )


class TestOptions:
    SOURCE = """
from pyoco import task

@task
def load():
    return 1

load.task.retries = 4
load.task.fail_policy = "isolate"
"""

    def options_of(self, task: str) -> tuple[Any, ...]:
        flow, _ = build(f"flow: {{graph: mine}}\ntasks: {{mine: {task}}}")
        (found,) = flow.tasks
        return found.retries, found.timeout_sec, found.fail_policy

    def test_the_file_sets_them(self, modules: ModuleFolder) -> None:
        modules.write("steps.py", "def load(): return 1\n")
        task = "{callable: 'steps:load', retries: 2, timeout_sec: 9, fail_policy: isolate}"
        assert self.options_of(task) == (2, 9, "isolate")
        assert self.options_of("{callable: 'steps:load'}") == (0, None, "stop")

    def test_those_of_the_code_hold_unless_the_file_says_otherwise(self, modules: ModuleFolder) -> None:
        modules.write("steps.py", self.SOURCE)
        assert self.options_of("{callable: 'steps:load'}") == (4, None, "isolate")
        task = "{callable: 'steps:load', retries: 0, fail_policy: stop}"
        assert self.options_of(task) == (0, None, "stop")

    def test_those_of_a_task_whose_flow_has_run_hold_too(self, modules: ModuleFolder) -> None:
        """A run moves the options from the task to its function."""
        modules.write("steps.py", self.SOURCE)
        steps = importlib.import_module("steps")
        assert FlowUnderTest(Flow("other") >> steps.load).execute().status == "COMPLETED"
        assert steps.load.task.retries == 0
        assert self.options_of("{callable: 'steps:load'}") == (4, None, "isolate")
