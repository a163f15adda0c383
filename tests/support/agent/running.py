"""Runs of the flow `agent_request` at a gateway, on a worker that has the repository."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.agent.flow.work_session import FLOW_NAME, REPO_VARIABLE, run_params
from pyoco_server.agent.flow.worker_setup import FLOWS_FOLDER
from pyoco_server.agent.run_files import RunFiles, Stage
from pyoco_server.broker.client.connection import Connection
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.runs.lifecycle.durable_start import DurableStarter
from pyoco_server.runs.lifecycle.submission import new_job
from tests.support.agent.repository import AgentRepository
from tests.support.running.gateway import RunningGateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

TAG = "repo-0123456789ab"


async def start_run(connection: Connection, params: dict[str, Any]) -> str:
    """Start a run as the queue of the repository does; its id."""
    cause = Cause(kind=CauseKind.REQUEST, id=str(params["request_id"]))
    job = new_job(flow_name=FLOW_NAME, tag=TAG, params=params, cause=cause)
    assert await DurableStarter(connection).ensure_run(job)
    return job.run_id


@dataclass
class AgentRun:
    gateway: RunningGateway
    repository: AgentRepository
    request_id: str
    sequence: str
    run_id: str = ""

    @property
    def files(self) -> RunFiles:
        return RunFiles(self.repository.settings.paths, self.request_id, self.sequence)

    @property
    def stage(self) -> Stage:
        stage = self.files.stage()
        assert stage is not None
        return stage

    @property
    def log(self) -> str:
        path = self.files.path / "runner.log"
        return path.read_text() if path.exists() else ""

    @property
    def header(self) -> dict[str, Any]:
        return self.repository.header(self.request_id)

    async def submit(self, **params: Any) -> None:
        given = run_params(self.request_id, self.sequence, self.repository.repo) | params
        self.run_id = await start_run(self.gateway.inside.connection, given)

    async def ends(self) -> dict[str, Any]:
        return await self.gateway.ends(self.run_id)

    async def asks(self) -> dict[str, Any]:
        return await self.gateway.reaches(self.run_id, "WAITING_HUMAN")

    async def answer(self, text: str) -> None:
        done = await self.gateway.http.post("/resume", json={"runId": self.run_id, "payload": text})
        assert done.status_code == 200, done.text

    async def cancel(self) -> None:
        done = await self.gateway.http.post(f"/runs/{self.run_id}/cancel")
        assert done.status_code == 200, done.text

    async def logs(self, text: str) -> None:
        """Wait until runner.log has the text."""
        await eventually(lambda: text in self.log, describe=f"{text!r} in runner.log")


@dataclass
class Agent:
    """A repository, and the gateway and worker that serve it."""

    gateway: RunningGateway
    repository: AgentRepository

    async def start(self, request_id: str, sequence: str = "001", **params: Any) -> AgentRun:
        run = AgentRun(self.gateway, self.repository, request_id, sequence)
        await run.submit(**params)
        return run

    async def run(
        self, request_id: str, sequence: str = "001", **params: Any
    ) -> tuple[AgentRun, dict[str, Any]]:
        """Start a run and wait for its end."""
        run = await self.start(request_id, sequence, **params)
        return run, await run.ends()


@asynccontextmanager
async def running_agent(
    gateway: RunningGateway, config: NatsBackendConfig, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Agent]:
    """A worker with the flow of agent requests, for a new repository in the folder."""
    repository = AgentRepository(folder / "agent")
    monkeypatch.setenv(REPO_VARIABLE, str(repository.repo))
    monkeypatch.setenv("HOME", str(folder))
    async with serving_worker(config, tags=[TAG], flows=FLOWS_FOLDER):
        yield Agent(gateway, repository)
