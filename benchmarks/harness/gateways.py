"""Gateways without workers, each on a free port."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.harness.http_load import HttpConnection, RequestRefused
from benchmarks.harness.processes import free_port, running, until_listening

_POLL_SEC: Final = 0.02
_FILL_LIMIT_SEC: Final = 1800.0


@dataclass(frozen=True)
class Gateway:
    port: int
    pid: int
    # From the start of the process until it was ready.
    ready_sec: float


@asynccontextmanager
async def started(nats_url: str, folder: Path, **settings: str) -> AsyncIterator[Gateway]:
    """A gateway whose index is ready."""
    port = free_port()
    command = [sys.executable, "-m", "pyoco_server.cli.server.server_command", "up"]
    options = ["--port", str(port), "--nats-url", nats_url]
    # Not hidden: its memory is measured.
    unhidden = {"PYOCO_HIDE_PROCESS": "0"}
    env = {"PYOCO_LOG_LEVEL": "WARNING", "PYOCO_LOAD_DOTENV": "0", **unhidden, **settings}
    began = time.perf_counter()
    async with running([*command, *options], log=folder / "gateway.log", env=env, cwd=folder) as process:
        await until_listening(port)
        await _until_ready(port)
        yield Gateway(port, process.pid, time.perf_counter() - began)


async def _until_ready(port: int) -> None:
    request = b"GET /health?ready=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with asyncio.timeout(_FILL_LIMIT_SEC):
        connection = await HttpConnection.open(port)
        while True:
            try:
                answer = await connection.call(request)
            except RequestRefused:
                await asyncio.sleep(_POLL_SEC)
            else:
                assert msgspec.json.decode(answer)["index"]["ready"]
                connection.close()
                return
