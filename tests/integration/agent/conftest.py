"""A repository with a worker of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from pyoco_server.agent.flow.work_session import REPO_VARIABLE
from pyoco_server.config import NatsBackendConfig
from tests.support.agent.repository import AgentRepository
from tests.support.agent.running import Agent, running_agent
from tests.support.agent.served_repository import ServedRepository, serving
from tests.support.running.gateway import RunningGateway


@pytest_asyncio.fixture(loop_scope="module")
async def agent(
    shared_gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Agent]:
    """The repository and its worker are the test's own."""
    config = shared_gateway.inside.config
    async with running_agent(shared_gateway, config, tmp_path, monkeypatch) as running:
        yield running


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentRepository:
    found = AgentRepository(tmp_path / "agent")
    monkeypatch.setenv(REPO_VARIABLE, str(found.repo))
    monkeypatch.setenv("HOME", str(tmp_path))
    return found


@pytest.fixture
async def served(config: NatsBackendConfig, repository: AgentRepository) -> AsyncIterator[ServedRepository]:
    """A gateway that serves a repository, without a worker: runs are started, and nobody executes them."""
    async with serving(config, repository) as found:
        yield found
