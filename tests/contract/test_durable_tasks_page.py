"""docs/durable-tasks.md: its files are complete, and do what the page says."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_server.worker.flows.flow_files import FlowFolder
from tests.contract.test_readme import files_in
from tests.support.modules import ModuleFolder, forgotten_imports
from tests.support.places import DOCS
from tests.support.running.flow_runs import FlowUnderTest, output, record

PAGE = DOCS / "durable-tasks.md"


@pytest.fixture
def flows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlowFolder]:
    """The folder that the page describes, with each run in a working directory of its own."""
    folder = ModuleFolder(tmp_path)
    for name, text in {**files_in(PAGE, "py"), **files_in(PAGE, "yaml")}.items():
        folder.write(name, text)
    directory = tmp_path / "run"
    directory.mkdir()
    monkeypatch.chdir(directory)
    with forgotten_imports(tmp_path):
        flows = FlowFolder(tmp_path / "flows")
        flows.load()
        yield flows


def test_every_file_is_loaded(flows: FlowFolder) -> None:
    assert flows.failures == {}
    assert flows.names == ["payment", "prices", "prices_twice", "quote"]


@pytest.mark.parametrize("name", ["prices", "prices_twice"])
def test_the_options_hold(flows: FlowFolder, name: str) -> None:
    outcome = FlowUnderTest(flows.resolve(name)).execute()
    assert outcome.status == "COMPLETED"
    assert outcome.tasks == {"fetch": "SUCCEEDED", "average": "SUCCEEDED", "announce": "FAILED"}
    assert record(outcome, "fetch")["calls"] == 2
    assert output(outcome, "average") == 1000


def test_the_options_of_the_file_are_taken(flows: FlowFolder) -> None:
    limits = {task.name: (task.retries, task.timeout_sec) for task in flows.resolve("prices_twice").tasks}
    assert limits["fetch"] == (1, 10)


def test_a_step_is_not_called_again(flows: FlowFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = flows.resolve("payment")
    first = FlowUnderTest(flow)
    assert output(first.execute(), "pay") == "charge-1"
    monkeypatch.delattr(sys.modules["payment"], "charge")
    outcome = FlowUnderTest(flow).execute({}, first.written, attempt=2)
    assert output(outcome, "pay") == "charge-1"


def test_an_async_task_runs(flows: FlowFolder) -> None:
    assert output(FlowUnderTest(flows.resolve("quote")).execute(), "offer") == 450.0
