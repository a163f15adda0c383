"""Celery with Redis as broker and as result backend, with Celery's own defaults."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.environments import Environment, server_version
from benchmarks.peers.library_stack import LibraryStack, redis_stack
from benchmarks.peers.peer import SLOTS
from benchmarks.peers.servers import REDIS_PACKAGE

_ENVIRONMENT = Environment("celery", ("celery[redis]", "pyoco"))


@dataclass(frozen=True)
class Celery:
    name: str = "celery"
    title: str = "Celery + Redis"
    setup: str = f"1 worker with {SLOTS} processes (prefork)"
    durability: str = "none: Redis in memory, append-only file off; a task is acknowledged before it runs"
    done: str = "the task's result is in Redis"

    def prepare(self) -> dict[str, str]:
        return server_version("redis-server", REDIS_PACKAGE) | _ENVIRONMENT.prepare()

    @asynccontextmanager
    async def start(self, folder: Path, *, workers: bool) -> AsyncIterator[LibraryStack]:
        program = [_ENVIRONMENT.program("celery"), "--app", "celery_tasks", "worker"]
        worker = [*program, "--concurrency", str(SLOTS), "--loglevel", "WARNING"]
        async with redis_stack(
            folder, _ENVIRONMENT, worker=worker if workers else None, load_program="celery_load.py"
        ) as stack:
            yield stack


CELERY = Celery()
