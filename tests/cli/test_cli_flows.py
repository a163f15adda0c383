"""`pyoco-client flows list`, `get` and `run`, and what a shell completes of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_server.http_client import PyocoHttpClient, PyocoHttpError
from tests.support.commands import ClientCommand, call_client
from tests.support.programs import WORKER, running
from tests.support.running.gateway import gateway_beside
from tests.support.waiting import eventually_sync

ORDERS = '''"""Imports orders.

Every night.
"""
from typing import Literal, Optional
from pyoco import task
from pyoco.core.models import Flow

@task
def load(code: str, count: int = 1, mode: Literal["full", "delta"] = "full", note: Optional[str] = None):
    """Reads them."""
    return [code, count, mode, note]

orders = Flow("orders") >> load
'''


@pytest.fixture(scope="module")
def shared_nats_url(_unused_accounts: Iterator[str]) -> str:
    """Another account than other commands use: these tests list all flows."""
    return next(_unused_accounts)


@pytest.fixture(scope="module")
def server(shared_nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("flows")
    (folder / "flows").mkdir()
    (folder / "flows" / "order_flows.py").write_text(ORDERS)
    with (
        gateway_beside(shared_nats_url, folder) as url,
        running(WORKER, "--flows", "flows", "--nats-url", shared_nats_url, cwd=folder),
        PyocoHttpClient(url) as http,
    ):
        eventually_sync(lambda: bool(http.list_flows()["flows"]), describe="the flows are known")
        eventually_sync(lambda: http.health()["index"]["ready"], describe="the index is ready")
        yield url


@pytest.fixture(scope="module")
def client(server: str) -> ClientCommand:
    return ClientCommand(server)


def test_flows_are_listed(client: ClientCommand) -> None:
    [flow] = client.json("flows", "list", "--search", "IMPORTS")
    assert (flow["name"], flow["workers"]) == ("orders", 1)
    assert client.json("flows", "list", "--tag", "gpu") == []
    table = client.table("flows", "list", columns=160)
    assert "orders" in table
    assert "Imports orders." in table


def test_a_flow_is_shown_with_what_it_takes(client: ClientCommand) -> None:
    shown = client.table("flows", "get", "orders", columns=160)
    for text in ('"full" | "delta"', "(required)", "string | null", "Reads them.", "order_flows.py"):
        assert text in shown
    failed = client("flows", "get", "order")
    assert failed.returncode == 1
    assert "did you mean 'orders'?" in failed.stderr


def test_a_flow_is_run_with_values_of_its_types(client: ClientCommand) -> None:
    words = ("--param", "code=007", "--param", "count=2", "--param", "note=null")
    run = client.json("flows", "run", "orders", *words, "--wait")
    assert run["status"] == "COMPLETED"
    assert run["params"] == {"code": "007", "count": 2, "note": None}


def test_a_typo_is_refused_before_a_run_exists(client: ClientCommand, server: str) -> None:
    for words, says in {
        ("oders", "--param", "code=1"): "did you mean 'orders'?",
        ("orders", "--param", "cod=1"): "params.cod",
        ("orders",): "params.code: this is missing",
        ("orders", "--param", "code=1", "--param", "mode=most"): "params.mode",
    }.items():
        failed = client("flows", "run", *words)
        assert failed.returncode == 1, failed.stdout
        assert says in failed.stderr
    with PyocoHttpClient(server) as http:
        assert "oders" not in [run["flow_name"] for run in http.list_runs()]


def test_no_check_submits_with_a_warning(client: ClientCommand) -> None:
    done = client("flows", "run", "not-there", "--no-check", "--tag", "nobody")
    assert done.returncode == 0
    assert "Warning: no live worker has the tag 'nobody'" in done.stderr


def test_submit_warns_and_refuses_with_strict(client: ClientCommand) -> None:
    words = ("submit", "--flow-name", "orders", "--param", "code=a", "--param", "mode=most")
    assert "Warning: params.mode: expected one of" in client(*words).stderr
    assert client(*words, "--strict").returncode == 1


def test_the_clients_check_as_well(server: str) -> None:
    with PyocoHttpClient(server) as http:
        assert "orders" in [flow["name"] for flow in http.iter_flows(page_size=1)]
        assert http.get_flow("orders")["tasks"][0]["name"] == "load"
        with pytest.raises(PyocoHttpError) as refused:
            http.submit_run("orders", {"code": 1}, strict=True)
        assert refused.value.status == 422


def offered(server: str, line: str) -> list[str]:
    done = call_client(
        _PYOCO_CLIENT_COMPLETE="complete_bash",
        COMP_WORDS=line,
        COMP_CWORD=str(len(line.split(" ")) - 1),
        PYOCO_SERVER=server,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pyoco-client flows run ", ["orders"]),
        ("pyoco-client flows get or", ["orders"]),
        ("pyoco-client submit --flow-name o", ["orders"]),
        ("pyoco-client flows run orders --param ", ["code=", "count=", "mode=", "note="]),
        ("pyoco-client flows run orders --param code=1 --param m", ["mode="]),
        ("pyoco-client flows run orders --param mode=", ["mode=full", "mode=delta"]),
        ("pyoco-client flows run unknown --param ", []),
    ],
)
def test_names_and_params_are_completed(server: str, line: str, words: list[str]) -> None:
    found = offered(server, line)
    assert [word for word in found if word in words] == words
    # Runs of other tests leave names of flows.
    assert all(word.startswith(line.rsplit(" ", maxsplit=1)[-1]) for word in found)


def test_without_a_gateway_nothing_is_completed() -> None:
    assert offered("http://127.0.0.1:9", "pyoco-client flows run ") == []
