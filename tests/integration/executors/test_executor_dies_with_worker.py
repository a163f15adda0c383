"""An executor exits with its worker, whatever its threads and its task do."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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

FLOWS = """
import ctypes, os, subprocess
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
"""


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


def test_a_killed_worker_ends_a_task_that_holds_the_gil_and_its_subprocess(
    tmp_path: Path,
) -> None:
    flows, marker = tmp_path / "flows", tmp_path / "marker"
    flows.mkdir()
    (flows / "holding.py").write_text(FLOWS)
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(flows), str(marker), "holding"])
    pids: list[int] = []
    try:
        eventually_sync(marker.exists, describe="the task holds the GIL")
        pids = [int(pid) for pid in marker.read_text().split()]
        assert all(is_alive(pid) for pid in pids)
        worker.kill()
        worker.wait(LIMIT_SEC)
        eventually_sync(lambda: not any(is_alive(pid) for pid in pids), describe="both have ended")
    finally:
        worker.kill()
        worker.wait(LIMIT_SEC)
        for pid in pids:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
