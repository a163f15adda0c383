"""Kills and pauses processes, restores them, and records each fault with its times."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from random import Random
from typing import Any

import httpx
import msgspec

from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.errors import NatsUnavailable
from tests.faults.chaos.history import UNREADABLE_RUNS
from tests.faults.chaos.service import Service
from tests.faults.chaos.stack import ACK_WAIT_SEC, Stack
from tests.support.broker.cluster import NatsCluster
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.stored_runs import snapshot
from tests.support.samples.broken_records import VALUES, with_field
from tests.support.waiting import LIMIT_SEC, eventually

NATS = "nats"
# How long to wait for the state that a fault needs; afterwards it is injected without it.
_STATE_WAIT_SEC = 5.0
# Long enough that every client waits for a response.
_IN_REQUEST_SEC = 0.1


class FaultKind(StrEnum):
    KILL_WORKER = "kill a worker"
    KILL_EXECUTOR = "kill an executor"
    PAUSE_WORKER = "pause a worker past AckWait"
    KILL_GATEWAY = "kill a gateway"
    KILL_NATS = "kill NATS"
    KILL_LEADER = "kill the leader of a stream"
    FILL_DISK = "fill the disk of NATS"
    # Faults during recovery, and during a cancel.
    KILL_SUCCESSOR = "kill a worker and the one that takes over"
    KILL_CANCELLER = "kill a worker while it ends a cancelled run"
    WRITE_UNREADABLE = "write records that cannot be read"


@dataclass(slots=True)
class Fault:
    """One fault, its target, and the time for which the target could not work."""

    kind: FaultKind
    target: str
    began: float
    ended: float = 0.0

    def __str__(self) -> str:
        return f"{self.began:.3f} to {self.ended:.3f} {self.kind}: {self.target}"


class FaultInjector:
    """Injects one fault after the other; the target is restored before `inject` returns."""

    def __init__(self, stack: Stack, seed: str) -> None:
        self._stack = stack
        self._rng = Random(seed)
        self.faults: list[Fault] = []
        # How many records that cannot be read were written.
        self._unreadable = 0
        self._injections: dict[FaultKind, Callable[[], Awaitable[None]]] = {
            FaultKind.KILL_EXECUTOR: self._kill_executor,
            FaultKind.PAUSE_WORKER: self._pause,
            FaultKind.KILL_GATEWAY: self._kill_gateway,
            FaultKind.KILL_NATS: self._kill_nats,
            FaultKind.KILL_LEADER: self._kill_leader,
            FaultKind.FILL_DISK: self._fill_disk,
            FaultKind.KILL_SUCCESSOR: self._kill_successor,
            FaultKind.WRITE_UNREADABLE: self._write_unreadable,
        }

    async def inject(self, kind: FaultKind) -> None:
        if kind is FaultKind.KILL_WORKER:
            await self._kill(kind, self._any(self._stack.workers))
        elif kind is FaultKind.KILL_CANCELLER:
            await self._kill(kind, await self._canceller())
        else:
            await self._injections[kind]()

    def _any(self, services: dict[str, Service]) -> Service:
        return services[self._rng.choice(sorted(services))]

    @contextmanager
    def _fault(self, kind: FaultKind, target: str) -> Iterator[None]:
        fault = Fault(kind, target, time.time())
        self.faults.append(fault)
        yield
        fault.ended = time.time()

    async def _kill(self, kind: FaultKind, service: Service) -> None:
        pause_sec = self._rng.uniform(0, ACK_WAIT_SEC)
        with self._fault(kind, service.name):
            service.kill()
        await asyncio.sleep(pause_sec)
        await service.start()

    async def _kill_gateway(self) -> None:
        """Kill it within a request: NATS stores what it sent, but the gateway never gets the ack."""
        gateway, server = self._any(self._stack.gateways), self._stack.nats
        if isinstance(server, NatsServer):
            with server.paused():
                await asyncio.sleep(_IN_REQUEST_SEC)
                gateway.kill()
        await self._kill(FaultKind.KILL_GATEWAY, gateway)

    async def _kill_executor(self) -> None:
        worker = self._any(self._stack.workers)
        number = self._rng.random()
        executors = sorted(worker.executors())
        if executors:
            with self._fault(FaultKind.KILL_EXECUTOR, worker.name), suppress(ProcessLookupError):
                os.kill(executors[int(number * len(executors))], signal.SIGKILL)

    async def _pause(self) -> None:
        worker = self._any(self._stack.workers)
        pause_sec = ACK_WAIT_SEC * self._rng.uniform(1.2, 2.0)
        with self._fault(FaultKind.PAUSE_WORKER, worker.name):
            worker.pause()
            await asyncio.sleep(pause_sec)
            worker.resume()

    async def _write_unreadable(self) -> None:
        """Each gateway counts them, and reads on."""
        connection = self._stack.connection
        record = msgspec.to_builtins(snapshot())
        with self._fault(FaultKind.WRITE_UNREADABLE, "the bucket of runs"):
            for value in VALUES:
                self._unreadable += 1
                run_id = f"{UNREADABLE_RUNS}{self._unreadable:012x}"
                data = with_field(record, "status", value)
                await publish_acked(connection, f"$KV.{connection.config.runs_kv_bucket}.{run_id}", data)
            async with httpx.AsyncClient(timeout=LIMIT_SEC) as http:
                for url in self._stack.urls:
                    await eventually(
                        partial(self._counts_unreadable, http, url),
                        describe=f"{url} has read on after {self._unreadable} unreadable records",
                    )

    async def _counts_unreadable(self, http: httpx.AsyncClient, url: str) -> bool:
        response = await http.get(f"{url}/health", params={"ready": 1})
        return response.is_success and response.json()["unreadable"].get("run") == self._unreadable

    async def _kill_nats(self) -> None:
        server = self._stack.nats
        assert isinstance(server, NatsServer)
        pause_sec = self._rng.uniform(0, ACK_WAIT_SEC)
        with self._fault(FaultKind.KILL_NATS, NATS):
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(pause_sec)
            await asyncio.to_thread(server.start)
            await self._stack.connection.wait_ready(LIMIT_SEC)

    async def _fill_disk(self) -> None:
        """Until every gateway reports it; then free it, and restart NATS as an administrator has to."""
        server, disk = self._stack.nats, self._stack.disk
        assert isinstance(server, NatsServer)
        assert disk is not None, "the disk of NATS is not its own"
        async with httpx.AsyncClient(timeout=LIMIT_SEC) as http:

            async def all_are(ready: bool) -> bool:
                answers = [await http.get(f"{url}/health?ready=1") for url in self._stack.urls]
                expected = 200 if ready else 503
                return all(
                    answer.status_code == expected and answer.json()["storage"]["ready"] is ready
                    for answer in answers
                )

            with self._fault(FaultKind.FILL_DISK, NATS):
                with disk.full(server.pid):
                    await eventually(lambda: all_are(ready=False), describe="no gateway is ready")
                await asyncio.to_thread(server.restart)
                await self._stack.connection.wait_ready(LIMIT_SEC)
                await eventually(lambda: all_are(ready=True), describe="every gateway is ready")

    async def _kill_leader(self) -> None:
        """Kill it, wait for the election of another one, restart it, and wait until it has caught up."""
        cluster, config = self._stack.nats, self._stack.connection.config
        assert isinstance(cluster, NatsCluster)
        stream = self._rng.choice([f"KV_{config.runs_kv_bucket}", config.work_stream])
        leader = (await self._cluster_state(stream))["leader"]
        with self._fault(FaultKind.KILL_LEADER, NATS):
            await asyncio.to_thread(cluster.nodes[leader].kill)

            async def replaced() -> bool:
                return bool((await self._cluster_state(stream))["leader"] != leader)

            await eventually(replaced, describe=f"{stream} has another leader")
            await asyncio.to_thread(cluster.nodes[leader].start)

            async def complete() -> bool:
                others = (await self._cluster_state(stream)).get("replicas", [])
                return len(others) == len(cluster.nodes) - 1 and all(other["current"] for other in others)

            await eventually(complete, describe=f"{stream} has all its replicas")

    async def _cluster_state(self, stream: str) -> dict[str, Any]:
        """The cluster part of the stream info, once there is a leader."""

        async def known() -> dict[str, Any] | None:
            try:
                info = await jetstream_api.call(self._stack.connection, f"STREAM.INFO.{stream}")
            except (NatsUnavailable, jetstream_api.ApiRefused):
                return None
            state: dict[str, Any] = info["cluster"]
            return state if state.get("leader") else None

        return await eventually(known, describe=f"{stream} has a leader")

    async def _kill_successor(self) -> None:
        kind, history = FaultKind.KILL_SUCCESSOR, self._stack.history
        first = self._stack.workers[await history.until(self._owner, within=_STATE_WAIT_SEC) or "w1"]
        with self._fault(kind, first.name):
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

        name = await history.until(successor, within=_STATE_WAIT_SEC)
        await first.start()
        if name is not None and name != first.name:
            await self._kill(kind, self._stack.workers[name])

    async def _canceller(self) -> Service:
        """A worker that has a run to end."""

        def cancelling() -> str | None:
            runs = self._stack.history.open.values()
            return next((run.last.worker for run in runs if run.last.cancel_requested), None)

        name = await self._stack.history.until(cancelling, within=_STATE_WAIT_SEC)
        return self._any(self._stack.workers) if name is None else self._stack.workers[name]

    def _owner(self) -> str | None:
        """A worker that has a run."""
        return next((run.last.worker for run in self._stack.history.open.values() if run.last.worker), None)
