"""NATS, a gateway and workers, driven over HTTP: the product and the public package alike."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import nats
from nats.aio.client import Client
from nats.js.api import ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from benchmarks.harness import http_load
from benchmarks.harness.environments import NotMeasured
from benchmarks.harness.http_load import HttpConnection, Load, post_request
from benchmarks.harness.processes import free_port, running, until_listening
from benchmarks.peers.peer import MOST_QUEUED, WARM_UP_RUNS, Sustained, Work
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats

_FLOWS = Path(__file__).parent.parent / "flows"
PROGRAMS = Path(__file__).parent / "programs"
NOOP = {"flow_name": "noop", "params": {"number": 7}}

# Names of the wire contract that both packages share.
_QUEUE = "PYOCO_WORK"
BUCKET = "pyoco_runs"
_SNAPSHOTS = f"$KV.{BUCKET}."
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED"})

_POLL_SEC = 0.01
_CHAIN_POLL_SEC = 0.005
_WARM_UP_LIMIT_SEC = 60.0


@dataclass(frozen=True)
class Commands:
    """How to start the parts, the workers by their id; `{port}`, `{nats}` and `{flows}` are filled in."""

    gateway: Sequence[str]
    workers: dict[str, Sequence[str]]


@dataclass
class HttpStack:
    port: int
    nats_client: Client
    processes: dict[str, list[int]]
    workers: dict[str, int]  # process id of each worker
    kinds_of_work: tuple[Work, ...] = (Work.FLOW,)
    _expected: list[str] = field(default_factory=list)

    async def submit(self, *, runs: int, connections: int, limit_sec: float, work: Work = Work.FLOW) -> Load:
        done = await http_load.submit(
            self.port, NOOP, runs=runs, connections=connections, limit_sec=limit_sec
        )
        self._expected += done.run_ids
        return done

    async def sustain(self, *, seconds: float, connections: int) -> Sustained:
        opened = [await HttpConnection.open(self.port) for _ in range(connections)]
        queued_before, may_submit, load = await self.queued(), asyncio.Event(), Load()
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for connection in opened:
                group.create_task(_submit_while_allowed(connection, may_submit, load, started + seconds))
            while time.perf_counter() < started + seconds:
                queued = await self.queued()
                if queued < MOST_QUEUED:
                    may_submit.set()
                else:
                    may_submit.clear()
                await asyncio.sleep(_POLL_SEC)
            may_submit.set()
        ended = queued_before + len(load.run_ids) - await self.queued()
        elapsed = time.perf_counter() - started
        for connection in opened:
            connection.close()
        self._expected += load.run_ids
        return Sustained(ended, elapsed, load.latencies)

    async def wait(self, *, limit_sec: float) -> int:
        """A job leaves the queue when its run's last snapshot is stored. `check` looks at each of these."""
        limit = time.perf_counter() + limit_sec
        while left := await self.queued():
            if time.perf_counter() > limit:
                self._expected.clear()
                return left
            await asyncio.sleep(_POLL_SEC)
        return 0

    async def check(self) -> None:
        """Every run that was submitted and waited for must have been completed; nothing else counts."""
        statuses = await self._statuses()
        others = [run_id for run_id in self._expected if statuses.get(run_id) != "COMPLETED"]
        self._expected.clear()
        if others:
            raise NotMeasured(f"{len(others)} runs ended otherwise, {others[0]} as {statuses.get(others[0])}")

    async def stamp(self, *, runs: int, every_sec: float, stamps: Path) -> None:
        connection = await HttpConnection.open(self.port)
        started = time.perf_counter()
        for number in range(runs):
            await asyncio.sleep(max(0.0, started + number * every_sec - time.perf_counter()))
            await self.submit_flow(connection, "stamped", sent_at=time.time(), stamps=str(stamps))
        connection.close()

    async def chain(self, *, tasks: int, task_sec: float, limit_sec: float) -> float:
        connection = await HttpConnection.open(self.port)
        started = time.perf_counter()
        run_id = await self.submit_flow(connection, "chain" if task_sec else "large")
        async with asyncio.timeout(limit_sec):
            await self.until_ended(connection, run_id)
        connection.close()
        return time.perf_counter() - started

    async def submit_flow(self, connection: HttpConnection, flow_name: str, **params: object) -> str:
        answer = await connection.post("/runs", {"flow_name": flow_name, "params": params})
        run_id: str = answer["run_id"]
        self._expected.append(run_id)
        return run_id

    async def until_ended(self, connection: HttpConnection, run_id: str) -> None:
        while (await self.snapshot(connection, run_id))["status"] not in ENDED:
            await asyncio.sleep(_CHAIN_POLL_SEC)

    async def snapshot(self, connection: HttpConnection, run_id: str) -> Any:
        request = f"GET /runs/{run_id} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        return msgspec.json.decode(await connection.call(request))

    async def queued(self) -> int:
        return (await self.nats_client.jetstream().stream_info(_QUEUE)).state.messages

    async def _statuses(self) -> dict[str, str]:
        """Status of every run, read from the bucket in one go."""
        context = self.nats_client.jetstream()
        awaited = (await context.stream_info(f"KV_{BUCKET}")).state.messages
        newest = ConsumerConfig(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT)
        subscription = await context.subscribe(f"{_SNAPSHOTS}>", ordered_consumer=True, config=newest)
        statuses: dict[str, str] = {}
        for _ in range(awaited):
            message = await subscription.next_msg(timeout=10)
            # A deleted key has no data: the test write of an idle gateway leaves one for a while.
            if message.data:
                snapshot = msgspec.json.decode(message.data)
                statuses[message.subject.removeprefix(_SNAPSHOTS)] = snapshot["status"]
        await subscription.unsubscribe()
        return statuses


def add_large_flows(folder: Path) -> None:
    """Have the stack that is started in this folder know them; each executor needs 3 MB for them."""
    _add_flows("large", folder)


def _add_flows(which: str, folder: Path) -> Path:
    return Path(shutil.copytree(_FLOWS / which, folder / "flows", dirs_exist_ok=True))


@asynccontextmanager
async def http_stack(
    folder: Path, commands: Commands, *, workers: bool, env: dict[str, str]
) -> AsyncIterator[HttpStack]:
    """Start everything on free ports; stop it in order."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(EmbeddedNats(folder / "nats"))
        port = free_port()
        client = await nats.connect(server.url)
        stack.push_async_callback(client.close)
        values = {"port": port, "nats": server.url, "flows": _add_flows("everyday", folder)}
        log = folder / "programs.log"

        async def start(command: Sequence[str]) -> int:
            filled = [word.format(**values) for word in command]
            process = await stack.enter_async_context(running(filled, log=log, env=env, cwd=folder))
            return process.pid

        gateway = await start(commands.gateway)
        await until_listening(port)
        pids = {name: await start(command) for name, command in commands.workers.items() if workers}
        processes = {"broker": [server.pid], "gateway": [gateway]}
        if workers:
            processes["worker"] = list(pids.values())
        running_stack = HttpStack(port, client, processes, pids)
        await _until_accepting(running_stack)
        if workers:
            await _warm_up(running_stack)
        yield running_stack
        if workers:
            await running_stack.check()


async def _submit_while_allowed(
    connection: HttpConnection, may_submit: asyncio.Event, load: Load, limit: float
) -> None:
    request = post_request("/runs", NOOP)
    while time.perf_counter() < limit:
        await may_submit.wait()
        sent_at = time.perf_counter()
        answer = await connection.call(request)
        load.latencies.append(time.perf_counter() - sent_at)
        load.run_ids.append(msgspec.json.decode(answer)["run_id"])


async def _until_accepting(stack: HttpStack) -> None:
    """A gateway may listen before it has its streams."""
    async with asyncio.timeout(_WARM_UP_LIMIT_SEC):
        while True:
            try:
                connection = await HttpConnection.open(stack.port)
                await stack.submit_flow(connection, "noop", number=7)
                await stack.queued()
                connection.close()
            except (http_load.RequestRefused, OSError, NotFoundError):
                await asyncio.sleep(_POLL_SEC)
            else:
                return


async def _warm_up(stack: HttpStack) -> None:
    await stack.submit(runs=WARM_UP_RUNS, connections=4, limit_sec=_WARM_UP_LIMIT_SEC)
    if missing := await stack.wait(limit_sec=_WARM_UP_LIMIT_SEC):
        raise NotMeasured(f"{missing} runs of the warm-up were not done in {_WARM_UP_LIMIT_SEC:g} s")
