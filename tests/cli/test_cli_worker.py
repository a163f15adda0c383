"""`pyoco-worker` as a real process: it executes runs, waits for NATS aloud, drains, and leaves when told."""

import asyncio
import json
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats import connect
from nats.js.api import AckPolicy, ConsumerConfig

from pyoco_server.cli.worker_process import default_worker_id
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.http_client.response_types import Run
from pyoco_server.records.value_types import WORKER_ID_PATTERN
from tests.support.broker.nats_server import NatsServer
from tests.support.places import FLOWS
from tests.support.programs import WORKER, announcing, run_command, running
from tests.support.running.gateway import gateway_beside
from tests.support.terminal import on_terminal
from tests.support.waiting import eventually_sync


@pytest.fixture
def client(nats_url: str, tmp_path: Path) -> Iterator[PyocoHttpClient]:
    with (
        gateway_beside(nats_url, tmp_path) as url,
        PyocoHttpClient(url) as client,
    ):
        eventually_sync(lambda: client.health()["nats"]["ready"], describe="NATS is ready")
        yield client


def reaches(client: PyocoHttpClient, run_id: str, status: str) -> Run:
    def there() -> Run | None:
        run = client.get_run(run_id)
        return run if run["status"] == status else None

    return eventually_sync(there, describe=f"run {run_id} is {status}")


def test_it_tells_what_it_is_when_it_is_ready(nats_url: str, tmp_path: Path) -> None:
    arguments = ("--flows", str(FLOWS), "--tag", "gpu", "--tags", "cpu,gpu", "--worker-id", "w-7")
    settings = {"PYOCO_WORKER_CONCURRENCY": "2", "PYOCO_NATS_URL": nats_url}
    with running(WORKER, *arguments, cwd=tmp_path, **settings) as (program, facts):
        assert (facts["worker_id"], facts["tags"], facts["slots"]) == ("w-7", ["gpu", "cpu"], 2)
        assert {"noop", "chain", "waiting"} <= set(facts["flows"])
        assert facts["failures"] == {}
        program.send(signal.SIGTERM)
        assert program.end() == 0
    assert program.stderr == ""
    assert {json.loads(line)["service"] for line in program.stdout.splitlines()} == {"pyoco-server:worker"}


def test_a_resolver_of_the_working_directory_gives_the_flows(
    client: PyocoHttpClient, nats_url: str, tmp_path: Path
) -> None:
    (tmp_path / "registry.py").write_text(
        "from pyoco import Flow, task\n"
        "@task\ndef where() -> str:\n    return 'here'\n"
        "def resolve(name):\n    return {'located': Flow('located') >> where}[name]\n"
    )
    with running(WORKER, "--resolver", "registry:resolve", "--nats-url", nats_url, cwd=tmp_path):
        run_id = client.submit_run("located")["run_id"]
        assert client.wait(run_id, 15)["status"] == "COMPLETED"
        assert client.get_tasks(run_id)["task_records"]["where"]["output"] == "here"


@pytest.mark.parametrize(
    ("resolver", "reason"),
    [
        ("nowhere:resolve", "there is no module 'nowhere'"),
        ("registry:nothing", "has no 'nothing'"),
        ("broken:resolve", "ZeroDivisionError"),
    ],
)
def test_a_resolver_that_cannot_be_loaded_is_exit_code_1_with_the_reason(
    nats_url: str, tmp_path: Path, resolver: str, reason: str
) -> None:
    (tmp_path / "registry.py").write_text("def resolve(name): ...\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    done = run_command(WORKER, "--resolver", resolver, "--nats-url", nats_url, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("ERR-PYOCO-0018 ")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_a_flow_file_that_cannot_be_loaded_is_named_and_the_others_work(
    client: PyocoHttpClient, nats_url: str, tmp_path: Path
) -> None:
    flows = tmp_path / "flows"
    flows.mkdir()
    (flows / "fine.py").write_text(
        "from pyoco import Flow, task\n@task\ndef step() -> int:\n    return 1\nfine = Flow('fine') >> step\n"
        "print('a module may print')\n"
    )
    (flows / "broken.py").write_text("import missing_module\n")
    with running(WORKER, "--flows", "flows", "--nats-url", nats_url, cwd=tmp_path) as (program, facts):
        assert facts["flows"] == ["fine"]
        assert "missing_module" in facts["failures"]["broken.py"]
        program.writes("cannot load flows from broken.py: ")
        assert client.wait(client.submit_run("fine")["run_id"], 15)["status"] == "COMPLETED"


def test_a_stopping_worker_finishes_what_runs(client: PyocoHttpClient, nats_url: str, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    with running(WORKER, "--flows", str(FLOWS), "--nats-url", nats_url, cwd=tmp_path) as (program, _):
        run_id = client.submit_run("waiting", params={"path": str(go_on)})["run_id"]
        reaches(client, run_id, "RUNNING")
        program.send(signal.SIGTERM)
        program.writes("draining")
        go_on.touch()
        assert program.end() == 0
    assert client.get_run(run_id)["status"] == "COMPLETED"


@pytest.mark.parametrize(("second", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_leaves_at_once(
    client: PyocoHttpClient, nats_url: str, tmp_path: Path, second: signal.Signals, code: int
) -> None:
    with running(WORKER, "--flows", str(FLOWS), "--nats-url", nats_url, cwd=tmp_path) as (program, _):
        run_id = client.submit_run("waiting", params={"path": str(tmp_path / "never")})["run_id"]
        reaches(client, run_id, "RUNNING")
        program.send(signal.SIGINT)
        program.writes("draining")
        program.send(second)
        assert program.end() == code


def test_it_waits_for_nats_and_says_so(own_nats: NatsServer, tmp_path: Path) -> None:
    own_nats.stop()
    with announcing(WORKER, "--nats-url", own_nats.url, cwd=tmp_path) as (program, ready):
        program.writes(f"NATS: {own_nats.url}: ")
        assert program.process.poll() is None
        own_nats.start()
        assert ready()["flows"] == []


def test_a_consumer_with_too_short_an_ack_wait_is_exit_code_1_with_the_cure(
    client: PyocoHttpClient, nats_url: str, tmp_path: Path
) -> None:
    async def create() -> None:
        nats = await connect(nats_url)
        consumer = ConsumerConfig(
            durable_name="pyoco_worker_hasty",
            filter_subject="pyoco.work.hasty",
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=0.2,
        )
        await nats.jetstream().add_consumer("PYOCO_WORK", consumer)
        await nats.close()

    asyncio.run(create())
    arguments = ("--flows", str(FLOWS), "--tags", "hasty", "--nats-url", nats_url)
    done = run_command(WORKER, *arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert "the consumer pyoco_worker_hasty of the stream PYOCO_WORK has an AckWait of 0.2 s" in done.stderr
    assert "nats consumer edit --wait 30s" in done.stderr
    assert "Traceback" not in done.stderr


def test_on_a_terminal_its_log_is_text(tmp_path: Path) -> None:
    with on_terminal(WORKER, "--nats-url", "nats://127.0.0.1:1", cwd=tmp_path) as terminal:
        terminal.shows("NATS: nats://127.0.0.1:1")
        assert '"message"' not in terminal.text


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_can_be_stopped_while_it_waits_for_nats(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with announcing(WORKER, "--nats-url", "nats://127.0.0.1:1", cwd=tmp_path) as (program, _):
        program.writes("NATS: nats://127.0.0.1:1")
        program.send(number)
        assert program.end() == code
    assert "Traceback" not in program.stdout + program.stderr


@pytest.mark.parametrize("host", ["build-7", "bücher.example.com", "", "..", "x" * 300])
def test_the_usual_worker_id_is_valid_whatever_the_host_is_called(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert re.fullmatch(WORKER_ID_PATTERN, default_worker_id())
    if host == "build-7":
        assert default_worker_id().startswith("build-7-")
