"""Workers for tests, with executor processes or inside the test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pyoco.core.models import Flow

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.ipc.protocol import Setup
from tests.support.places import FLOWS
from tests.support.waiting import LIMIT_SEC


@asynccontextmanager
async def idle_worker(
    config: NatsBackendConfig, flow: Flow, *, worker_id: str = "worker", tags: list[str] | None = None
) -> AsyncIterator[PyocoNatsWorker]:
    """A worker inside this process that takes no run by itself."""
    worker = await PyocoNatsWorker.connect(
        config, flow_resolver=lambda _: flow, worker_id=worker_id, tags=tags
    )
    try:
        yield worker
    finally:
        await worker.close()


@asynccontextmanager
async def serving_worker(
    config: NatsBackendConfig,
    *,
    concurrency: int = 1,
    worker_id: str = "worker",
    tags: list[str] | None = None,
    flows: Path = FLOWS,
    setup: Setup | None = None,
) -> AsyncIterator[PyocoNatsWorker]:
    setup = setup or Setup.from_config(config, flows=str(flows))
    worker = await PyocoNatsWorker.connect_processes(
        config, setup, concurrency=concurrency, worker_id=worker_id, tags=tags, timeout_sec=LIMIT_SEC
    )
    stop = asyncio.Event()
    serving = asyncio.create_task(worker.serve(stop))
    try:
        yield worker
        stop.set()
        await serving
    finally:
        # A test that has failed does not wait for its runs.
        serving.cancel()
        await asyncio.wait({serving})
        await worker.close()
