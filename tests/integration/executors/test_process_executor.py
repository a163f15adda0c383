"""An executor process that is asked for something at an awkward moment."""

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import JournalEntry, LogLine
from pyoco_server.records.wait_models import Question
from pyoco_server.worker.executors import process_executor
from pyoco_server.worker.executors.executor import ExecutorFailedToStart
from pyoco_server.worker.executors.process_executor import ProcessExecutor
from pyoco_server.worker.ipc.protocol import Outcome, Run, Setup
from tests.support.places import FLOWS
from tests.support.processes import is_alive
from tests.support.waiting import LIMIT_SEC, eventually


class Heard:
    def finished(self, entry: JournalEntry) -> None: ...
    def asked(self, question: Question) -> None: ...
    def printed(self, lines: list[LogLine]) -> None: ...


@pytest.fixture
async def executor() -> AsyncIterator[ProcessExecutor]:
    async with having_executor(max_silence_sec=30.0) as executor:
        yield executor


@asynccontextmanager
async def having_executor(*, max_silence_sec: float) -> AsyncIterator[ProcessExecutor]:
    setup = Setup.from_config(NatsBackendConfig(), flows=str(FLOWS))
    setup.max_silence_sec = max_silence_sec
    executor = ProcessExecutor(setup)
    await executor.start()
    try:
        yield executor
    finally:
        await executor.abandon()
        await executor.close()


def waiting_run(tmp_path: Path) -> Run:
    params = msgspec.json.encode({"path": str(tmp_path / "never"), "started": str(tmp_path / "started")})
    return Run(run_id="r", flow_name="waiting", params=params)


def is_stopped(pid: int) -> bool:
    """Whether all of its threads are."""
    states = [
        (task / "stat").read_text().rpartition(") ")[2][0] for task in Path(f"/proc/{pid}/task").iterdir()
    ]
    return set(states) == {"T"}


@pytest.fixture
def _killed_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor that does not leave of its own accord is waited for no longer than a test needs."""
    monkeypatch.setattr(process_executor, "_STOP_TIMEOUT_SEC", 2.5)


async def being_replaced(executor: ProcessExecutor, run: Run) -> "asyncio.Task[Outcome]":
    """A run that waits for an executor: the one before does not leave of its own accord."""
    pid = executor.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    # One that is not stopped yet could still leave at once, and nobody would see that there was none.
    await eventually(lambda: is_stopped(pid), describe="the executor is stopped")
    executor.retire()
    execution = asyncio.create_task(executor.execute(run, Heard()))
    await eventually(lambda: executor.pid is None, describe="the executor is being replaced")
    return execution


async def test_an_executor_that_cannot_be_started_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\necho 'Traceback ...' >&2\necho 'ImportError: libfoo.so is missing' >&2\nexit 1\n"
    )
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    executor = ProcessExecutor(Setup.from_config(NatsBackendConfig(), flows=str(FLOWS)))
    with pytest.raises(ExecutorFailedToStart) as caught:
        await executor.start()
    assert str(caught.value) == (
        "the executor process exited with code 1: Traceback ... | ImportError: libfoo.so is missing"
    )
    await executor.close()


@pytest.mark.parametrize("failing", range(1, 7))
async def test_without_a_free_descriptor_no_executor_is_started_and_none_is_kept_open(
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

    executor = ProcessExecutor(Setup.from_config(NatsBackendConfig(), flows=str(FLOWS)))
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
async def test_a_cancel_is_not_lost_while_an_executor_is_replaced(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    execution = await being_replaced(executor, waiting_run(tmp_path))
    executor.cancel("r")
    async with asyncio.timeout(LIMIT_SEC):
        assert (await execution).status == "CANCELLED"


@pytest.mark.usefixtures("_killed_sooner")
async def test_a_run_is_given_up_although_its_executor_is_not_there_yet(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    execution = await being_replaced(executor, waiting_run(tmp_path))
    await executor.give_up("FAILED", "too long")
    async with asyncio.timeout(LIMIT_SEC):
        outcome = await execution
    assert (outcome.status, outcome.error) == ("FAILED", "too long")
    assert not (tmp_path / "started").exists()


async def test_an_executor_leaves_a_run_whose_worker_has_fallen_silent(tmp_path: Path) -> None:
    async with having_executor(max_silence_sec=0.5) as executor:
        pid = executor.pid
        assert pid is not None
        async with asyncio.timeout(LIMIT_SEC):
            outcome = await executor.execute(waiting_run(tmp_path), Heard())
        assert outcome.go_on
        await eventually(lambda: not is_alive(pid), describe="the executor has left")


async def test_an_executor_stays_while_its_worker_asks_for_progress(tmp_path: Path) -> None:
    # Longer than this test may be held up between two questions.
    async with having_executor(max_silence_sec=2.5) as executor:
        execution = asyncio.create_task(executor.execute(waiting_run(tmp_path), Heard()))
        loop = asyncio.get_running_loop()
        until = loop.time() + 3.5
        while loop.time() < until:
            executor.progress()
            await asyncio.sleep(0.05)
        assert not execution.done()
        (tmp_path / "never").touch()
        async with asyncio.timeout(LIMIT_SEC):
            assert (await execution).status == "COMPLETED"
