"""A peer that is a library: a driver process in its environment receives commands and creates the load."""

import asyncio
import json
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.environments import Environment, NotMeasured
from benchmarks.harness.http_load import Load
from benchmarks.harness.processes import running
from benchmarks.peers.peer import MOST_QUEUED, WARM_UP_RUNS, Sustained, Work
from benchmarks.peers.servers import Server, redis_server

PROGRAMS = Path(__file__).parent / "programs"
_WARM_UP_LIMIT_SEC = 60.0


@dataclass
class LibraryStack:
    driver: Process
    processes: dict[str, list[int]]
    log: Path
    kinds_of_work: tuple[Work, ...] = tuple(Work)

    async def submit(self, *, runs: int, connections: int, limit_sec: float, work: Work = Work.FLOW) -> Load:
        answer = await self._order(
            "submit", runs=runs, connections=connections, limit_sec=limit_sec, work=work.value
        )
        return Load(latencies=answer["latencies"], seconds=answer["seconds"])

    async def sustain(self, *, seconds: float, connections: int) -> Sustained:
        answer = await self._order(
            "sustain", seconds=seconds, connections=connections, most_queued=MOST_QUEUED
        )
        return Sustained(answer["ended"], answer["seconds"], answer["latencies"])

    async def wait(self, *, limit_sec: float) -> int:
        missing: int = (await self._order("wait", limit_sec=limit_sec))["missing"]
        return missing

    async def stamp(self, *, runs: int, every_sec: float, stamps: Path) -> None:
        await self._order("stamp", runs=runs, every_sec=every_sec, stamps=str(stamps))

    async def chain(self, *, tasks: int, task_sec: float, limit_sec: float) -> float:
        answer = await self._order("chain", tasks=tasks, task_sec=task_sec, limit_sec=limit_sec)
        seconds: float = answer["seconds"]
        return seconds

    async def _order(self, do: str, **details: object) -> Any:
        assert self.driver.stdin is not None
        assert self.driver.stdout is not None
        self.driver.stdin.write(json.dumps({"do": do, **details}).encode() + b"\n")
        line = await self.driver.stdout.readline()
        if not line:
            raise NotMeasured(f"its driver has ended: {_last_line(self.log)}")
        answer = json.loads(line)
        if "error" in answer:
            raise NotMeasured(answer["error"])
        return answer


@asynccontextmanager
async def library_stack(
    folder: Path,
    environment: Environment,
    *,
    server: Server | None,
    worker: Sequence[str] | None,
    load_program: str,
    env: dict[str, str],
) -> AsyncIterator[LibraryStack]:
    """A worker, where one is given, and the driver, in the peer's environment; warm when it is yielded."""
    async with AsyncExitStack() as stack:
        processes = {"broker": [server.pid]} if server else {}
        if worker is not None:
            started = running(worker, log=folder / "worker.log", env=env, cwd=PROGRAMS)
            processes["worker"] = [(await stack.enter_async_context(started)).pid]
        log = folder / "driver.log"
        driver = await stack.enter_async_context(
            running([environment.python, load_program], log=log, env=env, cwd=PROGRAMS, piped=True)
        )
        processes["driver"] = [driver.pid]
        running_stack = LibraryStack(driver, processes, log)
        if worker is not None:
            async with asyncio.timeout(2 * _WARM_UP_LIMIT_SEC):
                await _warm_up(running_stack)
        yield running_stack


@asynccontextmanager
async def redis_stack(
    folder: Path, environment: Environment, *, worker: Sequence[str] | None, load_program: str
) -> AsyncIterator[LibraryStack]:
    """As `library_stack`, with Redis, whose address is in `BENCH_REDIS_URL`."""
    async with (
        redis_server(folder) as redis,
        library_stack(
            folder,
            environment,
            server=redis,
            worker=worker,
            load_program=load_program,
            env={"BENCH_REDIS_URL": redis.url},
        ) as stack,
    ):
        yield stack


async def _warm_up(stack: LibraryStack) -> None:
    await stack.submit(runs=WARM_UP_RUNS, connections=4, limit_sec=_WARM_UP_LIMIT_SEC)
    if missing := await stack.wait(limit_sec=_WARM_UP_LIMIT_SEC):
        raise NotMeasured(f"{missing} runs of the warm-up were not done in {_WARM_UP_LIMIT_SEC:g} s")


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
