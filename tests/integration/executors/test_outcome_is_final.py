"""Nothing that happens after the end of a run replaces its outcome or keeps its process alive."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.worker.ipc.protocol import Outcome
from tests.support.processes import is_alive
from tests.support.running.executors import ExecutorUnderTest, new_run, started_executor
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

def ends_while_it_is_claimed():
    exiting = threading.Event()
    exit_with = ExecutorProcess._exit_with

    def exit_later(process, *how, **options):
        exiting.set()
        # The main thread has nothing more to do, and must not end the process before this thread does.
        threading.main_thread().join(1)
        exit_with(process, *how, **options)

    ExecutorProcess._exit_with = exit_later
    exiting.wait()

def takes_too_long():
    def fail(folder):
        raise FileNotFoundError("the folder that this process was started in")

    RunFolder.leave = fail
    time.sleep(3600)

def cannot_be_described():
    def fail(*_, **__):
        raise RuntimeError("no outcome can be made")

    FlowRun._outcome = fail
    time.sleep(3600)

def leaves_a_handler():
    def handler(*_):
        raise InterruptedError("by a handler of an ended run")

    def set_current(process, current):
        vars(process)["current"] = current
        if current is None and pending:
            pending.clear()
            signal.raise_signal(signal.SIGUSR1)

    pending = [signal.SIGUSR1]
    signal.signal(signal.SIGUSR1, handler)
    # The signal comes after the end of the run, before anything is restored.
    ExecutorProcess._current = property(lambda process: vars(process).get("current"), set_current)

def breaks_stdout():
    sys.stdout = None

first, second = flow(ends_while_it_is_claimed), flow(breaks_stdout)
third, fourth = flow(takes_too_long), flow(cannot_be_described)
fifth = flow(leaves_a_handler)
for each in (third, fourth):
    next(iter(each.tasks)).timeout_sec = 0.2
"""


@asynccontextmanager
async def executor_of_flows(folder: Path, **fields: Any) -> AsyncIterator[ExecutorUnderTest]:
    (folder / "flows.py").write_text(FLOWS)
    async with started_executor(folder, **fields) as executor:
        assert executor.ready.failures == {}
        yield executor


async def outcome_of(executor: ExecutorUnderTest, flow: str) -> Outcome:
    async with asyncio.timeout(LIMIT_SEC):
        return await executor.execute(new_run(flow))


async def test_a_run_that_ends_while_it_is_claimed_after_silence_goes_on_from_its_journal(
    tmp_path: Path,
) -> None:
    async with executor_of_flows(tmp_path, max_silence_sec=0.5) as executor:
        outcome = await outcome_of(executor, "ends_while_it_is_claimed")
        assert (outcome.status, outcome.must_continue) == ("RUNNING", True)


@pytest.mark.parametrize("flow", ["takes_too_long", "cannot_be_described"])
async def test_an_executor_exits_with_a_task_past_its_limit_whatever_fails(tmp_path: Path, flow: str) -> None:
    async with executor_of_flows(tmp_path) as executor:
        pid = executor.started.pid
        outcome = await outcome_of(executor, flow)
        assert (outcome.status, outcome.reason) == ("FAILED", "timeout")
        assert outcome.error == f"task {flow}: it took longer than its limit of 0.2 s"
        await eventually(lambda: not is_alive(pid), describe="the executor has ended")


async def test_a_run_that_removes_stdout_completes(tmp_path: Path) -> None:
    async with executor_of_flows(tmp_path) as executor:
        outcome = await outcome_of(executor, "breaks_stdout")
        assert (outcome.status, outcome.must_restart) == ("COMPLETED", True)


async def test_a_signal_handler_of_an_ended_run_does_not_replace_the_outcome(tmp_path: Path) -> None:
    async with executor_of_flows(tmp_path) as executor:
        assert (await outcome_of(executor, "leaves_a_handler")).status == "COMPLETED"
