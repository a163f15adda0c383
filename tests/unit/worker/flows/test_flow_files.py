"""The flows of a worker: a folder of files, and a resolver named on the command line."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from pyoco.core.models import Flow

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError, FlowNotFound, InvalidCliArgument
from pyoco_server.worker.flows.callable_policy import CallablePolicy, CallableRefused, FlowBuildError
from pyoco_server.worker.flows.flow_files import FlowFolder, load_resolver
from pyoco_server.worker.flows.flow_source import FlowSource
from pyoco_server.worker.ipc.protocol import Outcome, Run, Setup
from tests.support.modules import ModuleFolder, forgotten_imports
from tests.support.running.flow_runs import FlowUnderTest, outputs

PYTHON_FLOW = """
from pyoco import Flow, task

@task
def step():
    return 1

{variable} = Flow({name})
{variable} >> step
"""
YAML_FLOW = "flow: {graph: a, defaults: {x: [1]}}\ntasks: {a: {callable: helper_of_yaml:f}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[ModuleFolder]:
    with forgotten_imports(tmp_path):
        yield ModuleFolder(tmp_path / "flows")


def python_flow(variable: str, name: str | None = None) -> str:
    return PYTHON_FLOW.format(variable=variable, name="" if name is None else f"name={name!r}")


def loaded(folder: ModuleFolder) -> FlowFolder:
    flows = FlowFolder(folder.path)
    flows.load()
    return flows


def strange_files(folder: Path) -> None:
    """What a folder may hold beside flows, by accident."""
    (folder / "itself.py").symlink_to("itself.py")
    (folder / "behind_a_file.yaml").symlink_to(folder / "good.py" / "x.yaml")
    (folder / "nowhere.yml").symlink_to("nothing")
    (folder / "folder.py").mkdir()
    (folder / "round").symlink_to(".")
    os.mkfifo(folder / "pipe.py")
    os.mkfifo(folder / "pipe.yaml")
    for name in (b"\xff.py", b"\xfe.yaml"):
        Path(os.fsdecode(bytes(folder) + b"/" + name)).write_text(YAML_FLOW)


class TestUnreadableFiles:
    def test_unreadable_files_are_reported_and_hide_no_flow(self, folder: ModuleFolder) -> None:
        folder.write("good.py", python_flow("good", "good"))
        folder.write("unspeakable.py", python_flow("flow", "\udcff"))
        strange_files(folder.path)
        flows = loaded(folder)
        assert flows.names == ["good"]
        assert flows.failures == {
            "itself.py": "the file cannot be read: Too many levels of symbolic links",
            "behind_a_file.yaml": "the file cannot be read: Not a directory",
            "nowhere.yml": "the file cannot be read: No such file or directory",
            "unspeakable.py": "the name '\\udcff' of a flow has no form in UTF-8; rename it",
            "\\udcff.py": "the name of the file is not UTF-8; rename it",
            "\\udcfe.yaml": "the name of the file is not UTF-8; rename it",
        }
        # As the executor reports it.
        msgspec.json.encode((flows.names, flows.failures))

    def test_the_fingerprint_of_the_folder_changes_with_them(self, folder: ModuleFolder) -> None:
        folder.write("good.py", python_flow("good", "good"))
        flows = FlowFolder(folder.path)
        before = flows.fingerprint()
        strange_files(folder.path)
        with_strange = flows.fingerprint()
        assert with_strange != before
        assert flows.fingerprint() == with_strange
        (folder.path / "itself.py").unlink()
        folder.write("itself.py", python_flow("repaired"))
        assert flows.fingerprint() != with_strange

    def test_a_file_that_is_removed_meanwhile(
        self, folder: ModuleFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder.write("good.py", python_flow("good", "good"))
        vanishing = folder.path / "vanishing.py"
        vanishing.touch()
        look = os.stat

        def vanish(path: int | str | Path, **options: Any) -> os.stat_result:
            if not isinstance(path, int) and os.fspath(path) == str(vanishing):
                vanishing.unlink(missing_ok=True)
            return look(path, **options)

        monkeypatch.setattr(os, "stat", vanish)
        assert loaded(folder).names == ["good"]
        vanishing.touch()
        assert FlowFolder(folder.path).fingerprint()

    def test_an_unreadable_folder_is_a_config_error(
        self, folder: ModuleFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(_: Path) -> Iterator[Path]:
            raise PermissionError(13, "Permission denied")

        folder.write("good.py", python_flow("good", "good"))
        # Whoever runs the tests as root may read everything.
        monkeypatch.setattr(Path, "iterdir", refuse)
        with pytest.raises(ConfigError, match=r"cannot be read: Permission denied"):
            loaded(folder)


class TestLoading:
    def test_python_and_yaml_side_by_side(self, folder: ModuleFolder) -> None:
        folder.write("etl_nightly.py", python_flow("flow", "nightly"))
        folder.write("weekly.yaml", YAML_FLOW)
        folder.write("monthly.yml", YAML_FLOW)
        folder.write("helper_of_yaml.py", "def f(): return 1\n")
        folder.write("notes.txt", "not a flow")
        flows = loaded(folder)
        assert flows.names == ["monthly", "nightly", "weekly"]
        assert flows.failures == {}
        assert flows.resolve("nightly").name == "nightly"
        assert {task.name for task in flows.resolve("weekly").tasks} == {"a"}
        assert flows.resolve("weekly").name == "weekly"
        assert flows.defaults("nightly") == {}

    def test_defaults_of_a_yaml_flow_are_copied(self, folder: ModuleFolder) -> None:
        folder.write("weekly.yaml", YAML_FLOW)
        flows = loaded(folder)
        flows.defaults("weekly")["x"].append(2)
        assert flows.defaults("weekly") == {"x": [1]}

    def test_files_may_import_each_other(self, folder: ModuleFolder) -> None:
        folder.write("shared_steps.py", python_flow("flow", "base"))
        folder.write("uses_shared.py", "from shared_steps import flow as base_flow, step\n")
        flows = loaded(folder)
        assert flows.names == ["base"]
        assert flows.failures == {}

    def test_hidden_and_private_names_are_ignored(self, folder: ModuleFolder) -> None:
        folder.write("_draft.py", "raise RuntimeError\n")
        folder.write(".hidden.py", "raise RuntimeError\n")
        folder.write("_draft.yaml", "(")
        folder.write("package_of_flows/__init__.py", "raise RuntimeError\n")
        folder.write("private_variable.py", python_flow("_flow", "private"))
        flows = loaded(folder)
        assert flows.names == []
        assert flows.failures == {}

    def test_loading_writes_no_bytecode(self, folder: ModuleFolder) -> None:
        folder.write("clean_module.py", python_flow("flow", "clean"))
        loaded(folder)
        assert [path.name for path in folder.path.iterdir()] == ["clean_module.py"]

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="nowhere"):
            FlowFolder(tmp_path / "nowhere").load()

    def test_a_relative_path_survives_a_change_of_directory(
        self, folder: ModuleFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder.write("weekly.yaml", YAML_FLOW)
        folder.write("helper_of_yaml.py", "def f(): return 1\n")
        monkeypatch.chdir(folder.path.parent)
        flows = FlowFolder("flows")
        flows.load()
        monkeypatch.chdir("/")
        assert flows.resolve("weekly").name == "weekly"


class TestNames:
    def test_an_unnamed_flow_takes_its_variables_name(self, folder: ModuleFolder) -> None:
        folder.write("unnamed_one.py", python_flow("hourly"))
        folder.write("unnamed_two.py", python_flow("daily"))
        flows = loaded(folder)
        assert flows.names == ["daily", "hourly"]

    def test_a_single_unnamed_flow_is_also_called_main(self, folder: ModuleFolder) -> None:
        folder.write("only_unnamed.py", python_flow("hourly"))
        folder.write("named_beside_it.py", python_flow("flow", "daily"))
        flows = loaded(folder)
        assert flows.names == ["daily", "hourly", "main"]
        assert flows.resolve("main") is flows.resolve("hourly")

    def test_a_yaml_file_called_main_comes_first(self, folder: ModuleFolder) -> None:
        folder.write("unnamed_beside_main.py", python_flow("hourly"))
        folder.write("main.yaml", YAML_FLOW)
        flows = loaded(folder)
        assert flows.names == ["hourly", "main"]
        assert flows.defaults("main") == {"x": [1]}

    def test_of_two_flows_with_one_name_neither_is_run(self, folder: ModuleFolder) -> None:
        folder.write("first_of_two.py", python_flow("flow", "twice"))
        folder.write("twice.yaml", YAML_FLOW)
        folder.write("not_affected.py", python_flow("flow", "once"))
        flows = loaded(folder)
        assert flows.names == ["once"]
        assert set(flows.failures) == {"first_of_two.py", "twice.yaml"}
        with pytest.raises(KeyError, match=r"'twice'.*first_of_two\.py and in twice\.yaml; rename"):
            flows.resolve("twice")


class TestFailures:
    def test_a_file_that_fails_does_not_hide_the_others(self, folder: ModuleFolder) -> None:
        folder.write("good_module.py", python_flow("flow", "good"))
        folder.write("raises_at_import.py", "\n\nraise RuntimeError('no database')\n")
        folder.write("exits_at_import.py", "import sys\nsys.exit(3)\n")
        folder.write("bad_syntax.py", "def (:\n")
        folder.write("bad_graph.yaml", "flow: {graph: a >> >> b}\ntasks: {a: {callable: m:f}}\n")
        flows = loaded(folder)
        assert flows.names == ["good"]
        assert (
            flows.failures["raises_at_import.py"] == "RuntimeError: no database (raises_at_import.py, line 3)"
        )
        assert flows.failures["exits_at_import.py"].startswith("SystemExit: 3")
        assert "SyntaxError" in flows.failures["bad_syntax.py"]
        assert "line 1, column 20" in flows.failures["bad_graph.yaml"]

    def test_an_unknown_name_lists_the_known_flows(self, folder: ModuleFolder) -> None:
        folder.write("good_module.py", python_flow("flow", "good"))
        folder.write("raises_at_import.py", "raise RuntimeError('no database')\n")
        flows = loaded(folder)
        for ask in (flows.resolve, flows.defaults):
            with pytest.raises(KeyError) as caught:
                ask("goood")
            assert isinstance(caught.value, FlowNotFound)
            for words in (
                "no flow 'goood'",
                "its flows are: good",
                "raises_at_import.py: RuntimeError: no database",
            ):
                assert words in str(caught.value)
                assert words in caught.value.args[0]

    def test_an_empty_folder(self, folder: ModuleFolder) -> None:
        folder.path.mkdir()
        with pytest.raises(KeyError, match="its flows are: none"):
            loaded(folder).resolve("any")

    @pytest.mark.parametrize("name", ["json.py", "sys.py", "pytest.py", "email.py"])
    def test_a_file_with_a_name_that_is_taken(self, folder: ModuleFolder, name: str) -> None:
        folder.write(name, python_flow("flow", "taken"))
        flows = loaded(folder)
        assert "already means" in flows.failures[name]
        assert "rename the file" in flows.failures[name]
        assert flows.names == []

    def test_a_dot_in_a_modules_name(self, folder: ModuleFolder) -> None:
        folder.write("my.flow.py", python_flow("flow", "dotted"))
        assert "rename the file" in loaded(folder).failures["my.flow.py"]

    def test_a_yaml_flow_whose_task_cannot_be_imported(self, folder: ModuleFolder) -> None:
        folder.write("weekly.yaml", YAML_FLOW)
        flows = loaded(folder)
        with pytest.raises(FlowBuildError, match="no module 'helper_of_yaml'"):
            flows.resolve("weekly")

    def test_the_policy_applies_to_a_yaml_flow(self, folder: ModuleFolder) -> None:
        folder.write("weekly.yaml", "flow: {graph: a}\ntasks: {a: {callable: os:getcwd}}\n")
        flows = loaded(folder)
        with pytest.raises(CallableRefused):
            flows.resolve("weekly")
        allowed = FlowFolder(folder.path, CallablePolicy.parse("os, posix"))
        allowed.load()
        assert allowed.resolve("weekly").name == "weekly"


class TestFingerprint:
    def test_it_changes_with_the_files_and_only_with_them(self, folder: ModuleFolder) -> None:
        one = folder.write("one.py", "x = 1\n")
        flows = FlowFolder(folder.path)
        seen = [flows.fingerprint()]
        assert FlowFolder(folder.path).fingerprint() == seen[0]

        def changed() -> bool:
            seen.append(flows.fingerprint())
            return seen[-1] not in seen[:-1]

        folder.write("notes.txt", "x")
        folder.write("__pycache__/one.cpython-311.py", "x")
        folder.write(".venv/lib/other.py", "x")
        assert not changed()
        one.write_text("x = 12\n")
        assert changed()
        os.utime(one, ns=(1, 1))
        assert changed()
        folder.write("flow.yaml", "x")
        assert changed()
        folder.write("package/deep/module.py", "x")
        assert changed()
        one.rename(folder.path / "two.py")
        assert changed()
        (folder.path / "two.py").unlink()
        assert changed()

    def test_the_fingerprint_imports_nothing(self, folder: ModuleFolder) -> None:
        folder.write("raises_when_imported.py", "raise RuntimeError\n")
        assert FlowFolder(folder.path).fingerprint()
        assert "raises_when_imported" not in sys.modules


class TestResolver:
    def test_it_is_found_from_the_working_directory(
        self, folder: ModuleFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder.write("my_project/__init__.py", "")
        folder.write(
            "my_project/flows.py", "from pyoco import Flow\ndef resolve(name): return Flow(name=name)\n"
        )
        monkeypatch.chdir(folder.path)
        flow = load_resolver("my_project.flows:resolve")("nightly")
        assert isinstance(flow, Flow)
        assert flow.name == "nightly"

    @pytest.mark.parametrize(
        "path",
        [
            "",
            "flows",
            "flows.resolve",
            ":resolve",
            "flows:",
            "flows:a:b",
            "a..b:c",
            "flows:resolve()",
            "./flows.py:f",
        ],
    )
    def test_malformed(self, path: str) -> None:
        with pytest.raises(InvalidCliArgument, match=r"'package\.module:function'"):
            load_resolver(path)

    @pytest.mark.parametrize(
        ("path", "words"),
        [
            ("not_there_at_all:f", "there is no module 'not_there_at_all'"),
            ("resolver_module:reslove", "did you mean 'resolve'"),
            ("resolver_module:number", "cannot be called; it is of type int"),
            ("resolver_broken:f", "RuntimeError: no database (resolver_broken.py, line 1)"),
            ("resolver_needs:f", "No module named 'not_installed'"),
        ],
    )
    def test_not_loadable(
        self, folder: ModuleFolder, monkeypatch: pytest.MonkeyPatch, path: str, words: str
    ) -> None:
        folder.write("resolver_module.py", "number = 5\ndef resolve(name): ...\n")
        folder.write("resolver_broken.py", "raise RuntimeError('no database')\n")
        folder.write("resolver_needs.py", "import not_installed\n")
        monkeypatch.chdir(folder.path)
        with pytest.raises(InvalidCliArgument) as caught:
            load_resolver(path)
        assert words in str(caught.value)
        assert path in str(caught.value)


TASK_FILE = """
from pyoco import task

@task
def add(x):
    return x + {amount}

add.task.inputs["x"] = 1
"""


class TestTasksOfFiles:
    """A flow.yaml can name the tasks of the Python files, wherever it was submitted."""

    def test_a_flow_yaml_of_the_folder_names_them(self, folder: ModuleFolder) -> None:
        folder.write("adding.py", TASK_FILE.format(amount=1))
        folder.write("importing.py", "from adding import add\n")
        folder.write("sum.yaml", "flow: {graph: add >> again}\ntasks: {again: {use: add, inputs: {x: 5}}}\n")
        outcome = FlowUnderTest(loaded(folder).resolve("sum")).execute()
        assert outputs(outcome) == {"add": 2, "again": 6}

    def test_of_two_tasks_with_one_name_neither_is_used(self, folder: ModuleFolder) -> None:
        folder.write("first.py", TASK_FILE.format(amount=1))
        folder.write("second.py", TASK_FILE.format(amount=2))
        folder.write("sum.yaml", "flow: {graph: add}\n")
        with pytest.raises(FlowBuildError, match=r"task 'add' in first\.py and in second\.py; rename"):
            loaded(folder).resolve("sum")

    def test_the_policy_applies_to_them(self, folder: ModuleFolder) -> None:
        folder.write("adding.py", TASK_FILE.format(amount=1))
        folder.write("sum.yaml", "flow: {graph: add}\n")
        flows = FlowFolder(folder.path, CallablePolicy.parse("shared.*"))
        flows.load()
        with pytest.raises(CallableRefused, match=r"task 'add'.*PYOCO_CALLABLE_ALLOW"):
            flows.resolve("sum")

    def test_a_missing_task_is_named_with_those_that_there_are(self, folder: ModuleFolder) -> None:
        folder.write("adding.py", TASK_FILE.format(amount=1))
        folder.write("sum.yaml", "flow: {graph: archive}\n")
        with pytest.raises(FlowBuildError, match=r"has a task 'archive'; there are: add$"):
            loaded(folder).resolve("sum")


class TestNewerFiles:
    """A file that was written after the process has loaded the folder needs a new process, not a failure."""

    @staticmethod
    def outcome(source: FlowSource, **fields: Any) -> Outcome:
        run = Run(run_id="r", flow_name="late", params=b"{}", **fields)
        prepared = source.prepare(run, SimpleNamespace())  # type: ignore[arg-type]
        assert isinstance(prepared, Outcome)
        return prepared

    def test_an_unknown_flow_is_looked_for_again(self, folder: ModuleFolder) -> None:
        folder.write("good.py", python_flow("good", "good"))
        source = FlowSource.from_setup(Setup.from_config(NatsBackendConfig(), flows=str(folder.path)))
        assert self.outcome(source).reason == "flow_not_found"
        folder.write("late.py", python_flow("late", "late"))
        newer = self.outcome(source)
        assert (newer.status, newer.must_continue, newer.must_restart) == ("RUNNING", True, True)

    def test_but_once(self, folder: ModuleFolder) -> None:
        """Importing a file may write another one each time."""
        folder.write("good.py", python_flow("good", "good"))
        source = FlowSource.from_setup(Setup.from_config(NatsBackendConfig(), flows=str(folder.path)))
        folder.write("other.py", python_flow("other", "other"))
        assert self.outcome(source, in_new_process=True).reason == "flow_not_found"

    def test_so_is_the_task_of_a_submitted_file(self, folder: ModuleFolder) -> None:
        folder.write("good.py", python_flow("good", "good"))
        source = FlowSource.from_setup(Setup.from_config(NatsBackendConfig(), flows=str(folder.path)))
        yaml = b"flow: {graph: add}"
        assert self.outcome(source, workflow_yaml=yaml).reason == "execution_error"
        folder.write("adding.py", TASK_FILE.format(amount=1))
        assert self.outcome(source, workflow_yaml=yaml).must_continue
