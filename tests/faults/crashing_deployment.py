"""Gateways one after the other on one NATS, of which each may kill itself at a chosen point."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.waits.wait_store import StoredWait, WaitStore
from pyoco_server.config import NatsBackendConfig
from tests.faults.chaos.service import Service
from tests.support.broker.connections import connected
from tests.support.places import ROOT
from tests.support.programs import SERVER, environment
from tests.support.waiting import LIMIT_SEC, eventually

CRASHING_GATEWAY = "tests.support.running.crashing_gateway"


@dataclass
class Deployment:
    """Each gateway has an address of its own."""

    folder: Path
    env: dict[str, str]
    connection: Connection
    http: httpx.AsyncClient
    gateway: Service | None = None

    async def start_gateway(self, crash_point: str | None = None) -> None:
        """Start one, which kills itself at the crash point if one is given."""
        name = f"gateway-{crash_point or 'successor'}".replace(" ", "-")
        module, *options = (SERVER,) if crash_point is None else (CRASHING_GATEWAY, crash_point, "1")
        self.gateway = Service(name, module, *options, "up", "--port", "0", folder=self.folder, env=self.env)
        self.http.base_url = httpx.URL((await self.gateway.start())["url"])

        async def ready() -> bool:
            return (await self.http.get("/health?ready=1")).status_code == 200

        await eventually(ready, describe="the gateway is ready")

    @asynccontextmanager
    async def successor(self) -> AsyncIterator[None]:
        """A gateway that does not crash."""
        await self.start_gateway()
        assert self.gateway is not None
        try:
            yield
        finally:
            self.gateway.kill()

    async def post(self, path: str, body: dict[str, Any], **headers: str) -> Any:
        """The response to a request that is repeated while it gets a 503."""

        async def answered() -> httpx.Response | None:
            answer = await self.http.post(path, json=body, headers=headers)
            return None if answer.status_code == 503 else answer

        answer = await eventually(answered, describe=f"POST {path} is answered")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def get(self, path: str) -> Any:
        answer = await self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def reaches(self, run_id: str, *statuses: str) -> dict[str, Any]:
        async def there() -> dict[str, Any] | None:
            run: dict[str, Any] = await self.get(f"/runs/{run_id}")
            return run if run["status"] in statuses else None

        return await eventually(there, describe=f"the run is {' or '.join(statuses)}")

    async def gateway_crashes_on(self, path: str, body: dict[str, Any]) -> None:
        """The client gets no response, and the gateway has ended."""
        assert self.gateway is not None
        with pytest.raises(httpx.TransportError):
            await self.post(path, body)
        await self.gateway.killed_itself()

    async def wait(self, run_id: str) -> StoredWait:
        [wait] = await WaitStore(self.connection).of_run_from_leader(run_id)
        return wait


@asynccontextmanager
async def crashing_deployment(
    config: NatsBackendConfig, folder: Path, **settings: str
) -> AsyncIterator[Deployment]:
    """Without a gateway at first; the last one is killed at the end."""
    env = environment(
        PYOCO_NATS_URL=config.nats_url,
        PYTHONPATH=str(ROOT),
        PYOCO_INDEX_DIR=str(folder / "index"),
        **settings,
    )
    async with (
        connected(config) as connection,
        httpx.AsyncClient(timeout=LIMIT_SEC, verify=False) as http,
    ):
        deployment = Deployment(folder, env, connection, http)
        try:
            yield deployment
        finally:
            if deployment.gateway is not None:
                deployment.gateway.kill()
