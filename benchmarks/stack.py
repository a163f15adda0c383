"""The product as it is deployed: NATS, gateway and worker, each in a process of its own."""

import asyncio
import os
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from pyoco_server.broker.embedded import EmbeddedNats

FLOWS = Path(__file__).parent / "flows"
_START_LIMIT_SEC = 30.0


@dataclass(frozen=True)
class Stack:
    port: int
    nats_url: str
    gateway_pid: int
    worker_pid: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def running_stack(folder: Path, *, concurrency: int) -> AsyncIterator[Stack]:
    """Start everything on free ports; stop it in order."""
    async with AsyncExitStack() as stack:
        nats = await stack.enter_async_context(EmbeddedNats(folder / "nats"))
        port = _free_port()
        env = {
            **os.environ,
            "PYOCO_NATS_URL": nats.url,
            "PYOCO_LOG_LEVEL": "WARNING",
            "PYOCO_RUN_DIR": str(folder / "runs"),
            "PYOCO_LOAD_DOTENV": "0",
        }
        gateway = await _start(stack, env, "server", "up", "--port", str(port))
        worker = await _start(stack, env, "worker", "--flows", str(FLOWS), "--concurrency", str(concurrency))
        running = Stack(port, nats.url, gateway.pid, worker.pid)
        async with asyncio.timeout(_START_LIMIT_SEC):
            await _first_run(running.url)
        yield running


def resident_mb(pid: int) -> float:
    """Memory of a process, from the kernel's own count."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"no VmRSS for {pid}")


async def _start(stack: AsyncExitStack, env: dict[str, str], *arguments: str) -> Process:
    program, *rest = arguments
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"pyoco_server.cli.{program}", *rest, env=env
    )

    async def stop() -> None:
        process.terminate()
        await process.wait()

    stack.push_async_callback(stop)
    return process


async def _first_run(url: str) -> None:
    """Wait until a run has gone all the way: then everything is warm."""
    async with httpx.AsyncClient(base_url=url) as http:
        while True:
            try:
                answer = await http.post("/runs", json={"flow_name": "noop"})
                if answer.status_code == 200:
                    break
            except httpx.TransportError:
                await asyncio.sleep(0.05)
        run_id = answer.json()["run_id"]
        while (await http.get(f"/runs/{run_id}")).json()["status"] != "COMPLETED":
            await asyncio.sleep(0.02)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
