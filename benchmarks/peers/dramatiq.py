"""Dramatiq with Redis as broker and as result backend."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import Environment, server_version
from benchmarks.peers.library_stack import LibraryStack, library_stack
from benchmarks.peers.peer import SLOTS
from benchmarks.servers import REDIS_PACKAGE, redis_server

_ENVIRONMENT = Environment("dramatiq", ("dramatiq[redis]", "pyoco"))


@dataclass(frozen=True)
class Dramatiq:
    name: str = "dramatiq"
    title: str = "Dramatiq + Redis"
    setup: str = f"{SLOTS} worker processes with 1 thread"
    durability: str = "none: Redis in memory, append-only file off"
    done: str = "the task's result is in Redis"

    def prepare(self) -> dict[str, str]:
        return server_version("redis-server", REDIS_PACKAGE) | _ENVIRONMENT.prepare()

    @asynccontextmanager
    async def start(self, folder: Path, *, workers: bool) -> AsyncIterator[LibraryStack]:
        worker = [
            _ENVIRONMENT.program("dramatiq"),
            "dramatiq_tasks",
            "--processes",
            str(SLOTS),
            "--threads",
            "1",
        ]
        async with (
            redis_server(folder) as redis,
            library_stack(
                folder,
                _ENVIRONMENT,
                server=redis,
                worker=worker if workers else None,
                load_program="dramatiq_load.py",
                env={"BENCH_REDIS_URL": redis.url},
            ) as stack,
        ):
            yield stack


DRAMATIQ = Dramatiq()
