"""Nothing that happens after a run has come to its end replaces the outcome, or keeps its process alive."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.executors.process_executor import ProcessExecutor
from pyoco_server.worker.ipc.protocol import Outcome, Run, Setup
from tests.support.processes import is_alive
from tests.support.waiting import LIMIT_SEC, eventually

# Its tasks reach into the executor that runs them.
FLOWS = """
import signal, sys, threading, time
from pyoco import Flow, task
from pyoco_server.worker.engine.flow_run import FlowRun
from pyoco_server.worker.child.run_folder import RunFolder

ExecutorProcess = sys.modules["__main__"].ExecutorProcess

def flow(function):
    made = Flow(name=function.__name__)
    made >> task(function)
    return made

def ends_while_it_is_given_up():
    leaving = threading.Event()
    leave_with = ExecutorProcess._leave_with

    def leave_later(process, *how, **options):
        leaving.set()
        # The main thread has nothing more to do, and must not end the process before this thread does.
        threading.main_thread().join(1)
        leave_with(process, *how, **options)

    ExecutorProcess._leave_with = leave_later
    leaving.wait()

def takes_too_long():
    def fail(folder):
        raise FileNotFoundError("the folder that this process was started in")

    RunFolder.leave = fail
    time.sleep(3600)

def cannot_be_described():
    def fail(*_, **__):
        raise RuntimeError("no outcome can be made")

    FlowRun._ended = fail
    time.sleep(3600)

def leaves_a_handler():
    def handler(*_):
        raise InterruptedError("by a handler that the run left behind")

    def set_current(process, current):
        vars(process)["current"] = current
        if current is None and pending:
            pending.clear()
            signal.raise_signal(signal.SIGUSR1)

    pending = [signal.SIGUSR1]
    signal.signal(signal.SIGUSR1, handler)
    # The signal comes when the run is over and nothing is restored yet.
    ExecutorProcess._current = property(lambda process: vars(process).get("current"), set_current)

def breaks_stdout():
    sys.stdout = None

first, second = flow(ends_while_it_is_given_up), flow(breaks_stdout)
third, fourth = flow(takes_too_long), flow(cannot_be_described)
fifth = flow(leaves_a_handler)
for each in (third, fourth):
    next(iter(each.tasks)).timeout_sec = 0.2
"""
NOBODY: Any = SimpleNamespace(finished=lambda _: None, asked=lambda _: None, printed=lambda _: None)


@asynccontextmanager
async def having_executor(folder: Path, **settings: float) -> AsyncIterator[ProcessExecutor]:
    (folder / "flows.py").write_text(FLOWS)
    setup = Setup.from_config(NatsBackendConfig(), flows=str(folder))
    executor = ProcessExecutor(msgspec.structs.replace(setup, **settings))
    await executor.start()
    assert executor.ready.failures == {}
    try:
        yield executor
    finally:
        await executor.abandon()
        await executor.close()


async def outcome_of(executor: ProcessExecutor, flow: str) -> Outcome:
    async with asyncio.timeout(LIMIT_SEC):
        return await executor.execute(Run(run_id="r", flow_name=flow, params=b"{}"), NOBODY)


async def test_a_run_that_ends_while_it_is_given_up_after_silence_goes_on_from_its_journal(
    tmp_path: Path,
) -> None:
    async with having_executor(tmp_path, max_silence_sec=0.5) as executor:
        outcome = await outcome_of(executor, "ends_while_it_is_given_up")
        assert (outcome.status, outcome.go_on) == ("RUNNING", True)


@pytest.mark.parametrize("flow", ["takes_too_long", "cannot_be_described"])
async def test_an_executor_ends_with_a_task_past_its_limit_although_something_fails_then(
    tmp_path: Path, flow: str
) -> None:
    async with having_executor(tmp_path) as executor:
        pid = executor.pid
        assert pid is not None
        outcome = await outcome_of(executor, flow)
        assert (outcome.status, outcome.reason) == ("FAILED", "timeout")
        assert outcome.error == f"task {flow}: it took longer than its limit of 0.2 s"
        await eventually(lambda: not is_alive(pid), describe="the executor has ended")


async def test_a_run_that_leaves_no_stdout_behind_has_completed(tmp_path: Path) -> None:
    async with having_executor(tmp_path) as executor:
        outcome = await outcome_of(executor, "breaks_stdout")
        assert (outcome.status, outcome.spoilt) == ("COMPLETED", True)


async def test_a_signal_handler_left_behind_does_not_replace_the_outcome(tmp_path: Path) -> None:
    async with having_executor(tmp_path) as executor:
        assert (await outcome_of(executor, "leaves_a_handler")).status == "COMPLETED"
