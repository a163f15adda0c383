"""Dramatiq with Redis as broker and as result backend.

Its four slots are four processes, as ours are; and once more as its own command starts it by default: one
process per core, with eight threads each, which are more slots and suit tasks that do nothing better.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.environments import Environment, server_version
from benchmarks.peers.library_stack import LibraryStack, redis_stack
from benchmarks.peers.peer import SLOTS
from benchmarks.peers.servers import REDIS_PACKAGE

_ENVIRONMENT = Environment("dramatiq", ("dramatiq[redis]", "pyoco"))


@dataclass(frozen=True)
class Dramatiq:
    name: str
    title: str
    setup: str
    # What its command is told about processes and threads.
    layout: tuple[str, ...]
    durability: str = "none: Redis in memory, append-only file off"
    done: str = "the task's result is in Redis"

    def prepare(self) -> dict[str, str]:
        return server_version("redis-server", REDIS_PACKAGE) | _ENVIRONMENT.prepare()

    @asynccontextmanager
    async def start(self, folder: Path, *, workers: bool) -> AsyncIterator[LibraryStack]:
        worker = [_ENVIRONMENT.program("dramatiq"), "dramatiq_tasks", *self.layout]
        async with redis_stack(
            folder, _ENVIRONMENT, worker=worker if workers else None, load_program="dramatiq_load.py"
        ) as stack:
            yield stack


DRAMATIQ = Dramatiq(
    name="dramatiq",
    title="Dramatiq + Redis",
    setup=f"{SLOTS} worker processes with 1 thread",
    layout=("--processes", str(SLOTS), "--threads", "1"),
)
DRAMATIQ_DEFAULT = Dramatiq(
    name="dramatiq-default",
    title="Dramatiq + Redis, its default",
    setup=f"as `dramatiq` starts it: {os.cpu_count()} worker processes (one per core) with 8 threads",
    layout=(),
)
