"""`pyoco-server dev` and `make demo`: programs are started, restarted after a crash, and all ended."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.cli.server.supervisor import Child
from pyoco_server.http_client import PyocoHttpClient
from tests.support.broker.full_disk import fill_disk
from tests.support.places import ROOT
from tests.support.processes import find_processes, is_alive
from tests.support.programs import SERVER, Program, environment, forked, forked_stack, started
from tests.support.terminal import CTRL_C, command_on_terminal
from tests.support.waiting import LIMIT_SEC, eventually, eventually_sync

PROJECT = ROOT
EXAMPLE_FLOWS = PROJECT / "examples" / "flows"
PORTS = ("--port", "0", "--nats-port", "0")
# More than a pipe holds; it would block if nobody read it.
LINES = 20_000
PRINTING = f"""
import os, sys
with os.fdopen(int(sys.argv[-1]), "w") as parent:
    parent.write("{{}}\\n")
for number in range({LINES}):
    print("line", number, flush=True)
sys.stdin.read()
import time; time.sleep({LIMIT_SEC})
"""


@dataclass
class Dev:
    program: Program
    client: PyocoHttpClient
    gateway_url: str
    nats_url: str
    # Where it was started.
    folder: Path

    def completes_a_run(self) -> None:
        run_id = self.client.submit_run("greet", params={"name": "Ada"})["run_id"]
        assert self.client.wait(run_id, timeout_sec=30)["status"] == "COMPLETED"

    def child(self, module: str) -> int:
        guards = find_processes("server_guard", self.nats_url)
        (pid,) = [pid for pid in find_processes(module, self.nats_url) if pid not in guards]
        return pid

    def family(self) -> list[int]:
        """Every process that came of this dev, itself and the guards as well."""
        listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
        parents = [(int(pid), int(parent)) for pid, parent in map(str.split, listing.stdout.splitlines())]
        family = [self.program.pid]
        for member in family:
            family += [pid for pid, parent in parents if parent == member]
        return family


@contextmanager
def dev(folder: Path, *arguments: str, **settings: str) -> Iterator[Dev]:
    flows = ("--flows", str(EXAMPLE_FLOWS))
    with forked(SERVER, "dev", *flows, *PORTS, *arguments, cwd=folder, **settings) as program:
        program.writes("Press Ctrl-C to stop everything")
        gateway_url = shown(program, "Gateway")
        with PyocoHttpClient(gateway_url) as client:
            yield Dev(program, client, gateway_url, shown(program, "NATS"), folder)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """One for all tests after which everything runs again."""
    options = ("--concurrency", "2", "--dashboard-lang", "ja")
    with dev(tmp_path_factory.mktemp("dev"), *options) as everything:
        yield everything


def shown(program: Program, name: str) -> str:
    found = re.search(rf"^{name} +(\S+)", program.stdout, re.MULTILINE)
    assert found, program.stdout
    return found[1]


def all_end(pids: list[int]) -> None:
    eventually_sync(lambda: not [pid for pid in pids if is_alive(pid)], describe=f"all of {pids} have ended")


def test_it_shows_its_programs_and_commands_that_work(everything: Dev) -> None:
    screen, data = everything.program.stdout, everything.folder / ".pyoco"
    assert "Worker     dev, 2 slots, tags default" in screen
    assert "Flows      check_orders, greet, invoice, invoice_approval, sales_report" in screen
    assert f"Data       {data / 'nats'}" in screen
    assert f"Logs       {data / 'logs'}" in screen
    everything.completes_a_run()

    commands = [line.strip() for line in screen.splitlines() if line.startswith("  ")]
    assert len(commands) == 3
    for command in commands:
        if shutil.which(command.split()[0]) is None:
            continue  # curl is not everywhere
        done = subprocess.run(
            command, shell=True, cwd=everything.folder, env=environment(), capture_output=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr.decode()}"
    assert (data / "logs" / "worker.log").exists()


def test_the_dashboard_has_the_given_language(everything: Dev) -> None:
    page = httpx.get(f"{everything.gateway_url}/")
    if page.status_code == 404:
        pytest.skip("the dashboard is not built: `make ui` builds it")
    assert '<html lang="ja" ' in page.text


def test_a_killed_worker_is_restarted(everything: Dev) -> None:
    everything.completes_a_run()
    worker = everything.child("pyoco_server.cli.worker_command")
    os.kill(worker, signal.SIGKILL)
    everything.program.writes("The worker stopped (killed by SIGKILL); restarting in 500ms.")
    everything.program.writes("The worker is running again.")
    assert everything.child("pyoco_server.cli.worker_command") != worker
    everything.completes_a_run()


def test_a_killed_gateway_is_restarted_at_its_address(everything: Dev) -> None:
    os.kill(everything.child("pyoco_server.cli.server.server_command"), signal.SIGKILL)
    everything.program.writes("The gateway is running again.")
    has_nats(everything)
    everything.completes_a_run()


def test_a_killed_nats_is_restarted_with_its_data(everything: Dev) -> None:
    run_id = everything.client.submit_run("greet")["run_id"]
    everything.client.wait(run_id, 30)
    config = str(everything.folder / ".pyoco" / "nats")
    guards = find_processes("server_guard", config)
    (nats,) = [pid for pid in find_processes("nats-server", config) if pid not in guards]
    os.kill(nats, signal.SIGKILL)
    everything.program.writes("NATS is running again.")
    has_nats(everything)
    assert everything.client.get_run(run_id)["status"] == "COMPLETED"
    everything.completes_a_run()


def test_nats_is_restarted_when_its_store_has_stopped(everything: Dev) -> None:
    everything.completes_a_run()
    config = str(everything.folder / ".pyoco" / "nats")
    guards = find_processes("server_guard", config)
    (nats,) = [pid for pid in find_processes("nats-server", config) if pid not in guards]
    fill_disk(nats)
    refused = httpx.post(f"{everything.gateway_url}/runs", json={"flow_name": "greet"}, timeout=LIMIT_SEC)
    assert refused.status_code == 503
    everything.program.writes("There is space again: restarting NATS, whose store has stopped.")
    everything.program.writes("NATS is running again.")
    has_nats(everything)
    everything.completes_a_run()


def has_nats(everything: Dev) -> None:
    eventually_sync(lambda: everything.client.health()["nats"]["ready"], describe="the gateway has NATS")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_everything_in_order_and_leaves_only_the_data_folder(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with dev(tmp_path, "--data-dir", "mine", PYOCO_LOG_LEVEL="INFO") as everything:
        everything.completes_a_run()
        assert everything.client.list_runs()
        family = everything.family()
        assert len(family) >= 7, "the supervisor, three programs with a guard each, and an executor"
        everything.program.send(number)
        assert everything.program.end() == code
        all_end(family)
    said = everything.program.stdout
    assert said.index("draining") < said.index("Finished server process") < said.index("Stopped. Data")
    assert not re.search(r"WARNING|ERROR|is killed", said), "something lost NATS before its own end"
    assert {folder.name for folder in (tmp_path / "mine").iterdir()} >= {"nats", "index", "logs"}
    assert [folder.name for folder in tmp_path.iterdir()] == ["mine"]


def test_all_programs_end_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    with dev(tmp_path) as everything:
        family = everything.family()
        everything.program.send(signal.SIGKILL)
        assert everything.program.end() == -signal.SIGKILL
        all_end(family)


def test_it_does_not_start_when_the_worker_cannot(tmp_path: Path) -> None:
    with forked(SERVER, "dev", *PORTS, cwd=tmp_path, PYOCO_CALLABLE_ALLOW="not a pattern") as program:
        assert program.end() == 1
        assert "worker | ERR-PYOCO-0018" in program.stdout
        assert "The worker could not start (exit code 1)" in program.stderr
        all_end(find_processes(str(tmp_path)))


def test_a_second_stack_in_the_same_folder_is_refused(everything: Dev) -> None:
    with forked(SERVER, "dev", *PORTS, cwd=everything.folder) as second:
        assert second.end() == 1
        assert second.stderr.startswith("ERR-PYOCO-0018 ")
        data = everything.folder / ".pyoco" / "nats"
        keeper = f"another program (process {everything.program.pid}) uses the data folder {data}; stop"
        assert keeper in second.stderr
        assert "choose another folder with --data-dir" in second.stderr
        assert "PYOCO_NATS" not in second.stderr


def test_the_demo_completes_its_run_and_shows_commands_that_work(tmp_path: Path) -> None:
    command = [sys.executable, str(PROJECT / "examples" / "demo.py"), "--data-dir", str(tmp_path)]
    with started(command, cwd=PROJECT) as program:
        program.writes("Serving. Press Ctrl-C to stop everything.")
        screen = program.stdout
        assert "  run COMPLETED" in screen
        assert re.search(r"^Revenue +\d+$", screen, re.MULTILINE)
        assert re.search(r"^A run waits for you: invoice \S+ WAITING_HUMAN$", screen, re.MULTILINE)
        [page] = re.findall(r"^  (http\S+/#/waits/\S+)$", screen, re.MULTILINE)
        link = page.replace("/#/", "/")
        assert httpx.get(link).json()["state"] == "open"
        commands = re.findall(r"^  (\S*pyoco-client .*)$", screen, re.MULTILINE)
        assert len(commands) == 4
        # As the README shows it.
        assert any(re.search(r" tasks [0-9a-f-]{36}$", each) for each in commands)
        for command_line in commands:
            done = subprocess.run(
                command_line, shell=True, cwd=PROJECT, env=environment(), capture_output=True, check=False
            )
            assert done.returncode == 0, f"{command_line}: {done.stderr.decode()}"
        assert httpx.get(link).json()["decision"] == "approved"
        program.send(signal.SIGINT)
        assert program.end() == 130


def test_ctrl_c_ends_make_demo_without_an_error(tmp_path: Path) -> None:
    # As if the package had been installed by make, into the environment of this Python.
    command = ["make", "-o", ".venv/package", "demo", f"BIN={Path(sys.executable).parent}"]
    with command_on_terminal([*command, f"ARGS=--data-dir {tmp_path}"], cwd=PROJECT) as terminal:
        terminal.shows("Serving. Press Ctrl-C to stop everything.")
        terminal.type(CTRL_C)
        terminal.end()
    assert "Stopped. Data is kept" in terminal.text
    assert "***" not in terminal.text
    all_end(find_processes(str(tmp_path)))


def test_the_demo_fails_when_its_run_does(tmp_path: Path) -> None:
    script = "import demo; demo.FLOW_NAME = 'nope'; demo.run(demo.app, 'demo')"
    command = [sys.executable, "-c", script, "--data-dir", str(tmp_path)]
    with started(command, cwd=PROJECT / "examples") as program:
        assert program.end() == 1
        assert "The example run is FAILED: flow 'nope' was not found" in program.stderr


def test_schedules_of_the_folder_are_applied_and_followed(tmp_path: Path) -> None:
    flows = tmp_path / "flows"
    flows.mkdir()
    file = flows / "schedules.yaml"
    tick = "  - {schedule_id: tick, flow_name: nothing, tag: unserved, spec: {every_sec: 1}}\n"
    file.write_text(f"schedules:\n{tick}")
    with forked_stack("dev", "--flows", str(flows), *PORTS, cwd=tmp_path) as program:
        program.writes("Press Ctrl-C to stop everything")
        assert "Schedules  tick" in program.stdout
        assert "not loaded" not in program.stdout
        with PyocoHttpClient(shown(program, "Gateway")) as client:
            eventually_sync(lambda: client.list_runs(cause="schedule:tick"), describe="it starts a run")
            file.write_text(
                f"schedules:\n{tick}  - {{schedule_id: bad, flow_name: a, spec: {{cron: '*'}}}}\n"
            )
            program.writes('schedules.yaml is not applied: schedules[1].spec.cron[0]="*"')
            assert [each["schedule_id"] for each in client.iter_schedules()] == ["tick"]
            file.write_text("schedules: []\n")
            program.writes("schedules.yaml: 0 added, 0 changed, 1 removed, 0 unchanged.")
            assert list(client.iter_schedules()) == []


async def test_the_output_is_read_although_its_file_is_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    events: list[str] = []
    child = Child(
        "program",
        [sys.executable, "-c", PRINTING],
        environ=os.environ,
        log_path=tmp_path / "program.log",
        on_event=events.append,
        on_line=lambda _, line: lines.append(line),
    )
    opened = Path.open

    def on_full_disk(path: Path, *arguments: Any, **options: Any) -> Any:
        return opened(Path("/dev/full") if path == tmp_path / "program.log" else path, *arguments, **options)

    monkeypatch.setattr(Path, "open", on_full_disk)
    await child.start()
    await child.ready()
    await eventually(lambda: len(lines) == LINES, describe="every line is read")
    await child.stop(LIMIT_SEC)
    assert events[0].startswith(f"The output of the program is not written to {tmp_path / 'program.log'}")
    assert len([event for event in events if "is not written" in event]) == 1
