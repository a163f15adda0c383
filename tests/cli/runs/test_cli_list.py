"""`pyoco-client list` and `list-vnext`: filters, pages, JSON and tables."""

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import ClientCommand
from tests.support.http_stub import answer, stub
from tests.support.running.gateway import gateway_beside
from tests.support.waiting import eventually_sync


@pytest.fixture(scope="module")
def client(
    _unused_accounts: Iterator[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClientCommand]:
    """For a gateway with five runs that no worker executes, one of them cancelled."""
    folder = tmp_path_factory.mktemp("list")
    with gateway_beside(next(_unused_accounts), folder) as url, PyocoHttpClient(url) as http:
        eventually_sync(lambda: http.health()["index"]["ready"], describe="the index is ready")
        for number in range(4):
            http.submit_run("nightly", {"number": number}, tag="nobody", tags=["batch"])
        run_id = http.submit_run("hourly", {"secret": "needle"}, tag="other")["run_id"]
        http.cancel_run(run_id)
        http.wait(run_id, 20)
        yield ClientCommand(url)


def test_runs_are_listed_as_an_array_the_last_changed_first(client: ClientCommand) -> None:
    runs = client.json("list")
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
        (("--cause", "api"), 5),
        (("--cause", "schedule:nightly"), 0),
        (("--origin", "00000000-0000-4000-8000-000000000000"), 0),
        (("--workflow-yaml-sha256", "0" * 64), 0),
        (("--updated-after", "1h"), 5),
        (("--updated-before", "1h"), 0),
        (("--submitted-after", "2020-01-01"), 5),
        (("--submitted-before", "1577836800"), 0),
        (("--limit", "2"), 2),
        # More than a page may have.
        (("--limit", "1000"), 5),
        (("--all",), 5),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_each_filter_is_an_option(client: ClientCommand, options: tuple[str, ...], count: int) -> None:
    assert len(client.json("list", *options)) == count


def test_the_order_is_an_option(client: ClientCommand) -> None:
    runs = client.json("list", "--sort", "submitted_at", "--order", "asc", "--full")
    assert [run["params"].get("number") for run in runs] == [0, 1, 2, 3, None]


@pytest.mark.parametrize(
    ("options", "sort"),
    [
        (("--all",), "submitted_at"),
        (("--all", "--sort", "duration"), "duration"),
        (("--limit", "1000"), "updated_at"),
    ],
)
def test_all_pages_are_read_in_an_order_that_writes_do_not_change(
    options: tuple[str, ...], sort: str
) -> None:
    with stub([answer(items=[], next_cursor=None)]) as (url, seen):
        assert ClientCommand(url).json("list", *options) == []
    [request] = seen
    assert parse_qs(urlsplit(request[":path"]).query)["sort"] == [sort]


def test_the_cursor_of_a_page_leads_to_the_next(client: ClientCommand) -> None:
    words = ("list-vnext", "--flow", "nightly", "--limit", "3")
    first = client.json(*words, "--total")
    assert (len(first["items"]), first["total"]) == (3, 4)
    second = client.json(*words, "--cursor", first["next_cursor"])
    assert (len(second["items"]), second["next_cursor"]) == (1, None)
    assert not {run["run_id"] for run in first["items"]} & {run["run_id"] for run in second["items"]}


def test_the_total_and_the_cursor_are_printed_beside_the_table(client: ClientCommand) -> None:
    done = client("list-vnext", "--limit", "3", "--total", "--output", "table")
    assert len(done.stdout.splitlines()) == 4
    assert "5 runs match." in done.stderr
    assert "More with --cursor " in done.stderr


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_a_table_never_cuts_an_id(client: ClientCommand, columns: int) -> None:
    table = client.table("list", columns=columns)
    assert all(run["run_id"] in table for run in client.json("list"))
    assert "CANCELLED" in table
    assert ("Tag" in table) == (columns >= 120)


def test_an_empty_list_is_no_error(client: ClientCommand) -> None:
    assert client.json("list", "--flow", "none") == []
    assert client.table("list", "--flow", "none") == "(none)\n"


def test_an_error_of_the_gateway_names_field_and_value(client: ClientCommand) -> None:
    error = client.error("list-vnext", "--cursor", "nonsense")
    assert "ERR-PYOCO-0017" in error
    assert "cursor='nonsense'" in error


def test_views_are_saved_listed_used_and_deleted(client: ClientCommand) -> None:
    options = ("--flow", "nightly", "--since", "24h", "--sort", "duration")
    saved = client.json("views", "save", "Nightly ones", *options)
    assert (saved["filter"]["flow"], saved["sort"], saved["revision"] > 0) == ("nightly", "duration", True)
    assert len(client.json("list", "--view", "Nightly ones")) == 4
    # Options replace those of the view.
    [run] = client.json("list", "--view", "Nightly ones", "--flow", "hourly")
    assert run["flow_name"] == "hourly"
    assert [view["name"] for view in client.json("views", "list")] == ["Nightly ones"]
    renamed = client.json("views", "save", "Nightly ones", "--rename", "Nights")
    assert (renamed["name"], renamed["filter"], renamed["sort"]) == ("Nights", saved["filter"], "duration")
    shown = client.table("views", "show", "Nights")
    assert "flow=nightly since=24h" in shown
    assert "duration desc" in shown
    assert "ERR-PYOCO-0078" in client.error("views", "delete", "Nights", "--revision", "1")
    assert client.json("views", "delete", "Nights") == {"name": "Nights", "deleted": True}
    assert "ERR-PYOCO-0077" in client.error("list", "--view", "Nights")
    assert "without / or" in client.error("views", "show", "a/b")
