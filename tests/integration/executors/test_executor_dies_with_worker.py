"""An executor exits with its worker, whatever its threads and its task do."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyoco_server.worker.executors.task_processes import TaskProcesses
from pyoco_server.worker.ipc.prefetch_channel import PrefetchChannel
from pyoco_server.worker.ipc.protocol import Report, Run, frame
from tests.support.processes import is_alive
from tests.support.waiting import LIMIT_SEC, eventually_sync

WORKER = """
import asyncio, sys
from tests.support.running.executors import ExecutorUnderTest, new_run, new_setup

executor = ExecutorUnderTest(new_setup(sys.argv[1]))
asyncio.run(executor.execute(new_run(sys.argv[3], marker=sys.argv[2])))
"""

EXECUTOR = """
import socket, sys, threading
from pyoco_server.worker.child.executor_link import ExecutorLink
from pyoco_server.worker.ipc.protocol import Progress

def on_message(message):
    if what == "listen and fail":
        1 / 0
    link.send(Progress())

link = ExecutorLink(
    *(socket.socket(fileno=int(number)) for number in sys.argv[1:]),
    on_message=on_message,
    on_silence=lambda: None,
    on_end=lambda: None,
)
link.next()
print("has the run", flush=True)
what = input()
if what == "send":
    link.send(Progress())
else:
    link.start()
threading.Event().wait()  # as a long task
"""

FLOWS = '''
import ctypes, os, subprocess, sys, time
from pathlib import Path
from pyoco import Flow, task

@task
def hold_the_gil(marker):
    child = subprocess.Popen(["sleep", "3600"])
    Path(marker + ".part").write_text(f"{os.getpid()} {child.pid}")
    os.rename(marker + ".part", marker)
    ctypes.PyDLL(None).sleep(3600)

holding = Flow(name="holding")
holding >> hold_the_gil

def daemonise(pid_file):
    """As a daemon does: the parent of the process that is left has ended."""
    code = f"""
import os, time
os.setsid()
if os.fork():
    os._exit(0)
open({pid_file!r}, "w").write(str(os.getpid()))
time.sleep(3600)
"""
    subprocess.run([sys.executable, "-c", code], check=True)

@task
def start_processes(marker):
    daemonise(marker + ".pid")
    while not (daemon := Path(marker + ".pid").exists() and Path(marker + ".pid").read_text()):
        time.sleep(0.01)
    child = subprocess.Popen(["sleep", "3600"])
    own_session = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    outsider = subprocess.Popen(["env", "-u", "PYOCO_EXECUTOR_MARK", "sleep", "60"], start_new_session=True)
    Path(marker + ".part").write_text(f"{os.getpid()} {child.pid} {own_session.pid} {daemon} {outsider.pid}")
    os.rename(marker + ".part", marker)
    time.sleep(3600)

starting = Flow(name="starting")
starting >> start_processes
'''


@pytest.fixture
def executor() -> Iterator["Executor"]:
    executor = Executor()
    yield executor
    executor.close()


class Executor:
    """A process with an executor's end of the link; this test is its worker."""

    def __init__(self) -> None:
        self.worker, theirs = socket.socketpair()
        prefetch = PrefetchChannel()
        with theirs:
            self._descriptors = [theirs.fileno(), prefetch.reading.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, "-c", EXECUTOR, *map(str, self._descriptors)],
                pass_fds=self._descriptors,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        self._prefetch = prefetch
        self.worker.sendall(frame(Run(run_id="r", flow_name="f", params=b"{}")))
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "has the run\n"

    def have(self, what: str) -> tuple[int, str]:
        """Its exit code and its stderr, after it has done this and exited."""
        _, errors = self._process.communicate(what + "\n", timeout=LIMIT_SEC)
        return self._process.returncode, errors

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self.worker.close()
        self._prefetch.close()


def test_an_executor_exits_when_its_worker_died_with_an_unread_request(executor: Executor) -> None:
    executor.worker.sendall(frame(Report()))
    executor.worker.close()
    assert executor.have("listen and reply") == (0, "")


def test_an_executor_exits_when_it_cannot_send(executor: Executor) -> None:
    executor.worker.close()
    assert executor.have("send") == (0, "")


def test_an_executor_exits_when_its_listener_fails(executor: Executor) -> None:
    executor.worker.sendall(frame(Report()))
    code, errors = executor.have("listen and fail")
    assert code == 1
    assert errors.endswith("ZeroDivisionError: division by zero\n")


@contextmanager
def executing(flow: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A worker whose executor runs the flow, and the processes that its task has reported."""
    flows, marker = folder / "flows", folder / "marker"
    flows.mkdir()
    (flows / "flows.py").write_text(FLOWS)
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(flows), str(marker), flow])
    pids: list[int] = []
    try:
        eventually_sync(marker.exists, describe="the task runs")
        pids = [int(pid) for pid in marker.read_text().split()]
        assert all(is_alive(pid) for pid in pids)
        yield worker, pids
    finally:
        worker.kill()
        worker.wait(LIMIT_SEC)
        for pid in pids:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def test_a_killed_worker_ends_a_task_that_holds_the_gil_and_its_subprocess(
    tmp_path: Path,
) -> None:
    with executing("holding", tmp_path) as (worker, pids):
        worker.kill()
        eventually_sync(lambda: not any(is_alive(pid) for pid in pids), describe="both have ended")


@pytest.mark.parametrize("killed", ["worker", "executor", "both"])
def test_what_a_task_has_started_ends_with_it(killed: str, tmp_path: Path) -> None:
    """A subprocess, one in a session of its own, and a daemon; only what shed the mark survives."""
    with executing("starting", tmp_path) as (worker, (executor, *started, outsider)):
        if killed != "executor":
            # It cannot react to the end of its executor.
            worker.send_signal(signal.SIGSTOP)
        if killed != "worker":
            os.kill(executor, signal.SIGKILL)
        if killed != "executor":
            worker.kill()
        eventually_sync(lambda: not any(map(is_alive, started)), describe="all have ended")
        assert is_alive(outsider)


def test_a_forked_worker_has_marks_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # The guard of one would kill the executors of the other.
    guards: list[str] = []
    monkeypatch.setattr(TaskProcesses, "_start_guard", lambda self: guards.append(self._mark))
    processes = TaskProcesses()
    mine = [processes.new_mark() for _ in range(2)]
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    forked = processes.new_mark()
    assert len({*mine, forked}) == 3
    assert [mark.partition("-")[0] for mark in (*mine, forked)] == [guards[0], guards[0], guards[1]]
    assert guards[0] != guards[1]
