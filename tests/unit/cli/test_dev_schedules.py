"""The schedules.yaml of `pyoco-server dev`: applied when it changes, reported when it is broken."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pyoco_server.cli.server.dev_schedules import DevSchedules
from pyoco_server.http_client import GatewayUnreachable, PyocoHttpClient
from pyoco_server.schedules.schedules_yaml import is_schedules_yaml
from tests.support.schedule_client import ScheduleClient

NIGHTLY = "  - {schedule_id: nightly, flow_name: etl, spec: {cron: '0 2 * * *'}}\n"
POLL = "  - {schedule_id: poll, flow_name: poll, spec: {every_sec: 30}}\n"


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.client = ScheduleClient()
        self.events: list[str] = []
        self.connect: Callable[[], PyocoHttpClient] = lambda: self.client.as_client
        self.schedules = self.started()

    def started(self) -> DevSchedules:
        return DevSchedules(
            self.path,
            self.path / "data" / "applied.json",
            client=self._connected,
            on_event=self.events.append,
        )

    def _connected(self) -> PyocoHttpClient:
        return self.connect()

    def write(self, *entries: str) -> None:
        self.file.write_text("schedules:\n" + "".join(entries))

    @property
    def file(self) -> Path:
        return self.path / "schedules.yaml"

    async def look(self) -> list[str]:
        """What is reported."""
        await self.schedules.look()
        reported, self.events[:] = list(self.events), []
        return reported


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


async def test_the_file_is_applied_when_it_changes(folder: Folder) -> None:
    assert await folder.look() == []
    folder.write(NIGHTLY)
    assert await folder.look() == ["schedules.yaml: 1 added, 0 changed, 0 removed, 0 unchanged."]
    assert await folder.look() == []
    folder.write(NIGHTLY.replace("0 2", "30 2"), POLL)
    assert await folder.look() == ["schedules.yaml: 1 added, 1 changed, 0 removed, 0 unchanged."]
    assert folder.schedules.applied == ["nightly", "poll"]


async def test_what_is_taken_out_of_the_file_is_deleted_and_nothing_else(folder: Folder) -> None:
    folder.client.put(schedule_id="by-hand", flow_name="a", spec={"every_sec": 60})
    folder.write(NIGHTLY, POLL)
    await folder.look()
    folder.write(POLL)
    # Also when this happened while it was stopped.
    folder.schedules = folder.started()
    assert await folder.look() == ["schedules.yaml: 0 added, 0 changed, 1 removed, 1 unchanged."]
    assert sorted(folder.client.stored) == ["by-hand", "poll"]


async def test_a_removed_file_is_missed_twice_before_its_schedules_are_deleted(folder: Folder) -> None:
    folder.write(NIGHTLY)
    await folder.look()
    folder.file.unlink()
    assert await folder.look() == []
    assert list(folder.client.stored) == ["nightly"]
    assert await folder.look() == ["schedules.yaml: 0 added, 0 changed, 1 removed, 0 unchanged."]
    assert folder.client.stored == {}


async def test_an_emptied_file_deletes_nothing(folder: Folder) -> None:
    folder.write(NIGHTLY)
    await folder.look()
    # As an editor does before it writes.
    folder.file.write_text("")
    [report] = await folder.look()
    assert "the file is empty" in report
    assert list(folder.client.stored) == ["nightly"]
    folder.file.write_text("schedules: []")
    assert await folder.look() == ["schedules.yaml: 0 added, 0 changed, 1 removed, 0 unchanged."]


async def test_a_broken_file_is_reported_once_and_changes_nothing(folder: Folder) -> None:
    folder.write(NIGHTLY)
    await folder.look()
    folder.write(POLL, "  - {schedule_id: bad, flow_name: a, spec: {cron: '* *'}}\n")
    [report] = await folder.look()
    assert report.startswith('schedules.yaml is not applied: schedules[1].spec.cron[0]="* *": ')
    assert await folder.look() == []
    assert list(folder.client.stored) == ["nightly"]


async def test_a_gateway_that_is_away_is_asked_again(folder: Folder) -> None:
    def unreachable() -> PyocoHttpClient:
        raise GatewayUnreachable("restarting")

    folder.write(NIGHTLY)
    there, folder.connect = folder.connect, unreachable
    assert await folder.look() == []
    folder.connect = there
    assert await folder.look() == ["schedules.yaml: 1 added, 0 changed, 0 removed, 0 unchanged."]


async def test_a_changed_flow_yaml_is_applied(folder: Folder) -> None:
    flow = folder.path / "flow.yaml"
    flow.write_text("version: 1\nflow: {graph: a}\ntasks: {a: {callable: 'm:a'}}\n")
    folder.write("  - {schedule_id: y, flow_name: y, workflow_file: flow.yaml, spec: {every_sec: 60}}\n")
    await folder.look()
    flow.write_text("version: 1\nflow: {graph: b}\ntasks: {b: {callable: 'm:bee'}}\n")
    assert await folder.look() == ["schedules.yaml: 0 added, 1 changed, 0 removed, 0 unchanged."]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("schedules.yaml", "schedules: []\n", True),
        ("schedules.yaml", "schedules: [\n", True),
        ("schedules.yaml", "version: 1\nflow: {graph: a}\n", False),
        ("other.yaml", "schedules: []\n", False),
    ],
)
def test_a_flow_may_have_the_name_of_the_file(tmp_path: Path, name: str, text: str, expected: bool) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert is_schedules_yaml(file) is expected
