"""The catalogue of a folder of flows: texts, tasks, versions, and what cannot be described."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_server.records.workers.flow_models import MAX_CATALOGUE_BYTES, FlowCatalogue, decode_catalogue
from pyoco_server.worker.flows.code_version import code_version
from pyoco_server.worker.flows.flow_descriptions import described_flows
from pyoco_server.worker.flows.flow_files import FlowFolder
from pyoco_server.worker.flows.folder_fingerprint import files_below
from tests.support.modules import ModuleFolder, importable_folder

VERSION = "0123456789abcdef"
ONE_FLOW = '''"""Reads the orders.

Every night.
"""
from pyoco import task
from pyoco.core.models import Flow

@task
def load(day: str):
    """Reads one day."""
    return day

@task
def store(load): ...

orders = Flow("orders") >> load >> store
'''
TWO_FLOWS = '''"""Not the text of any flow."""
from pyoco import task
from pyoco.core.models import Flow

@task
def alone(x: int = 1):
    """The only task."""

@task
def first(): ...

@task
def second(): ...

one = Flow("one") >> alone
two = Flow("two") >> first >> second
'''


@pytest.fixture
def modules(tmp_path: Path) -> Iterator[ModuleFolder]:
    with importable_folder(tmp_path / "flows") as folder:
        yield folder


def described(modules: ModuleFolder, **earlier: list[str]) -> FlowCatalogue:
    """`earlier` are the flows that each Python file had before."""
    folder = FlowFolder(modules.path)
    folder.load()
    return decode_catalogue(
        described_flows(folder, VERSION, {f"{name}.py": flows for name, flows in earlier.items()})
    )


def test_a_flow_is_described_by_its_file_and_tasks(modules: ModuleFolder) -> None:
    modules.write("described_orders.py", ONE_FLOW)
    [flow] = described(modules).flows
    assert (flow.name, flow.file, flow.problem) == ("orders", "described_orders.py", None)
    assert flow.description == "Reads the orders.\n\nEvery night."
    assert [(task.name, task.description, task.after) for task in flow.tasks] == [
        ("load", "Reads one day.", []),
        ("store", "", ["load"]),
    ]
    assert bytes(flow.parameters) == (
        b'{"type":"object","properties":{"day":{"type":"string"}},"required":["day"],"additionalProperties":false}'
    )


def test_a_file_with_two_flows_describes_neither(modules: ModuleFolder) -> None:
    modules.write("described_pair.py", TWO_FLOWS)
    assert {flow.name: flow.description for flow in described(modules).flows} == {
        "one": "The only task.",
        "two": "",
    }


def test_a_flow_yaml_is_described_by_its_first_comment(modules: ModuleFolder) -> None:
    modules.write("described_steps.py", "def load(day: str = 'today'): ...\n")
    source = "# Nightly.\n#\n#   With a list.\nversion: 1\nflow: {graph: load}\n"
    modules.write("nightly.yaml", f"{source}tasks:\n  load: {{callable: 'described_steps:load'}}\n")
    [flow] = described(modules).flows
    assert (flow.name, flow.description) == ("nightly", "Nightly.\n\n  With a list.")
    assert b'"default":"today"' in bytes(flow.parameters)


def test_a_flow_that_cannot_be_described_is_listed_with_the_reason(modules: ModuleFolder) -> None:
    modules.write("described_good.py", ONE_FLOW)
    broken = "version: 1\nflow: {graph: load}\ntasks:\n  load: {callable: 'nowhere_to_be_found:load'}\n"
    modules.write("broken.yaml", broken)
    flows = {flow.name: flow for flow in described(modules).flows}
    assert flows["broken"].problem == "task 'load': there is no module 'nowhere_to_be_found' on this worker"
    assert not flows["broken"].has_parameters
    assert flows["orders"].problem is None


def test_flows_of_a_file_that_cannot_be_loaded_are_listed_with_the_reason(modules: ModuleFolder) -> None:
    modules.write("described_moved.py", ONE_FLOW)
    modules.write("described_pair.py", f"{TWO_FLOWS}\ndef (")
    modules.write("described_new.py", "import nowhere_to_be_found\n")
    modules.write("described_helper.py", "1 / 0\n")
    found = described(modules, described_pair=["one", "orders", "two"], described_helper=[])
    flows = {flow.name: flow for flow in found.flows}
    assert sorted(flows) == ["described_new", "one", "orders", "two"]
    for name, file, reason in [
        ("one", "described_pair.py", "SyntaxError"),
        ("two", "described_pair.py", "SyntaxError"),
        ("described_new", "described_new.py", "nowhere_to_be_found"),
    ]:
        assert flows[name].file == file
        assert reason in (flows[name].problem or "")
        assert not flows[name].has_parameters
    # It is in another file now.
    assert (flows["orders"].file, flows["orders"].problem) == ("described_moved.py", None)


def test_a_name_that_two_files_give_is_listed_once_with_the_reason(modules: ModuleFolder) -> None:
    modules.write("described_first.py", TWO_FLOWS)
    modules.write("described_second.py", ONE_FLOW.replace('Flow("orders")', 'Flow("one")'))
    flows = {flow.name: flow.problem for flow in described(modules).flows}
    assert sorted(flows) == ["one", "two"]
    assert "more than one flow" in (flows["one"] or "")
    assert flows["two"] is None


def test_a_task_that_takes_values_by_position_only_is_a_problem(modules: ModuleFolder) -> None:
    modules.write("described_position.py", ONE_FLOW.replace("day: str", "day: str, /"))
    [flow] = described(modules).flows
    assert flow.problem == (
        "task 'load' takes 'day' by position only, and values are passed by name: "
        "remove the `/` from its signature"
    )
    assert not flow.has_parameters


def test_long_texts_are_cut(modules: ModuleFolder) -> None:
    modules.write("described_long.py", ONE_FLOW.replace("Every night.", "x" * 5000))
    [flow] = described(modules).flows
    assert len(flow.description) == 1000
    assert flow.description.endswith("x…")


def test_a_flow_with_too_much_to_say_is_listed_by_name(modules: ModuleFolder) -> None:
    arguments = ", ".join(f"{'argument' * 20}{number}: int" for number in range(400))
    modules.write("described_wide.py", ONE_FLOW.replace("day: str", arguments))
    [flow] = described(modules).flows
    assert flow.problem == "the description of this flow is larger than 65536 bytes"
    assert flow.tasks == []


def test_a_catalogue_is_bounded(modules: ModuleFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    modules.write("described_pair.py", TWO_FLOWS)
    monkeypatch.setattr("pyoco_server.worker.flows.flow_descriptions.MAX_CATALOGUE_BYTES", 300)
    flows = described(modules).flows
    assert [flow.name for flow in flows] == ["one", "two"]
    assert {flow.problem for flow in flows} == {
        "the descriptions of all flows of this worker are larger than 300 bytes"
    }
    assert MAX_CATALOGUE_BYTES > 300


def test_without_a_folder_there_are_no_flows() -> None:
    assert decode_catalogue(described_flows(None, VERSION, {})).flows == []


def test_the_same_code_has_the_same_version_everywhere(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "lib").mkdir(parents=True)
    (here / "flow.py").write_text("one = 1\n")
    (here / "lib" / "steps.py").write_text("two = 2\n")
    (here / "data.csv").write_text("not code\n")
    shutil.copytree(here, there, copy_function=shutil.copyfile)
    (there / "data.csv").write_text("other data\n")
    version = code_version(here, [])
    assert code_version(there, []) == version
    (there / "lib" / "steps.py").write_text("two = 3\n")
    assert code_version(there, []) != version


def test_files_have_the_same_order_everywhere(tmp_path: Path) -> None:
    """That of paths: versions of earlier releases stay valid."""
    for name in ("a-b/x.py", "a/x.py", "a/y/z.yaml", "a.py", "B.yml", ".hidden/x.py", "a/__pycache__/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = files_below(tmp_path)
    assert found == ["B.yml", "a/x.py", "a/y/z.yaml", "a-b/x.py", "a.py"]
    assert found == [str(path) for path in sorted(map(Path, found))]


def test_a_new_version_of_a_wheel_is_a_new_version_of_the_code(tmp_path: Path) -> None:
    versions = []
    for name in ("reports-1.0", "reports-1.1"):
        # The folder of a wheel is named by its upload, which differs for the same wheel.
        folder = tmp_path / f"upload-of-{name}"
        (folder / f"{name}.dist-info").mkdir(parents=True)
        versions.append(code_version(None, [str(folder)]))
    again = tmp_path / "another-upload"
    (again / "reports-1.0.dist-info").mkdir(parents=True)
    assert len(set(versions)) == 2
    assert code_version(None, [str(again)]) == versions[0]
