"""`pyoco-client workers`, `worker` and `metrics`, with real workers."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.support.commands import call_client
from tests.support.places import FLOWS
from tests.support.programs import CLIENT, WORKER, Program, run_command, running
from tests.support.running.gateway import gateway_beside
from tests.support.waiting import eventually_sync


@pytest.fixture(scope="module")
def at_nats(_unused_accounts: Iterator[str]) -> str:
    return next(_unused_accounts)


@pytest.fixture(scope="module")
def steady(at_nats: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    words = ("--flows", str(FLOWS), "--worker-id", "steady", "--tags", "cpu,linux", "--nats-url", at_nats)
    with running(WORKER, *words, cwd=tmp_path_factory.mktemp("steady")) as (program, _):
        yield program


@pytest.fixture(scope="module")
def server(at_nats: str, steady: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("workers")
    with gateway_beside(at_nats, folder) as url, PyocoHttpClient(url) as client:
        eventually_sync(lambda: client.health()["nats"]["ready"], describe="NATS is ready")
        yield url


def client(server: str, *arguments: str, columns: str = "80") -> subprocess.CompletedProcess[str]:
    return call_client(*arguments, PYOCO_SERVER=server, COLUMNS=columns)


def answered(server: str, *arguments: str) -> Any:
    done = client(server, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_workers_are_listed(server: str) -> None:
    (worker,) = answered(server, "workers")
    assert (worker["worker_id"], worker["state"], worker["tags"]) == ("steady", "IDLE", ["cpu", "linux"])
    narrow = client(server, "workers", "--output", "table").stdout
    assert narrow.splitlines()[1].split()[:5] == ["steady", "IDLE", "0/1", "cpu,", "linux"]
    assert "Version" in client(server, "workers", "--output", "table", columns="140").stdout
    assert "Version" not in narrow


def test_states_and_scopes_choose(server: str) -> None:
    assert answered(server, "workers", "--state", "disconnected") == []
    assert len(answered(server, "workers", "--state", "IDLE", "--limit", "1")) == 1
    done = client(server, "workers", "--state", "RUNNING", "--output", "table")
    assert (done.returncode, done.stdout) == (0, "(none)\n")


def test_a_worker_is_hidden_and_shown_again(server: str) -> None:
    assert answered(server, "worker", "--worker-id", "steady", "--hide")["hidden"] is True
    assert answered(server, "workers") == []
    assert len(answered(server, "workers", "--include-hidden")) == 1
    assert answered(server, "worker", "--worker-id", "steady", "--unhide")["hidden"] is False


def test_a_worker_is_paused_and_says_so_until_it_goes_on(server: str, steady: Program) -> None:
    paused = client(server, "worker", "--worker-id", "steady", "--pause", "--output", "table")
    assert paused.returncode == 0
    assert "IDLE paused" in paused.stdout
    # What is wanted of it is stored; a moment later it knows.
    steady.writes("takes no new runs")
    with PyocoHttpClient(server) as http:
        run_id = http.submit_run("noop", tag="cpu")["run_id"]
        shown = client(server, "get", "--run-id", run_id, "--output", "table").stdout
        assert "workers_paused" in shown
        assert answered(server, "worker", "--worker-id", "steady", "--resume")["paused"] is False
        assert http.wait(run_id, 20)["status"] == "COMPLETED"


def test_a_drained_worker_ends_in_order(server: str, at_nats: str) -> None:
    words = ("--flows", str(FLOWS), "--worker-id", "leaving", "--tag", "leave", "--nats-url", at_nats)
    with running(WORKER, *words) as (program, _):
        drain = run_command(CLIENT, "worker", "--worker-id", "leaving", "--drain", PYOCO_SERVER=server)
        assert drain.returncode == 0, drain.stderr
        assert program.end() == 0
    assert [worker["worker_id"] for worker in answered(server, "workers")] == ["steady"]
    (gone,) = answered(server, "workers", "--state", "STOPPED_GRACEFUL")
    assert (gone["worker_id"], gone["stop_reason"]) == ("leaving", "drained")


def test_an_unknown_worker_is_told(server: str) -> None:
    for wish in ((), ("--pause",)):
        done = client(server, "worker", "--worker-id", "nobody", *wish)
        assert (done.returncode, done.stdout) == (1, "")
        assert "ERR-PYOCO-0020" in done.stderr


def test_metrics_are_shown_as_they_are_or_by_name(server: str) -> None:
    with PyocoHttpClient(server) as http:
        names = {line.split()[2] for line in http.metrics().splitlines() if line.startswith("# TYPE")}
    shown = client(server, "metrics")
    assert shown.returncode == 0
    assert names <= {line.split()[2] for line in shown.stdout.splitlines() if line.startswith("# TYPE")}
    chosen = client(server, "metrics", "--name", "pyoco_workers_alive_total").stdout.splitlines()
    assert [line.split()[0] for line in chosen] == ["#", "#", "pyoco_workers_alive_total"]
