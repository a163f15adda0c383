"""Fixtures for all tests of a module, in place of those of conftest.py: `gateway = module_gateway()`.

For a module whose tests have data of their own each.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker import PyocoNatsWorker
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker


def module_gateway(**settings: Any) -> Any:
    @pytest_asyncio.fixture(scope="module", loop_scope="session")
    async def gateway(
        shared_config: NatsBackendConfig, dashboard_folder: Path, dashboard_port: int
    ) -> AsyncIterator[RunningGateway]:
        async with running_gateway(replace(shared_config, **settings), port=dashboard_port) as running:
            yield running

    return gateway


def module_worker() -> Any:
    """A worker with two slots and the flows of tests/flows."""

    @pytest_asyncio.fixture(scope="module", loop_scope="session")
    async def worker(gateway: RunningGateway) -> AsyncIterator[PyocoNatsWorker]:
        async with serving_worker(gateway.inside.config, concurrency=2) as serving:
            yield serving

    return worker
