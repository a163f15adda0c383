"""The brokers of the peers, each with its own port and a temporary folder."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.environments import NotMeasured, server_program
from benchmarks.harness.processes import free_port, running, until_listening

REDIS_PACKAGE = "redis-server"
POSTGRES_PACKAGE = "postgresql"
_POSTGRES_USER = "postgres"


@dataclass(frozen=True)
class Server:
    url: str
    pid: int


@asynccontextmanager
async def redis_server(folder: Path) -> AsyncIterator[Server]:
    """Redis at its fastest: everything in memory, nothing on disk."""
    port = free_port()
    program = server_program("redis-server", REDIS_PACKAGE)
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    command = [program, *options, "--save", "", "--appendonly", "no"]
    async with running(command, log=folder / "redis.log") as process:
        await until_listening(port)
        yield Server(f"redis://127.0.0.1:{port}", process.pid)


@asynccontextmanager
async def postgres_server(folder: Path) -> AsyncIterator[Server]:
    """PostgreSQL with its defaults: each commit is on disk before it is answered."""
    data = folder / "postgres"
    data.mkdir(mode=0o700)
    as_user: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(data, _POSTGRES_USER, _POSTGRES_USER)
        as_user = ["setpriv", f"--reuid={_POSTGRES_USER}", f"--regid={_POSTGRES_USER}", "--clear-groups"]
    await _init_database(data, as_user)
    port = free_port()
    program = server_program("postgres", POSTGRES_PACKAGE)
    options = ["-p", str(port), "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={data}"]
    command = [*as_user, program, "-D", str(data), *options]
    async with running(command, log=folder / "postgres.log", cwd=data) as process:
        await until_listening(port)
        yield Server(f"postgresql+psycopg://{_POSTGRES_USER}@127.0.0.1:{port}/bench", process.pid)


async def _init_database(data: Path, as_user: list[str]) -> None:
    program = [*as_user, server_program("initdb", POSTGRES_PACKAGE)]
    process = await asyncio.create_subprocess_exec(
        *[*program, "-D", str(data), "-U", _POSTGRES_USER, "--auth=trust", "--encoding=UTF8"],
        cwd=data,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, stderr = await process.communicate()
    if process.returncode:
        raise NotMeasured(f"initdb failed: {stderr.decode().strip()}")
