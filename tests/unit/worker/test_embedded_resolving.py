"""Cancelling and ending a run of an embedded worker while its flow is being resolved."""

import asyncio
import threading

import pytest
from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.executors.executor import ExecutorCrashed
from pyoco_server.worker.executors.thread_executor import ThreadExecutor
from pyoco_server.worker.ipc.protocol import Outcome, Run
from tests.support.running.executors import NO_EVENTS
from tests.support.waiting import LIMIT_SEC, eventually


class Resolving:
    """An embedded executor with a run whose flow is resolved when the test says so."""

    def __init__(self) -> None:
        self.executed = threading.Event()
        self.asked, self.resolved = threading.Event(), threading.Event()
        self.executor = ThreadExecutor(self._resolve, NatsBackendConfig(load_dotenv=False))

    def _resolve(self, name: str) -> Flow:
        self.asked.set()
        self.resolved.wait(LIMIT_SEC)
        return Flow(name) >> TaskWrapper(Task(func=self.executed.set, name="work"))

    async def begin(self) -> "asyncio.Task[Outcome]":
        run = Run(run_id="r", flow_name="f", params=b"{}")
        execution = asyncio.create_task(self.executor.execute(run, NO_EVENTS))
        await eventually(self.asked.is_set, describe="the flow is being resolved")
        return execution


@pytest.fixture
def resolving() -> Resolving:
    return Resolving()


async def test_a_cancel_while_resolving_is_applied(resolving: Resolving) -> None:
    execution = await resolving.begin()
    resolving.executor.cancel("r")
    resolving.resolved.set()
    async with asyncio.timeout(LIMIT_SEC):
        assert (await execution).status == "CANCELLED"
    assert not resolving.executed.is_set()


async def test_the_cancel_of_another_run_is_ignored(resolving: Resolving) -> None:
    execution = await resolving.begin()
    resolving.executor.cancel("another")
    resolving.resolved.set()
    async with asyncio.timeout(LIMIT_SEC):
        assert (await execution).status == "COMPLETED"


async def test_a_forced_run_does_not_wait_for_its_flow(resolving: Resolving) -> None:
    execution = await resolving.begin()
    await resolving.executor.force_end("FAILED", "too long")
    try:
        async with asyncio.timeout(LIMIT_SEC):
            outcome = await execution
        assert (outcome.status, outcome.error, outcome.forced) == ("FAILED", "too long", True)
    finally:
        resolving.resolved.set()
    assert not resolving.executed.is_set()


async def test_a_killed_run_does_not_wait_for_its_flow(resolving: Resolving) -> None:
    execution = await resolving.begin()
    await resolving.executor.kill()
    try:
        async with asyncio.timeout(LIMIT_SEC):
            with pytest.raises(ExecutorCrashed):
                await execution
    finally:
        resolving.resolved.set()
    assert not resolving.executed.is_set()
