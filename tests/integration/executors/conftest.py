"""An executor process for each test of this folder that asks for one."""

from asyncio.subprocess import create_subprocess_exec
from collections.abc import AsyncIterator

import pytest

from pyoco_server.worker.executors import os_process
from tests.support.running.executors import ExecutorUnderTest, started_executor


@pytest.fixture
async def executor() -> AsyncIterator[ExecutorUnderTest]:
    async with started_executor() as executor:
        yield executor


@pytest.fixture
def new_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors are started as in production, and not forked."""
    monkeypatch.setattr(os_process, "create_subprocess_exec", create_subprocess_exec)
