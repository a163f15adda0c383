"""A gateway in the test's process, with an HTTP client."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from anyio.from_thread import start_blocking_portal

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.server.socket_protocol import SocketProtocol
from pyoco_server.triggers.secret_keys import new_key
from tests.support.settings import PatientConfig
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually


@dataclass(frozen=True)
class RunningGateway:
    http: httpx.AsyncClient
    # The gateway itself, in this process: its services and its connection.
    inside: Gateway

    async def submit(self, flow_name: str, **fields: Any) -> str:
        response = await self.http.post("/runs", json={"flow_name": flow_name, **fields})
        assert response.status_code == 200, response.text
        run_id: str = response.json()["run_id"]
        return run_id

    async def submit_yaml(self, source: str | bytes, **fields: str) -> httpx.Response:
        fields = {"flow_name": "from-yaml", **fields}
        return await self.http.post("/runs/yaml", files={"workflow": ("flow.yaml", source)}, data=fields)

    async def get(self, run_id: str, include: str | None = None) -> dict[str, Any]:
        query = {"include": include} if include else {}
        response = await self.http.get(f"/runs/{run_id}", params=query)
        assert response.status_code == 200, response.text
        run: dict[str, Any] = response.json()
        return run

    async def reaches(self, run_id: str, *statuses: str) -> dict[str, Any]:
        """The run once it has one of the statuses."""

        async def there() -> dict[str, Any] | None:
            run = await self.get(run_id, include="records")
            return run if run["status"] in statuses else None

        return await eventually(there, describe=f"run {run_id} is {' or '.join(statuses)}")

    async def task_runs(self, run_id: str, task: str) -> dict[str, Any]:
        """The run once its worker has stored that this task runs, which is a moment after it began."""

        async def there() -> dict[str, Any] | None:
            run = await self.get(run_id)
            return run if run["tasks"].get(task) == "RUNNING" else None

        return await eventually(there, describe=f"{task} of run {run_id} is RUNNING")

    async def ends(self, run_id: str) -> dict[str, Any]:
        return await self.reaches(run_id, "COMPLETED", "FAILED", "CANCELLED")

    async def run(self, flow_name: str, **fields: Any) -> dict[str, Any]:
        """Submit a run and wait for its end."""
        return await self.ends(await self.submit(flow_name, **fields))


async def flow_is(
    gateway: RunningGateway, name: str, is_there: Callable[[dict[str, Any]], bool] = lambda _: True
) -> dict[str, Any]:
    """The response of `GET /flows/{name}` once it is as expected."""

    async def there() -> dict[str, Any] | None:
        response = await gateway.http.get(f"/flows/{name}")
        return response.json() if response.status_code == 200 and is_there(response.json()) else None

    return await eventually(there, describe=f"the flow {name}")


@asynccontextmanager
async def running_gateway(
    config: NatsBackendConfig, *, ready: bool = True, port: int = 0
) -> AsyncIterator[RunningGateway]:
    app = create_app(config)
    # asyncio disables Nagle's algorithm only for sockets with an explicit protocol.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="on",
                proxy_headers=False,
                ws=SocketProtocol,
                # A client must not reuse a connection while the server closes it as idle.
                timeout_keep_alive=int(NEVER_SEC),
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        await eventually(lambda: server.started, describe="the gateway has started")
        port = listening.getsockname()[1]
        gateway: Gateway = app.state.gateway
        try:
            if ready:
                await gateway.connection.wait_ready(LIMIT_SEC)
            # Without TLS: loading certificates takes longer than the start.
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", timeout=LIMIT_SEC, verify=False
            ) as http:
                yield RunningGateway(http, gateway)
        finally:
            # As a signal does: open event streams would block the shutdown.
            gateway.stopping.set()
            server.should_exit = True
            await serving


@contextmanager
def gateway_beside(nats_url: str, folder: Path) -> Iterator[str]:
    """The address of a gateway in a thread, for a test without an event loop."""
    config = PatientConfig(
        nats_url=nats_url,
        nats_request_timeout_sec=LIMIT_SEC,
        index_dir=str(folder / "index"),
        secrets_keys=new_key(),
        alert_interval_sec=0.2,
        alert_networks="127.0.0.0/8",
        load_dotenv=False,
    )
    with (
        start_blocking_portal(backend_options={"use_uvloop": True}) as portal,
        portal.wrap_async_context_manager(running_gateway(config)) as gateway,
    ):
        yield str(gateway.http.base_url).rstrip("/")
