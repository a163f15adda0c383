"""The villain: kills and pauses what is running, heals it again, and writes down when he did what."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.errors import NatsUnavailable
from tests.faults.service import Service
from tests.faults.stack import ACK_WAIT_SEC, Stack
from tests.support.broker.cluster import NatsCluster
from tests.support.broker.nats_server import NatsServer
from tests.support.waiting import LIMIT_SEC, eventually

NATS = "nats"
# How long he waits for an occasion before he strikes without.
_OCCASION_SEC = 5.0
# So long that every client waits for its answer.
_MIDDLE_SEC = 0.1


class Crime(StrEnum):
    KILL_WORKER = "kill a worker"
    KILL_EXECUTOR = "kill an executor"
    PAUSE_WORKER = "pause a worker past AckWait"
    KILL_GATEWAY = "kill a gateway"
    KILL_NATS = "kill NATS"
    KILL_LEADER = "kill the leader of a stream"
    # Faults during recovery, and during a cancel.
    KILL_SUCCESSOR = "kill a worker and the one that takes over"
    KILL_CANCELLER = "kill a worker while it ends a cancelled run"


@dataclass(slots=True)
class Fault:
    """What was done to whom, and from when until when it could not do its work."""

    crime: Crime
    target: str
    began: float
    ended: float = 0.0

    def __str__(self) -> str:
        return f"{self.began:.3f} to {self.ended:.3f} {self.crime}: {self.target}"


class Villain:
    """Strikes one after the other; each time all is healed before he is done."""

    def __init__(self, stack: Stack, seed: str) -> None:
        self._stack = stack
        self._rng = Random(seed)
        self.faults: list[Fault] = []

    async def commit(self, crime: Crime) -> None:
        match crime:
            case Crime.KILL_WORKER:
                await self._kill(crime, self._any(self._stack.workers))
            case Crime.KILL_EXECUTOR:
                await self._kill_executor()
            case Crime.PAUSE_WORKER:
                await self._pause()
            case Crime.KILL_GATEWAY:
                await self._kill_gateway()
            case Crime.KILL_NATS:
                await self._kill_nats()
            case Crime.KILL_LEADER:
                await self._kill_leader()
            case Crime.KILL_SUCCESSOR:
                await self._kill_successor()
            case Crime.KILL_CANCELLER:
                await self._kill(crime, await self._canceller())

    def _any(self, services: dict[str, Service]) -> Service:
        return services[self._rng.choice(sorted(services))]

    @contextmanager
    def _fault(self, crime: Crime, target: str) -> Iterator[None]:
        fault = Fault(crime, target, time.time())
        self.faults.append(fault)
        yield
        fault.ended = time.time()

    async def _kill(self, crime: Crime, service: Service) -> None:
        pause_sec = self._rng.uniform(0, ACK_WAIT_SEC)
        with self._fault(crime, service.name):
            service.kill()
        await asyncio.sleep(pause_sec)
        await service.start()

    async def _kill_gateway(self) -> None:
        """Kill it in the middle of its work: NATS stores what it has asked for, and it never learns that."""
        gateway, server = self._any(self._stack.gateways), self._stack.nats
        if isinstance(server, NatsServer):
            with server.paused():
                await asyncio.sleep(_MIDDLE_SEC)
                gateway.kill()
        await self._kill(Crime.KILL_GATEWAY, gateway)

    async def _kill_executor(self) -> None:
        worker = self._any(self._stack.workers)
        number = self._rng.random()
        executors = sorted(worker.executors())
        if executors:
            with self._fault(Crime.KILL_EXECUTOR, worker.name), suppress(ProcessLookupError):
                os.kill(executors[int(number * len(executors))], signal.SIGKILL)

    async def _pause(self) -> None:
        worker = self._any(self._stack.workers)
        pause_sec = ACK_WAIT_SEC * self._rng.uniform(1.2, 2.0)
        with self._fault(Crime.PAUSE_WORKER, worker.name):
            worker.pause()
            await asyncio.sleep(pause_sec)
            worker.resume()

    async def _kill_nats(self) -> None:
        server = self._stack.nats
        assert isinstance(server, NatsServer)
        pause_sec = self._rng.uniform(0, ACK_WAIT_SEC)
        with self._fault(Crime.KILL_NATS, NATS):
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(pause_sec)
            await asyncio.to_thread(server.start)
            await self._stack.connection.wait_ready(LIMIT_SEC)

    async def _kill_leader(self) -> None:
        """Kill it, let the others choose another one, and wait until the killed one has caught up again."""
        cluster, config = self._stack.nats, self._stack.connection.config
        assert isinstance(cluster, NatsCluster)
        stream = self._rng.choice([f"KV_{config.runs_kv_bucket}", config.work_stream])
        leader = (await self._standing(stream))["leader"]
        with self._fault(Crime.KILL_LEADER, NATS):
            await asyncio.to_thread(cluster.nodes[leader].kill)

            async def replaced() -> bool:
                return bool((await self._standing(stream))["leader"] != leader)

            await eventually(replaced, describe=f"{stream} has another leader")
            await asyncio.to_thread(cluster.nodes[leader].start)

            async def complete() -> bool:
                others = (await self._standing(stream)).get("replicas", [])
                return len(others) == len(cluster.nodes) - 1 and all(other["current"] for other in others)

            await eventually(complete, describe=f"{stream} has all its replicas")

    async def _standing(self, stream: str) -> dict[str, Any]:
        """The members that keep a stream, once they have a leader."""

        async def known() -> dict[str, Any] | None:
            try:
                info = await jetstream_api.call(self._stack.connection, f"STREAM.INFO.{stream}")
            except (NatsUnavailable, jetstream_api.ApiRefused):
                return None
            standing: dict[str, Any] = info["cluster"]
            return standing if standing.get("leader") else None

        return await eventually(known, describe=f"{stream} has a leader")

    async def _kill_successor(self) -> None:
        crime, history = Crime.KILL_SUCCESSOR, self._stack.history
        first = self._stack.workers[await history.until(self._owner, within=_OCCASION_SEC) or "w1"]
        with self._fault(crime, first.name):
            first.kill()
        killed_at = time.time()

        def successor() -> str | None:
            return next(
                (
                    run.last.worker
                    for run in history.open.values()
                    if run.last.attempt > 1 and run.claims[run.last.attempt].at > killed_at
                ),
                None,
            )

        name = await history.until(successor, within=_OCCASION_SEC)
        await first.start()
        if name is not None and name != first.name:
            await self._kill(crime, self._stack.workers[name])

    async def _canceller(self) -> Service:
        """A worker that has a run to end."""

        def cancelling() -> str | None:
            runs = self._stack.history.open.values()
            return next((run.last.worker for run in runs if run.last.cancel_requested), None)

        name = await self._stack.history.until(cancelling, within=_OCCASION_SEC)
        return self._any(self._stack.workers) if name is None else self._stack.workers[name]

    def _owner(self) -> str | None:
        """A worker that has a run."""
        return next((run.last.worker for run in self._stack.history.open.values() if run.last.worker), None)
