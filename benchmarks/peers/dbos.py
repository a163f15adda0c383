"""DBOS, on SQLite and on PostgreSQL: a worker process takes workflows from a queue."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.environments import Environment, NotMeasured, server_version
from benchmarks.peers.library_stack import PROGRAMS, LibraryStack, library_stack
from benchmarks.peers.peer import SLOTS
from benchmarks.peers.servers import POSTGRES_PACKAGE, postgres_server

_ENVIRONMENT = Environment("dbos", ("dbos", "pyoco"))


@dataclass(frozen=True)
class Dbos:
    name: str
    title: str
    durability: str
    on_postgres: bool
    setup: str = f"1 worker with {SLOTS} threads, queue polled every 10 ms (its default is 1 s)"
    done: str = "the workflow's SUCCESS is in the database"

    def prepare(self) -> dict[str, str]:
        database = server_version("postgres", POSTGRES_PACKAGE) if self.on_postgres else {}
        return database | _ENVIRONMENT.prepare()

    @asynccontextmanager
    async def start(self, folder: Path, *, workers: bool) -> AsyncIterator[LibraryStack]:
        async with AsyncExitStack() as exits:
            server = await exits.enter_async_context(postgres_server(folder)) if self.on_postgres else None
            url = server.url if server else f"sqlite:///{folder / 'dbos.sqlite'}"
            await _create_tables(url)
            stack = library_stack(
                folder,
                _ENVIRONMENT,
                server=server,
                worker=[_ENVIRONMENT.python, "dbos_tasks.py"] if workers else None,
                load_program="dbos_load.py",
                env={"BENCH_DATABASE_URL": url, "BENCH_SLOTS": str(SLOTS)},
            )
            yield await exits.enter_async_context(stack)


async def _create_tables(url: str) -> None:
    """Before worker and driver start, so that neither waits for the other."""
    process = await asyncio.create_subprocess_exec(
        *[_ENVIRONMENT.program("dbos"), "migrate", "--sys-db-url", url],
        cwd=PROGRAMS,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise NotMeasured(f"dbos migrate failed: {output.decode().strip()}")


DBOS_SQLITE = Dbos(
    name="dbos-sqlite",
    title="DBOS, SQLite",
    durability="workflow and steps in a SQLite file, fsync at each commit",
    on_postgres=False,
)
DBOS_POSTGRES = Dbos(
    name="dbos-postgres",
    title="DBOS, PostgreSQL",
    durability="workflow and steps in PostgreSQL, fsync at each commit",
    on_postgres=True,
)
