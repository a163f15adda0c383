"""Taskiq on NATS: the JetStream pull broker, and no result backend.

Its four slots are four processes, as ours are; and once more two processes with two tasks each, which suits
tasks that do nothing better on two cores.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.environments import Environment
from benchmarks.peers.library_stack import LibraryStack, library_stack
from benchmarks.peers.peer import SLOTS
from benchmarks.peers.servers import Server
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats

_ENVIRONMENT = Environment("taskiq", ("taskiq[uv]", "taskiq-nats", "taskiq-pipelines", "pyoco"))


@dataclass(frozen=True)
class Taskiq:
    name: str
    title: str
    workers: int
    setup: str
    durability: str = "the queue only, in files, fsync each second; no state, no result"
    done: str = "the task's message is acknowledged"

    def prepare(self) -> dict[str, str]:
        return _ENVIRONMENT.prepare()

    @asynccontextmanager
    async def start(self, folder: Path, *, workers: bool) -> AsyncIterator[LibraryStack]:
        program = [_ENVIRONMENT.program("taskiq"), "worker", "taskiq_tasks:broker", "--log-level", "WARNING"]
        worker = [*program, "--workers", str(self.workers), "--max-async-tasks", str(SLOTS // self.workers)]
        async with (
            EmbeddedNats(folder / "nats") as nats,
            library_stack(
                folder,
                _ENVIRONMENT,
                server=Server(nats.url, nats.pid),
                worker=worker if workers else None,
                load_program="taskiq_load.py",
                env={"BENCH_NATS_URL": nats.url},
            ) as stack,
        ):
            yield stack


TASKIQ = Taskiq(
    name="taskiq",
    title="Taskiq on NATS",
    workers=SLOTS,
    setup=f"{SLOTS} worker processes with 1 task at a time, uvloop",
)
TASKIQ_2X2 = Taskiq(
    name="taskiq-2x2",
    title="Taskiq on NATS, 2 × 2",
    workers=2,
    setup=f"2 worker processes with {SLOTS // 2} tasks at a time, uvloop",
)
