"""A gateway that serves the requests of a repository, and its WebSocket."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import websockets

from pyoco_server.agent.agent_errors import AgentCode
from pyoco_server.agent.flow.worker_setup import FLOWS_FOLDER
from pyoco_server.agent.requests.request_queue import RequestQueue
from pyoco_server.api.endpoints.endpoint import Endpoint
from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.config import NatsBackendConfig
from tests.support.agent.repository import AgentRepository
from tests.support.agent.running import TAG
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

API = "/api/v1"


@dataclass(frozen=True)
class ServedRepository:
    gateway: RunningGateway
    repository: AgentRepository

    @property
    def http(self) -> httpx.AsyncClient:
        return self.gateway.http

    @property
    def queue(self) -> RequestQueue:
        assert self.gateway.inside.agent_requests is not None
        return self.gateway.inside.agent_requests.service.queue

    async def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        response = await self.http.request(method, f"{API}{path}", json=body)
        if not response.is_success:
            _check_declared(method, f"{API}{path.partition('?')[0]}", response.json()["error"]["code"])
        return response

    async def ok(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        response = await self.call(method, path, body)
        assert response.is_success, response.text
        found: dict[str, Any] = response.json()
        return found

    async def error(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """The status and the code of an error."""
        response = await self.call(method, path, body)
        return response.status_code, response.json()["error"]["code"]

    async def create(self, request_id: str, **fields: Any) -> str:
        body = {"title": f"Do {request_id}", "id": request_id, "want": {"text": "Three files"}, **fields}
        await self.ok("POST", "/requests", body)
        return request_id

    async def get(self, request_id: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.ok("GET", f"/requests/{request_id}"))["request"]
        return found

    async def act(self, request_id: str, action: str, body: Any = None) -> dict[str, Any]:
        done = await self.ok("POST", f"/requests/{request_id}/{action}", body)
        found: dict[str, Any] = done["request"]
        return found

    async def reaches(self, request_id: str, *statuses: str) -> dict[str, Any]:
        """The request once it has one of the statuses."""

        async def there() -> dict[str, Any] | None:
            found = await self.get(request_id)
            return found if found["status"] in statuses else None

        return await eventually(there, describe=f"{request_id} is {' or '.join(statuses)}")

    async def has_run(self, request_id: str, number: str = "001") -> str:
        """The id of its stored run, once it has one."""

        async def there() -> str | None:
            found = await self.get(request_id)
            if found["run_id"] != number or found["pyoco_run_id"] is None:
                return None
            response = await self.http.get(f"/runs/{found['pyoco_run_id']}")
            return str(found["pyoco_run_id"]) if response.status_code == 200 else None

        return await eventually(there, describe=f"{request_id} has the run {number}")

    async def runs(self) -> list[dict[str, Any]]:
        """All runs of requests, as the gateway lists them."""
        page = await self.http.get("/runs", params={"cause": "request", "limit": 200})
        found: list[dict[str, Any]] = page.json()["items"] if isinstance(page.json(), dict) else page.json()
        return found

    def socket_url(self, path: str) -> str:
        return str(self.http.base_url).replace("http", "ws", 1).rstrip("/") + path

    async def events(self, request_id: str, number: str = "001") -> list[dict[str, Any]]:
        """Everything that the WebSocket of a run sends, to its end."""
        return await read_events(self.socket_url(f"{API}/ws/requests/{request_id}/runs/{number}"))


def _check_declared(method: str, path: str, code: str) -> None:
    """A page can tell errors apart only if the endpoint names them."""
    known = [each for each in ENDPOINTS if each.method == method and _matches(each, path)]
    if known and code in list(AgentCode):
        assert code in (AgentCode.NO_REPOSITORY, *known[0].codes), f"{known[0].route} does not declare {code}"


def _matches(endpoint: Endpoint, path: str) -> bool:
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", endpoint.path), path) is not None


async def read_events(url: str, **options: Any) -> list[dict[str, Any]]:
    async with websockets.connect(url, proxy=None, **options) as socket:
        return [json.loads(message) async for message in socket]


async def refusal(
    url: str, *, origin: str | None = None, protocols: Sequence[str] = (), **headers: str
) -> tuple[int, str]:
    """The status and the code of a refused handshake."""
    try:
        async with websockets.connect(
            url,
            proxy=None,
            origin=origin,  # type: ignore[arg-type]
            subprotocols=protocols or None,  # type: ignore[arg-type]
            additional_headers={name.replace("_", "-"): value for name, value in headers.items()},
        ):
            raise AssertionError("the handshake was accepted")
    except websockets.InvalidStatus as refused:
        body = json.loads(bytes(refused.response.body or b"{}"))
        return refused.response.status_code, body["error"]["code"]


def served_config(config: NatsBackendConfig, repository: AgentRepository, **fields: Any) -> NatsBackendConfig:
    return replace(config, agent_repo=str(repository.repo), agent_tag=TAG, **fields)


@asynccontextmanager
async def serving(config: NatsBackendConfig, repository: AgentRepository) -> AsyncIterator[ServedRepository]:
    async with running_gateway(served_config(config, repository)) as gateway:
        yield ServedRepository(gateway, repository)


@asynccontextmanager
async def repository_worker(config: NatsBackendConfig) -> AsyncIterator[None]:
    """The one-slot worker of the repository of AIFLOW_REPO."""
    async with serving_worker(config, tags=[TAG], flows=Path(FLOWS_FOLDER)):
        yield
