"""The public package pyoco-server from PyPI, on the same NATS server, by its own commands and HTTP API.

Its worker has no setting for concurrency: four workers are four slots.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.environments import Environment
from benchmarks.peers.http_stack import PROGRAMS, Commands, HttpStack, http_stack
from benchmarks.peers.peer import SLOTS

# On Python 3.11 its workers hang after a few runs: done, but never acknowledged. From 3.12 on they do not.
_ENVIRONMENT = Environment("public", ("pyoco-server",), at_least=(3, 12))


@dataclass(frozen=True)
class Public:
    name: str = "public"
    title: str = "public pyoco-server"
    setup: str = f"1 gateway, {SLOTS} workers"
    durability: str = "run and state in files, fsync each second (the same NATS server)"
    done: str = "the run's COMPLETED snapshot is stored"

    def prepare(self) -> dict[str, str]:
        return _ENVIRONMENT.prepare()

    @asynccontextmanager
    async def start(self, folder: Path, *, workers: bool) -> AsyncIterator[HttpStack]:
        worker = [_ENVIRONMENT.program("pyoco-worker"), "--nats-url", "{nats}", "--tags", "default"]
        resolver = ["--flow-resolver", "{flows}/bench_flows.py:resolve_flow"]
        commands = Commands(
            gateway=[
                *[_ENVIRONMENT.program("pyoco-server"), "up", "--port", "{port}", "--nats-url", "{nats}"],
                *["--log-level", "warning"],
            ],
            workers={
                name: [*worker, *resolver, "--worker-id", name]
                for name in (f"worker-{number}" for number in range(SLOTS))
            },
        )
        env = {
            "PYOCO_LOAD_DOTENV": "0",
            "PYTHONPATH": os.pathsep.join([str(PROGRAMS), str(folder / "flows")]),
        }
        async with http_stack(folder, commands, workers=workers, env=env) as stack:
            yield stack


PUBLIC = Public()
