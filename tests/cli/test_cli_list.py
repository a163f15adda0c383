"""`pyoco-client list` and `list-vnext`: filters, pages, and both forms of output."""

import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pyoco_server.cli.options.time_formats import ago, duration, parse_time
from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import call_client
from tests.support.http_stub import answer, stub
from tests.support.programs import CLIENT, run_command
from tests.support.running.gateway import gateway_beside
from tests.support.waiting import eventually_sync


@pytest.fixture(scope="module")
def server(_unused_accounts: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway with five runs that nobody executes, one of them cancelled."""
    folder = tmp_path_factory.mktemp("list")
    with (
        gateway_beside(next(_unused_accounts), folder) as url,
        PyocoHttpClient(url) as client,
    ):
        eventually_sync(lambda: client.health()["index"]["ready"], describe="the index is ready")
        for number in range(4):
            client.submit_run("nightly", {"number": number}, tag="nobody", tags=["batch"])
        run_id = client.submit_run("hourly", {"secret": "needle"}, tag="other")["run_id"]
        client.cancel_run(run_id)
        client.wait(run_id, 20)
        yield url


def client(server: str, *arguments: str, columns: str = "80") -> subprocess.CompletedProcess[str]:
    return call_client(*arguments, PYOCO_SERVER=server, COLUMNS=columns)


def listed(server: str, *arguments: str) -> list[dict[str, Any]]:
    done = client(server, "list", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    runs: list[dict[str, Any]] = json.loads(done.stdout)
    return runs


def test_a_script_gets_an_array_the_last_changed_first(server: str) -> None:
    done = run_command(CLIENT, "list", PYOCO_SERVER=server)
    assert (done.returncode, done.stderr) == (0, "")
    runs = json.loads(done.stdout)
    assert [run["flow_name"] for run in runs] == ["hourly", *["nightly"] * 4]
    assert {"run_id", "status", "updated_at"} <= set(runs[0])


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (("--status", "CANCELLED"), 1),
        (("--status", "cancelled", "--status", "Pending"), 5),
        (("--flow", "nightly"), 4),
        (("--tag", "batch"), 4),
        (("--tag", "other", "--flow", "nightly"), 0),
        (("--worker", "w1"), 0),
        (("--search", "NEEDLE"), 1),
        (("--origin", "00000000-0000-4000-8000-000000000000"), 0),
        (("--workflow-yaml-sha256", "0" * 64), 0),
        (("--updated-after", "1h"), 5),
        (("--updated-before", "1h"), 0),
        (("--submitted-after", "2020-01-01"), 5),
        (("--submitted-before", "1577836800"), 0),
        (("--limit", "2"), 2),
        (("--all",), 5),
    ],
)
def test_each_filter_is_an_option(server: str, options: tuple[str, ...], count: int) -> None:
    assert len(listed(server, *options)) == count


def test_the_order_is_chosen(server: str) -> None:
    numbers = [
        run["params"].get("number")
        for run in listed(server, "--sort", "submitted_at", "--order", "asc", "--full")
    ]
    assert numbers == [0, 1, 2, 3, None]


@pytest.mark.parametrize(
    ("options", "sort"),
    [
        (("--all",), "submitted_at"),
        (("--all", "--sort", "duration"), "duration"),
        (("--limit", "1000"), "updated_at"),
    ],
)
def test_all_of_them_come_in_an_order_that_writes_do_not_change(options: tuple[str, ...], sort: str) -> None:
    with stub([answer(items=[], next_cursor=None)]) as (url, seen):
        assert listed(url, *options) == []
    [asked] = seen
    assert parse_qs(urlsplit(asked[":path"]).query)["sort"] == [sort]


def test_a_limit_over_the_page_size_follows_the_pages(server: str) -> None:
    assert len(listed(server, "--limit", "1000")) == 5


def test_a_page_has_a_cursor_that_leads_to_the_next(server: str) -> None:
    words = ("list-vnext", "--flow", "nightly", "--limit", "3")
    first = json.loads(client(server, *words, "--total").stdout)
    assert (len(first["items"]), first["total"]) == (3, 4)
    second = json.loads(client(server, *words, "--cursor", first["next_cursor"]).stdout)
    assert (len(second["items"]), second["next_cursor"]) == (1, None)
    assert not {run["run_id"] for run in first["items"]} & {run["run_id"] for run in second["items"]}


def test_a_table_of_a_page_tells_the_total_and_the_cursor_beside_it(server: str) -> None:
    done = client(server, "list-vnext", "--limit", "3", "--total", "--output", "table")
    assert len(done.stdout.splitlines()) == 4
    assert "5 runs match." in done.stderr
    assert "More with --cursor " in done.stderr


@pytest.mark.parametrize("columns", ["80", "120", "200"])
def test_a_table_never_cuts_an_id(server: str, columns: str) -> None:
    ids = [run["run_id"] for run in listed(server)]
    table = client(server, "list", "--output", "table", columns=columns).stdout
    assert all(run_id in table for run_id in ids)
    assert "CANCELLED" in table
    assert ("Tag" in table) == (int(columns) >= 120)


def test_nothing_found_is_no_error(server: str) -> None:
    assert listed(server, "--flow", "none") == []
    done = client(server, "list", "--flow", "none", "--output", "table")
    assert (done.returncode, done.stdout) == (0, "(none)\n")


def test_what_the_gateway_refuses_is_told_with_field_value_and_cure(server: str) -> None:
    done = client(server, "list-vnext", "--cursor", "nonsense")
    assert (done.returncode, done.stdout) == (1, "")
    assert "ERR-PYOCO-0017" in done.stderr
    assert "cursor='nonsense'" in done.stderr


@pytest.mark.parametrize(("text", "seconds_ago"), [("90s", 90), ("1.5m", 90), ("2h", 7200), ("7d", 604800)])
def test_an_age_is_a_parse_time(text: str, seconds_ago: float) -> None:
    before = time.time()
    assert before <= parse_time(text) + seconds_ago <= time.time()


def test_a_moment_has_other_forms() -> None:
    assert parse_time("1577836800") == 1577836800
    assert parse_time("2020-01-01T00:00:00+00:00") == 1577836800
    assert parse_time("2020-01-01T00:00Z") == 1577836800


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s ago"), (119, "119s ago"), (120, "2m ago"), (7200, "2h ago"), (864000, "10d ago")],
)
def test_a_moment_is_shown_as_an_age(seconds: float, text: str) -> None:
    assert ago(1000.0, now=1000.0 + seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.0123, "12 ms"), (1.25, "1.2 s"), (59.9, "59.9 s"), (61, "1:01 min"), (3725, "1:02:05 h")],
)
def test_a_duration_has_the_unit_that_fits(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text
