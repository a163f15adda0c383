"""Applying a schedules.yaml: the difference, what is sent, and others who write at the same time."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pyoco_server.cli.commands.schedules.schedule_apply import (
    Applied,
    apply_schedules,
    summary,
    undeclared_ids,
)
from pyoco_server.cli.commands.schedules.schedule_diff import FieldChange
from pyoco_server.cli.commands.schedules.schedule_file import FileSchedule, read_schedule_file
from pyoco_server.cli.views.schedule_views import applied_view
from pyoco_server.errors.error_table import Err
from pyoco_server.http_client import PyocoHttpError
from tests.support.schedule_client import ScheduleClient, refused

NIGHTLY = "schedule_id: nightly, flow_name: etl, spec: {cron: '0 2 * * *'}"


@pytest.fixture
def client() -> ScheduleClient:
    return ScheduleClient()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def entries(folder: Path, *flow_mappings: str) -> list[FileSchedule]:
    file = folder / "schedules.yaml"
    file.write_text("schedules:\n" + "".join(f"  - {{{each}}}\n" for each in flow_mappings))
    return read_schedule_file(file).schedules


def applied(client: ScheduleClient, declared: list[FileSchedule], **options: Any) -> list[Applied]:
    given = {"removed": set(), "dry_run": False, **options}
    return apply_schedules(client.as_client, declared, **given)


def test_a_new_schedule_is_created_and_then_unchanged(client: ScheduleClient, folder: Path) -> None:
    declared = entries(folder, NIGHTLY)
    assert [each.action for each in applied(client, declared)] == ["added"]
    assert client.stored["nightly"]["spec"] == {"cron": ["0 2 * * *"]}
    assert [each.action for each in applied(client, declared)] == ["unchanged"]
    assert client.writes == ["create nightly"]


@pytest.mark.parametrize(
    ("more", "changes"),
    [
        ("params: {region: eu}", [FieldChange("params.region", None, "eu")]),
        ("overlap: buffer_one", [FieldChange("overlap", "skip", "buffer_one")]),
        ("tags: [a, b]", [FieldChange("tags", [], ["a", "b"])]),
        ("timeout_sec: 60", [FieldChange("timeout_sec", None, 60.0)]),
        ("paused: true", [FieldChange("paused", False, True)]),
        ("tag: gpu", [FieldChange("tag", "default", "gpu")]),
        # They count down: only the creation uses them.
        ("remaining_runs: 5", []),
    ],
)
def test_a_change_is_shown_field_by_field(
    client: ScheduleClient, folder: Path, more: str, changes: list[FieldChange]
) -> None:
    applied(client, entries(folder, NIGHTLY))
    declared = entries(folder, f"{NIGHTLY}, {more}")
    [done] = applied(client, declared)
    assert list(done.changes) == changes
    assert [each.action for each in applied(client, declared)] == ["unchanged"]


def test_a_changed_spec_sends_what_differs(client: ScheduleClient, folder: Path) -> None:
    applied(client, entries(folder, "schedule_id: a, flow_name: a, spec: {cron: '@daily', jitter_sec: 5}"))
    spec = "{cron: '@hourly', timezone: Asia/Tokyo, end_at: 2030-01-01}"
    [done] = applied(client, entries(folder, f"schedule_id: a, flow_name: a, spec: {spec}"))
    assert list(done.changes) == [
        FieldChange("spec.cron", ["@daily"], ["@hourly"]),
        FieldChange("spec.timezone", "UTC", "Asia/Tokyo"),
        FieldChange("spec.end_at", None, "2030-01-01T00:00:00+09:00"),
        FieldChange("spec.jitter_sec", 5.0, 0.0),
    ]
    assert client.stored["a"]["revision"] == 2


def test_a_field_that_is_taken_out_of_the_file_has_its_default_again(
    client: ScheduleClient, folder: Path
) -> None:
    applied(client, entries(folder, f"{NIGHTLY}, params: {{a: 1, b: 2}}, overlap: allow_all"))
    [done] = applied(client, entries(folder, f"{NIGHTLY}, params: {{b: 2}}"))
    assert list(done.changes) == [
        FieldChange("params.a", 1, None),
        FieldChange("overlap", "allow_all", "skip"),
    ]


def test_a_pause_by_hand_stays(client: ScheduleClient, folder: Path) -> None:
    applied(client, entries(folder, NIGHTLY))
    client.stored["nightly"] |= {"paused": True, "note": "the disk is full", "tag": "spare"}
    assert [each.action for each in applied(client, entries(folder, NIGHTLY))] == ["unchanged"]


def test_a_moment_that_is_over_is_no_change(client: ScheduleClient, folder: Path) -> None:
    once = "schedule_id: once, flow_name: a, spec: {at: 2020-01-31T09:00:00, timezone: Europe/Berlin}"
    client.put(schedule_id="once", flow_name="a", spec={"at": [1580457600], "timezone": "Europe/Berlin"})
    assert [each.action for each in applied(client, entries(folder, once))] == ["unchanged"]


def test_a_dry_run_changes_nothing(client: ScheduleClient, folder: Path) -> None:
    applied(client, entries(folder, NIGHTLY, "schedule_id: old, flow_name: a, spec: {every_sec: 60}"))
    client.writes.clear()
    declared = entries(folder, f"{NIGHTLY}, overlap: allow_all", NIGHTLY.replace("nightly", "new"))
    done = applied(client, declared, removed=undeclared_ids(client.as_client, declared), dry_run=True)
    assert summary(done) == {
        "added": ["new"],
        "changed": [
            {
                "schedule_id": "nightly",
                "changes": [{"field": "overlap", "before": "skip", "after": "allow_all"}],
            }
        ],
        "removed": ["old"],
        "unchanged": [],
    }
    assert client.writes == []


def test_a_prune_deletes_what_the_file_lacks_of_this_tenant(client: ScheduleClient, folder: Path) -> None:
    client.put(schedule_id="old", flow_name="a", spec={"every_sec": 60})
    declared = entries(folder, NIGHTLY)
    done = applied(client, declared, removed=undeclared_ids(client.as_client, declared))
    assert [(each.schedule_id, each.action) for each in done] == [("nightly", "added"), ("old", "removed")]
    assert list(client.stored) == ["nightly"]


def test_two_that_create_the_same_schedule_agree(client: ScheduleClient, folder: Path) -> None:
    declared = entries(folder, NIGHTLY)
    client.meanwhile = lambda: applied(client, declared)
    assert [each.action for each in applied(client, declared)] == ["unchanged"]
    assert client.writes == ["create nightly"]


def test_two_that_change_the_same_schedule_agree(client: ScheduleClient, folder: Path) -> None:
    applied(client, entries(folder, NIGHTLY))
    declared = entries(folder, f"{NIGHTLY}, overlap: allow_all")
    client.meanwhile = lambda: applied(client, declared)
    assert [each.action for each in applied(client, declared)] == ["unchanged"]
    assert client.writes == ["create nightly", "update nightly"]


def test_a_schedule_that_is_deleted_meanwhile_is_created_again(client: ScheduleClient, folder: Path) -> None:
    applied(client, entries(folder, NIGHTLY))
    client.meanwhile = lambda: client.delete_schedule("nightly")
    declared = entries(folder, f"{NIGHTLY}, overlap: allow_all")
    assert [each.action for each in applied(client, declared)] == ["added"]


def test_another_error_is_raised(client: ScheduleClient, folder: Path) -> None:
    class Refusing(ScheduleClient):
        def create_schedule(self, *_: Any, **__: Any) -> None:
            raise refused(Err.SCOPE_MISSING)

    with pytest.raises(PyocoHttpError, match="ERR-PYOCO-0032"):
        applied(Refusing(), entries(folder, NIGHTLY))


def test_the_difference_reads_as_people_know_it(client: ScheduleClient, folder: Path) -> None:
    applied(client, entries(folder, NIGHTLY, "schedule_id: weekly, flow_name: w, spec: {cron: '@weekly'}"))
    client.put(schedule_id="old", flow_name="a", spec={"every_sec": 60})
    changed = NIGHTLY.replace("0 2", "30 2")
    declared = entries(
        folder,
        f"{changed}, params: {{region: eu}}",
        "schedule_id: weekly, flow_name: w, spec: {cron: '@weekly'}",
        "schedule_id: poll, flow_name: poll, spec: {every_sec: 90, timezone: Asia/Tokyo}",
    )
    done = applied(client, declared, removed=undeclared_ids(client.as_client, declared), dry_run=True)
    console = Console(width=100)
    with console.capture() as shown:
        console.print(applied_view(done, dry_run=True))
    assert shown.get().splitlines() == [
        "+ poll  poll, every 1m 30s (Asia/Tokyo)",
        "~ nightly",
        '    params.region: (none) -> "eu"',
        '    spec.cron: ["0 2 * * *"] -> ["30 2 * * *"]',
        "- old",
        "= weekly",
        "Dry run, nothing is changed: 1 added, 1 changed, 1 removed, 1 unchanged.",
    ]
