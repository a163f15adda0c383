"""An executor process for each test of this folder that asks for one."""

from collections.abc import AsyncIterator

import pytest

from tests.support.running.executors import ExecutorUnderTest, started_executor


@pytest.fixture
async def executor() -> AsyncIterator[ExecutorUnderTest]:
    async with started_executor() as executor:
        yield executor
