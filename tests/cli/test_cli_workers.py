"""`pyoco-client workers`, `worker` and `metrics`, with real workers."""

import re
import socket
from collections.abc import Iterator

import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import ClientCommand
from tests.support.places import FLOWS
from tests.support.programs import WORKER, Program, running
from tests.support.running.gateway import gateway_beside
from tests.support.waiting import eventually_sync


@pytest.fixture(scope="module")
def shared_nats_url(_unused_accounts: Iterator[str]) -> str:
    """Another account than other commands use: these tests list all workers."""
    return next(_unused_accounts)


@pytest.fixture(scope="module")
def steady(shared_nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A worker of this id."""
    words = ("--flows", str(FLOWS), "--worker-id", "steady", "--tags", "cpu,linux")
    folder = tmp_path_factory.mktemp("steady")
    with running(WORKER, *words, "--nats-url", shared_nats_url, cwd=folder) as (program, _):
        yield program


@pytest.fixture(scope="module")
def client(
    shared_nats_url: str, steady: Program, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClientCommand]:
    folder = tmp_path_factory.mktemp("workers")
    with gateway_beside(shared_nats_url, folder) as url, PyocoHttpClient(url) as http:
        eventually_sync(lambda: http.health()["nats"]["ready"], describe="NATS is ready")
        yield ClientCommand(url)


def test_workers_are_listed(client: ClientCommand) -> None:
    (worker,) = client.json("workers")
    assert (worker["worker_id"], worker["state"], worker["tags"]) == ("steady", "IDLE", ["cpu", "linux"])
    narrow = client.table("workers")
    assert narrow.splitlines()[1].split()[:5] == ["steady", "IDLE", "0/1", "cpu,", "linux"]
    assert "Version" not in narrow
    assert "Memory" in narrow
    wide = client.table("workers", columns=180)
    assert "Version" in wide
    assert socket.gethostname() in wide
    shown = client.table("worker", "--worker-id", "steady", columns=120)
    assert re.search(rf"host +{re.escape(socket.gethostname())}, ", shown)
    assert " started" in shown
    assert "noop" in shown, "the flows of its folder"


def test_workers_are_filtered_by_state(client: ClientCommand) -> None:
    assert client.json("workers", "--state", "disconnected") == []
    assert len(client.json("workers", "--state", "IDLE", "--limit", "1")) == 1
    assert client.table("workers", "--state", "RUNNING") == "(none)\n"


def test_a_worker_is_hidden_and_shown_again(client: ClientCommand) -> None:
    assert client.json("worker", "--worker-id", "steady", "--hide")["hidden"] is True
    assert client.json("workers") == []
    assert len(client.json("workers", "--include-hidden")) == 1
    assert client.json("worker", "--worker-id", "steady", "--unhide")["hidden"] is False


def test_a_paused_worker_executes_nothing_until_it_is_resumed(client: ClientCommand, steady: Program) -> None:
    assert "IDLE paused" in client.table("worker", "--worker-id", "steady", "--pause")
    # The command is stored; a moment later the worker has read it.
    steady.writes("takes no new runs")
    with PyocoHttpClient(client.server) as http:
        run_id = http.submit_run("noop", tag="cpu")["run_id"]
        assert "workers_paused" in client.table("get", "--run-id", run_id)
        assert client.json("worker", "--worker-id", "steady", "--resume")["paused"] is False
        assert http.wait(run_id, 20)["status"] == "COMPLETED"


def test_a_drained_worker_exits(client: ClientCommand, shared_nats_url: str) -> None:
    words = ("--flows", str(FLOWS), "--worker-id", "leaving", "--tag", "leave", "--nats-url", shared_nats_url)
    with running(WORKER, *words) as (program, _):
        client.json("worker", "--worker-id", "leaving", "--drain")
        assert program.end() == 0
    assert [worker["worker_id"] for worker in client.json("workers")] == ["steady"]
    (gone,) = client.json("workers", "--state", "STOPPED_GRACEFUL")
    assert (gone["worker_id"], gone["stop_reason"]) == ("leaving", "drained")


@pytest.mark.parametrize("more", [(), ("--pause",)], ids=["show", "pause"])
def test_an_unknown_worker_is_an_error(client: ClientCommand, more: tuple[str, ...]) -> None:
    assert "ERR-PYOCO-0020" in client.error("worker", "--worker-id", "nobody", *more)


def test_metrics_are_shown_all_or_by_name(client: ClientCommand) -> None:
    with PyocoHttpClient(client.server) as http:
        names = {line.split()[2] for line in http.metrics().splitlines() if line.startswith("# TYPE")}
    shown = client("metrics")
    assert shown.returncode == 0
    assert names <= {line.split()[2] for line in shown.stdout.splitlines() if line.startswith("# TYPE")}
    chosen = client("metrics", "--name", "pyoco_workers_alive_total").stdout.splitlines()
    assert [line.split()[0] for line in chosen] == ["#", "#", "pyoco_workers_alive_total"]
