"""One executor process for a test, with the operations of a session."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.worker.executors.executor_handle import ExecutorHandle
from pyoco_server.worker.executors.executor_pool import ExecutorLease, ExecutorPool
from pyoco_server.worker.executors.executor_template import ExecutorTemplate
from pyoco_server.worker.executors.renewable_executor import RenewableExecutor
from pyoco_server.worker.executors.stdio_pipes import StdioPipes
from pyoco_server.worker.ipc.pipes import DeathPipe
from pyoco_server.worker.ipc.prefetch_channel import PrefetchChannel
from pyoco_server.worker.ipc.protocol import Outcome, OutputPart, Run, Setup
from tests.support.places import FLOWS

NO_EVENTS: Any = SimpleNamespace(
    on_finished=lambda _: None,
    on_asked=lambda _: None,
    on_printed=lambda _: None,
    on_files_written=lambda _task, _saved, on_stored: on_stored(),
)


class RunEventLog:
    """Records the events of a run."""

    def __init__(self) -> None:
        self.entries: list[JournalEntry] = []
        self.lines: list[LogLine] = []
        self.parts: list[OutputPart] = []

    def on_finished(self, entry: JournalEntry) -> None:
        self.entries.append(entry)

    def on_asked(self, question: object) -> None: ...

    def on_printed(self, lines: list[LogLine]) -> None:
        self.lines += lines

    def on_files_written(self, task: str, saved: Mapping[str, str], on_stored: Callable[[], None]) -> None:
        on_stored()

    def on_output_part(self, part: OutputPart, resume: Callable[[], None]) -> bool:
        self.parts.append(part)
        return True

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.lines]


class ExecutorUnderTest(RenewableExecutor):
    lease: ExecutorLease

    @property
    def started(self) -> ExecutorHandle:
        assert self.child is not None
        return self.child

    async def execute(self, run: Run, events: Any = NO_EVENTS) -> Outcome:
        """As a session does, with a lease that tests can use meanwhile."""
        with await ExecutorPool([self], allowance=0).reserve() as self.lease:
            return await self.lease.execute(run, events)

    def begin(self, run: Run, events: Any = NO_EVENTS) -> "asyncio.Task[Outcome]":
        return asyncio.create_task(self.execute(run, events))

    async def end(self) -> None:
        if self.child is not None:
            await self.child.kill()
        await self.close()


def new_setup(flows: Path = FLOWS, **fields: Any) -> Setup:
    setup = Setup.from_config(NatsBackendConfig(), flows=str(flows))
    return msgspec.structs.replace(setup, **fields)


@asynccontextmanager
async def started_executor(
    flows: Path = FLOWS, *, template: ExecutorTemplate | None = None, **fields: Any
) -> AsyncIterator[ExecutorUnderTest]:
    executor = ExecutorUnderTest(new_setup(flows, **fields), template=template)
    try:
        await executor.start()
        yield executor
    finally:
        await executor.end()


def new_run(flow: str, run_id: str = "r", **params: Any) -> Run:
    return Run(run_id=run_id, flow_name=flow, params=msgspec.json.encode(params))


@contextmanager
def fake_child() -> Iterator[tuple[ExecutorHandle, socket.socket]]:
    """A child without a process, and the executor's end of its link."""
    prefetch, pipes, death = PrefetchChannel(), StdioPipes(line_limit=1000, run_limit=100_000), DeathPipe()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    child = ExecutorHandle(prefetch, pipes, death, max_message_bytes=2**20)
    child.connection_made(SimpleNamespace(get_extra_info=lambda _: ours))  # type: ignore[arg-type]
    try:
        with ours, theirs:
            yield child, theirs
    finally:
        for part in (prefetch, pipes, death):
            part.close()
        death.close_read_end()
