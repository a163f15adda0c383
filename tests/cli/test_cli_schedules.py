"""`pyoco-client schedules`: tables, JSON, and a file that is applied."""

from pathlib import Path

import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import ClientCommand
from tests.support.waiting import LIMIT_SEC

CRON = ("--cron", "30 2 * * *", "--timezone", "Asia/Tokyo")


def create(client: ClientCommand, schedule_id: str, *words: str) -> None:
    client.json("schedules", "create", schedule_id, "--flow-name", "chain", *(words or CRON))


def test_a_schedule_is_created_changed_and_shown(client: ClientCommand, http: PyocoHttpClient) -> None:
    create(client, "shown", *CRON, "--param", "x=4", "--tags", "a,b", "--overlap", "buffer_one")
    stored = http.get_schedule("shown")
    assert (stored["params"], stored["tags"], stored["overlap"]) == ({"x": 4}, ["a", "b"], "buffer_one")
    shown = client.table("schedules", "get", "shown")
    assert "cron 30 2 * * * (Asia/Tokyo)" in shown
    assert "T02:30:00+09:00" in shown
    changed = client.json("schedules", "update", "shown", "--every", "2h", "--cron", "@daily", "--note", "n")
    assert (changed["spec"]["every_sec"], changed["spec"]["cron"]) == (7200.0, ["@daily"])
    assert (changed["spec"]["timezone"], changed["params"], changed["note"]) == ("Asia/Tokyo", {"x": 4}, "n")
    stale = client("schedules", "update", "shown", "--note", "m", "--revision", "1")
    assert stale.returncode == 1
    assert "ERR-PYOCO-0048" in stale.stderr
    assert client.json("schedules", "delete", "shown") == {"schedule_id": "shown", "deleted": True}
    assert "ERR-PYOCO-0047" in client("schedules", "get", "shown").stderr


def test_schedules_are_listed(client: ClientCommand) -> None:
    create(client, "listed-1")
    create(client, "listed-2", "--every", "30m", "--paused")
    rows = client.table("schedules", "list", "--search", "listed").splitlines()
    assert [row.split()[0] for row in rows] == ["Schedule", "listed-1", "listed-2"]
    assert "every 30m (UTC)" in rows[2]
    assert "paused" in rows[2]
    found = client.json("schedules", "list", "--search", "listed", "--active")
    assert [each["schedule_id"] for each in found] == ["listed-1"]
    assert client.json("schedules", "list", "--search", "listed", "--paused", "--all")[0]["paused"] is True


def test_a_trigger_a_pause_and_the_next_times(client: ClientCommand, http: PyocoHttpClient) -> None:
    create(client, "worked", *CRON, "--param", "x=1")
    run_id = client.json("schedules", "trigger", "worked", "--param", "x=5")["run_id"]
    run = http.wait(run_id, LIMIT_SEC)
    assert (run["status"], run["params"]) == ("COMPLETED", {"x": 5})
    assert run_id in client.table("schedules", "get", "worked")
    paused = client.json("schedules", "pause", "worked", "--note", "the disk is full")
    assert (paused["paused"], paused["note"]) == (True, "the disk is full")
    assert client.json("schedules", "resume", "worked")["paused"] is False
    times = client.json("schedules", "next", "worked", "-n", "3")["times"]
    assert len(times) == 3
    assert client.table("schedules", "next", "worked", "-n", "1").startswith(times[0])


def test_a_backfill_is_counted_first(client: ClientCommand) -> None:
    create(client, "filled", "--cron", "@hourly")
    period = ("--from", "2026-01-01", "--to", "2026-01-02")
    counted = client.json("schedules", "backfill", "filled", *period, "--dry-run")
    assert (counted["count"], counted["dry_run"]) == (24, True)
    shown = client.table("schedules", "backfill", "filled", *period, "--dry-run")
    assert "24 (dry run: none is started)" in shown
    client.json("schedules", "delete", "filled")


def test_a_backfill_is_listed_and_cancelled(client: ClientCommand) -> None:
    create(client, "mistaken", "--cron", "@hourly", "--tag", "unserved")
    period = ("--from", "2026-01-01", "--to", "2026-01-02")
    backfill_id = client.json("schedules", "backfill", "mistaken", *period)["backfill_id"]
    assert backfill_id in client.table("schedules", "backfills", "mistaken")
    [listed] = client.json("schedules", "backfills", "mistaken")
    assert (listed["backfill_id"], listed["count"]) == (backfill_id, 24)
    shown = client.table("schedules", "cancel-backfill", "mistaken", backfill_id)
    assert "(these runs stay)" in shown
    assert "pyoco-client bulk cancel --cause schedule:mistaken --dry-run" in shown
    again = client("schedules", "cancel-backfill", "mistaken", backfill_id)
    assert again.returncode == 1
    assert "ERR-PYOCO-0052" in again.stderr
    client.json("schedules", "delete", "mistaken")


def test_a_file_is_applied(client: ClientCommand, http: PyocoHttpClient, tmp_path: Path) -> None:
    file = tmp_path / "schedules.yaml"
    file.write_text(
        "schedules:\n"
        "  - {schedule_id: applied-1, flow_name: chain, spec: {cron: '@daily'}}\n"
        "  - {schedule_id: applied-2, flow_name: chain, spec: {every_sec: 3600}}\n"
    )
    apply = ("schedules", "apply", "-f", str(file))
    shown = client.table(*apply, "--dry-run")
    assert "+ applied-1  chain, cron @daily (UTC)" in shown
    assert "Dry run, nothing is changed: 2 added, 0 changed, 0 removed, 0 unchanged." in shown
    assert http.list_schedules(q="applied")["items"] == []
    assert client.json(*apply)["added"] == ["applied-1", "applied-2"]
    file.write_text(
        "schedules:\n  - {schedule_id: applied-1, flow_name: chain, spec: {cron: '@daily'}, params: {x: 2}}\n"
    )
    shown = client.table(*apply)
    assert "~ applied-1\n    params.x: (none) -> 2\n" in shown
    assert client.json(*apply) == {
        "dry_run": False,
        "added": [],
        "changed": [],
        "removed": [],
        "unchanged": ["applied-1"],
    }
    assert "applied-2" in client.json(*apply, "--prune", "--dry-run")["removed"]
    assert [each["schedule_id"] for each in http.iter_schedules(q="applied")] == ["applied-1", "applied-2"]


def test_a_broken_file_names_every_problem_and_changes_nothing(
    client: ClientCommand, http: PyocoHttpClient, tmp_path: Path
) -> None:
    file = tmp_path / "schedules.yaml"
    file.write_text(
        "schedules:\n"
        "  - {schedule_id: broken-1, flow_name: chain, spec: {cron: '@daily'}}\n"
        "  - {schedule_id: broken-2, flow_name: chain, spec: {cron: '61 * * * *', timezone: Asia/Tokio}}\n"
    )
    done = client("schedules", "apply", "-f", str(file))
    assert done.returncode == 1
    assert 'schedules[1].spec.cron[0]="61 * * * *"' in done.stderr
    assert 'schedules[1].spec.timezone="Asia/Tokio"' in done.stderr
    assert http.list_schedules(q="broken")["items"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("create", "a", "--flow-name", "chain"), "say when it runs: --cron, --every or --at"),
        (("update", "a"), "say what changes"),
        (("create", "a.b", "--flow-name", "chain", *CRON), "'a.b': expected 1 to 64 letters"),
        (("trigger", "a", "--overlap", "no"), "expected one of skip, buffer_one"),
        (("create", "a", "--flow-name", "chain", "--every", "soon"), "expected a duration such as"),
        (("apply", "-f", "no.yaml"), "no.yaml"),
    ],
)
def test_a_usage_error_says_what_is_expected(
    client: ClientCommand, words: tuple[str, ...], says: str
) -> None:
    done = client("schedules", *words)
    assert done.returncode == 1
    assert says in done.stderr
