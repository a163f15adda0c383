"""A worker that the tests of a module share, and tags for tests with workers of their own."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from pyoco.core.models import Flow

from pyoco_server.worker import PyocoNatsWorker
from tests.support.places import FLOWS
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import idle_worker, serving_worker
from tests.support.waiting import eventually


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_worker(shared_gateway: RunningGateway) -> AsyncIterator[PyocoNatsWorker]:
    """With one slot: a run has the executor of the run before it."""
    async with serving_worker(shared_gateway.inside.config) as worker:
        yield worker


@pytest.fixture
def served(shared_gateway: RunningGateway, shared_worker: PyocoNatsWorker) -> RunningGateway:
    """The shared gateway, with the shared worker."""
    return shared_gateway


class OwnQueue:
    """A tag of one test at the shared gateway, with workers of its own."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.gateway = gateway
        self.tag = f"tag-{uuid4().hex}"

    def worker(
        self, worker_id: str | None = None, *, concurrency: int = 1, flows: Path = FLOWS, **settings: Any
    ) -> AbstractAsyncContextManager[PyocoNatsWorker]:
        return serving_worker(
            replace(self.gateway.inside.config, **settings),
            concurrency=concurrency,
            worker_id=worker_id or self.tag,
            tags=[self.tag],
            flows=flows,
        )

    def idle_worker(
        self, flow: Flow, worker_id: str, **settings: Any
    ) -> AbstractAsyncContextManager[PyocoNatsWorker]:
        config = replace(self.gateway.inside.config, **settings)
        return idle_worker(config, flow, worker_id=worker_id, tags=[self.tag])

    async def submit(self, flow_name: str, **fields: Any) -> str:
        return await self.gateway.submit(flow_name, tag=self.tag, **fields)

    async def run(self, flow_name: str, **fields: Any) -> dict[str, Any]:
        return await self.gateway.run(flow_name, tag=self.tag, **fields)

    async def becomes_empty(self) -> None:
        """Wait until all of its jobs are acknowledged or terminated."""
        context = self.gateway.inside.connection.client.jetstream()

        async def is_empty() -> bool:
            info = await context.stream_info("PYOCO_WORK", subjects_filter=f"pyoco.work.{self.tag}")
            return not info.state.subjects

        await eventually(is_empty, describe="no job is left")


@pytest.fixture
def own_queue(shared_gateway: RunningGateway) -> OwnQueue:
    return OwnQueue(shared_gateway)
