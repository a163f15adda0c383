"""Starting, replacing and leaving an executor process."""

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.worker.executors import executor_handle
from pyoco_server.worker.executors.executor import ExecutorFailedToStart
from pyoco_server.worker.ipc.protocol import Outcome, Run
from tests.support.processes import is_alive
from tests.support.running.executors import ExecutorUnderTest, new_run, new_setup, started_executor
from tests.support.waiting import LIMIT_SEC, eventually


def waiting_run(tmp_path: Path) -> Run:
    return new_run("waiting", path=str(tmp_path / "never"), started=str(tmp_path / "started"))


def is_stopped(pid: int) -> bool:
    """Whether all of its threads are."""
    states = [
        (task / "stat").read_text().rpartition(") ")[2][0] for task in Path(f"/proc/{pid}/task").iterdir()
    ]
    return set(states) == {"T"}


@pytest.fixture
def _killed_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_handle, "_STOP_TIMEOUT_SEC", 2.5)


async def being_replaced(executor: ExecutorUnderTest, run: Run) -> "asyncio.Task[Outcome]":
    """A run that waits for a process: the one before does not exit by itself."""
    pid = executor.started.pid
    os.kill(pid, signal.SIGSTOP)
    # One that is not stopped yet could still exit at once.
    await eventually(lambda: is_stopped(pid), describe="the executor is stopped")
    executor.retire()
    execution = executor.begin(run)
    await eventually(lambda: executor.child is None, describe="the executor is being replaced")
    return execution


@pytest.mark.usefixtures("new_interpreters")
async def test_a_failed_start_reports_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\necho 'Traceback ...' >&2\necho 'ImportError: libfoo.so is missing' >&2\nexit 1\n"
    )
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    executor = ExecutorUnderTest(new_setup())
    with pytest.raises(ExecutorFailedToStart) as caught:
        await executor.start()
    assert str(caught.value) == (
        "the executor process exited with code 1: Traceback ... | ImportError: libfoo.so is missing"
    )
    await executor.close()


@pytest.mark.parametrize("failing", range(1, 7))
async def test_a_start_without_a_free_descriptor_keeps_none_open(
    monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    opened = 0

    def limited(opens: Callable[..., Any]) -> Callable[..., Any]:
        def open_unless_too_many(*how: Any) -> Any:
            nonlocal opened
            opened += 1
            if opened == failing:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return opens(*how)

        return open_unless_too_many

    executor = ExecutorUnderTest(new_setup())
    before = os.listdir("/proc/self/fd")
    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "pipe", limited(os.pipe))
            patched.setattr(socket, "socketpair", limited(socket.socketpair))
            with pytest.raises(ExecutorFailedToStart, match="Too many open files"):
                await executor.start()
        assert os.listdir("/proc/self/fd") == before
        await executor.start()
    finally:
        await executor.close()


@pytest.mark.usefixtures("_killed_sooner")
async def test_a_cancel_while_an_executor_is_replaced_is_applied(
    executor: ExecutorUnderTest, tmp_path: Path
) -> None:
    execution = await being_replaced(executor, waiting_run(tmp_path))
    executor.lease.cancel("r")
    async with asyncio.timeout(LIMIT_SEC):
        assert (await execution).status == "CANCELLED"


@pytest.mark.usefixtures("_killed_sooner")
async def test_a_run_is_ended_while_its_executor_is_replaced(
    executor: ExecutorUnderTest, tmp_path: Path
) -> None:
    execution = await being_replaced(executor, waiting_run(tmp_path))
    await executor.lease.force_end("FAILED", "too long")
    async with asyncio.timeout(LIMIT_SEC):
        outcome = await execution
    assert (outcome.status, outcome.error) == ("FAILED", "too long")
    assert not (tmp_path / "started").exists()


async def test_an_executor_exits_when_its_worker_is_silent(tmp_path: Path) -> None:
    async with started_executor(max_silence_sec=0.5) as executor:
        pid = executor.started.pid
        async with asyncio.timeout(LIMIT_SEC):
            outcome = await executor.execute(waiting_run(tmp_path))
        assert outcome.must_continue
        await eventually(lambda: not is_alive(pid), describe="the executor has exited")


async def test_an_executor_continues_while_its_worker_requests_progress(tmp_path: Path) -> None:
    # Longer than this test may be delayed between two requests.
    async with started_executor(max_silence_sec=2.5) as executor:
        execution = executor.begin(waiting_run(tmp_path))
        loop = asyncio.get_running_loop()
        until = loop.time() + 3.5
        while loop.time() < until:
            executor.started.progress()
            await asyncio.sleep(0.05)
        assert not execution.done()
        (tmp_path / "never").touch()
        async with asyncio.timeout(LIMIT_SEC):
            assert (await execution).status == "COMPLETED"
