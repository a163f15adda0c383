"""The simulated world: a NATS server, gateways and workers, built from a seed.

    with World(seed) as world:
        world.run(main)

`main` is a coroutine function of a world, which acts as the users and the operator do; `schedule.py` makes it
of a scenario.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from types import TracebackType
from typing import Any, Final, Self

from nats.js.api import StreamConfig

from pyoco_server.broker import streams_and_buckets
from pyoco_server.broker.client import connection as connection_module
from pyoco_server.broker.stores.triggers import hook_messages
from pyoco_server.config import NatsBackendConfig
from pyoco_server.runs.index.sqlite import sqlite_index
from pyoco_server.runs.takeover import lost_worker_loop
from pyoco_server.worker.session import presence
from tests.simulation.choices import Choices, Decisions
from tests.simulation.executor import AnyStep, Flows, Step
from tests.simulation.failures.story import Story
from tests.simulation.faults import USUAL, Faults, Mix
from tests.simulation.invariants.evidence import Execution
from tests.simulation.jetstream.headers import rfc3339
from tests.simulation.jetstream.requests import with_defaults
from tests.simulation.jetstream.server import SimulatedServer
from tests.simulation.jetstream.stream import Stored, Stream
from tests.simulation.loop import Process, SimulationLoop
from tests.simulation.machine.disk import Disk
from tests.simulation.machine.patches import EPOCH, patched_interpreter
from tests.simulation.network import Network
from tests.simulation.node import GatewayNode, Node, WorkerNode

DEFAULT_FLOWS: Final[Mapping[str, list[AnyStep]]] = {
    "one": [Step("a")],
    "three": [Step("a"), Step("b"), Step("c")],
}
# Short, so that little time has to be simulated until what was lost is found.
SETTINGS: Final = {
    "nats_url": "nats://simulated:4222",
    "nats_request_timeout_sec": 1.5,
    "run_heartbeat_interval_sec": 1.0,
    "worker_heartbeat_interval_sec": 2.0,
    "worker_disconnect_timeout_sec": 5.0,
    "worker_lost_after_sec": 3.0,
    "consumer_ack_wait_sec": 5.0,
    "ack_progress_interval_sec": 1.5,
    "consumer_max_deliver": 5,
    "sweep_interval_sec": 2.0,
    "cancel_grace_period_sec": 1.0,
    "drain_timeout_sec": 5.0,
    # Nobody closes the file of a gateway that crashes.
    "audit_file": "off",
    "load_dotenv": False,
}
# How often a gateway asks who is connected: twice as often, these are a third of all messages.
_PROBE_EVERY_SEC: Final = 1.0

_stream_resources = streams_and_buckets.resources


@cache
def _resources(config: NatsBackendConfig) -> list[StreamConfig]:
    return _stream_resources(config)


@cache
def _stream_configs(config: NatsBackendConfig) -> list[dict[str, Any]]:
    return [with_defaults(each.as_dict()) for each in _resources(config)]


@cache
def _config(settings: tuple[tuple[str, Any], ...]) -> NatsBackendConfig:
    return replace(NatsBackendConfig(load_dotenv=False), **dict(settings))


@cache
def _version(package: str) -> str:
    """Reading it takes a millisecond."""
    return version(package)


async def _never_deleted(_: object) -> None:
    """In place of a look each second whether the file of an index was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a scenario needs of its world."""

    gateways: int = 2
    workers: int = 2
    flows: Flows = field(default_factory=lambda: DEFAULT_FLOWS)
    # Attributes of a gateway that are started beside the usual ones, for example `bulk` or `schedules`.
    services: frozenset[str] = frozenset()
    settings: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ("default",)
    # How many faults there are at most, how many writes are between two of them, and which they are.
    faults: int = 3
    fault_gap: int = 12
    mix: Mix = field(default_factory=lambda: USUAL)
    # The most simulated time.
    max_sec: float = 600.0


class World:
    """One schedule. `given` are the decisions of an earlier one, to replay or to shorten it."""

    def __init__(self, seed: int, shape: Shape | None = None, *, given: Decisions | None = None) -> None:
        self.seed = seed
        self.shape = shape or Shape()
        self.choices = Choices(seed, given)
        self.story = Story()
        self.loop = SimulationLoop(self.choices, max_sec=self.shape.max_sec)
        self.server = SimulatedServer(self._server_ns, self._call_server_at)
        self.network = Network(self.loop, self.choices, self.server, self.record)
        self.network.crash = self._crash_process
        self.network.pause = self._pause_process
        self.faults = Faults(self, most=self.shape.faults, mean_gap=self.shape.fault_gap, mix=self.shape.mix)
        self.network.late_sec = self.faults.late_sec
        self.flows = self.shape.flows
        self.executions: list[Execution] = []
        # Called with each message that is stored: for invariants.
        self.on_write: list[Callable[[Stream, Stored], None]] = []
        self.server.on_write = self._written
        self._nodes_of: dict[Process, Node[Any]] = {}
        self._stack = ExitStack()
        self.disk = Disk(created=rfc3339(self._server_ns()))
        self.gateways: list[GatewayNode] = []
        self.workers: list[WorkerNode] = []

    def __enter__(self) -> Self:
        self._stack.enter_context(
            patched_interpreter(
                self.loop,
                self.choices,
                [
                    (connection_module, "new_client", self.network.new_client),
                    (sqlite_index, "IndexFile", self.disk.open),
                    (sqlite_index.SqliteIndex, "check_file", _never_deleted),
                    (lost_worker_loop, "_PROBE_EVERY_SEC", _PROBE_EVERY_SEC),
                    (hook_messages, "ACK_WAIT_SEC", SETTINGS["consumer_ack_wait_sec"]),
                    (presence, "version", _version),
                    (streams_and_buckets, "resources", self._missing_resources),
                    (streams_and_buckets, "worker_resources", self._missing_resources),
                ],
            )
        )
        self._make_nodes()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.loop.abandon_all()
        self._stack.close()
        self.loop.close()
        self.disk.close()

    def run(self, main: Callable[["World"], Awaitable[None]]) -> None:
        """Start the nodes, and run `main` to its end."""
        asyncio.set_event_loop(self.loop)
        try:
            for node in self.nodes:
                node.start()
            self.loop.run_until_complete(self._run(main))
        finally:
            asyncio.set_event_loop(None)

    async def _run(self, main: Callable[["World"], Awaitable[None]]) -> None:
        await main(self)

    @property
    def nodes(self) -> list[Node[Any]]:
        return [*self.gateways, *self.workers]

    @property
    def now(self) -> float:
        """The time since the world began."""
        return self.loop.now

    @property
    def wall(self) -> float:
        """The time of a clock that is right, in unix seconds."""
        return EPOCH + self.loop.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def record(self, who: str, text: str) -> None:
        self.story.add(self.loop.now, who, text)

    def _missing_resources(self, config: NatsBackendConfig) -> list[StreamConfig]:
        """What a node has to create: it asks for each stream, which takes half of a schedule."""
        return [each for each in _resources(config) if each.name not in self.server.streams]

    def _create_streams(self, config: NatsBackendConfig) -> None:
        """As a gateway has done before."""
        for each in _stream_configs(config):
            self.server.add_stream(dict(each))

    # Nodes

    def _make_nodes(self) -> None:
        shape = self.shape
        settings = tuple((SETTINGS | dict(shape.settings)).items())
        config = _config(settings)
        self._create_streams(config)
        self.gateways = [
            GatewayNode(self, name, _config((*settings, ("index_dir", f"/simulated/{name}"))), shape.services)
            for name in (f"gateway-{number}" for number in range(1, shape.gateways + 1))
        ]
        self.workers = [
            WorkerNode(self, f"worker-{number}", config, list(shape.tags))
            for number in range(1, shape.workers + 1)
        ]

    def add_process(self, node: Node[Any], process: Process) -> None:
        self._nodes_of[process] = node
        self.record(process.name, "starts")

    def remove_process(self, process: Process) -> None:
        self.loop.stop_process(process)
        self.network.forget(process)

    def is_node(self, process: Process) -> bool:
        return process in self._nodes_of

    def node_of(self, process: Process) -> Node[Any]:
        return self._nodes_of[process]

    async def all_started(self) -> None:
        for node in self.nodes:
            await node.started()

    async def heal(self) -> None:
        """No more faults: every node runs, is connected, and has a correct clock again."""
        self.faults.stop()
        self.record("world", "heals")
        self.server.replica_lag = lambda _: 0
        while not self.network.server_is_up:
            await self.sleep(0.1)
        for node in self.nodes:
            while node.process is not None and node.process.paused:
                await self.sleep(0.1)
            if not node.is_alive:
                node.start()
            assert node.process is not None
            node.process.wall_offset = 0.0
        await self.all_started()

    def _crash_process(self, process: Process) -> None:
        node = self._nodes_of[process]
        node.crash()
        self.later(self.faults.restart_sec(), lambda: None if node.is_alive else node.start())

    def _pause_process(self, process: Process) -> None:
        self.pause(self._nodes_of[process], self.faults.pause_sec())

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Outside of all processes."""
        self.loop.call_later(seconds, action, context=self.loop.outside.context)

    def jump_clock(self, node: Node[Any], seconds: float) -> None:
        """Its clock of the day jumps; its monotonic clock does not."""
        if node.process is not None:
            self.record(node.name, f"has a clock that jumps by {seconds:+g} s")
            node.process.wall_offset += seconds

    def pause(self, node: Node[Any], seconds: float) -> None:
        """Stop its process for a while, as SIGSTOP or a busy machine does."""
        process = node.process
        if process is not None and process.alive and not process.paused:
            self.record(node.name, f"is paused for {seconds:g} s")
            process.paused = True
            self.later(seconds, lambda: self.loop.wake(process))

    # The server

    def lag_replicas(self, seconds: float, operations: int) -> None:
        """For so long, direct reads are answered by replicas that lack up to so many operations."""
        self.record("nats", f"has replicas that lag by up to {operations} for {seconds:g} s")
        self.server.replica_lag = lambda _: self.choices.below("replica", operations + 1)

        def catch_up() -> None:
            self.server.replica_lag = lambda _: 0

        self.later(seconds, catch_up)

    def restart_server(self, down_sec: float, *, lost_messages: int = 0) -> None:
        """Stop the server, and start it again; each stream has lost so many of its newest messages."""
        if not self.network.server_is_up:
            return
        self.record("nats", f"stops for {down_sec:g} s")
        self.network.stop_server()
        lost = {name: lost_messages for name in self.server.streams} if lost_messages else {}

        def start() -> None:
            gone = self.server.restart(lost)
            for stream, messages in gone.items():
                for each in messages:
                    self.record("nats", f"has lost {stream} {each.sequence} {each.subject}")
            self.network.start_server()
            self.record("nats", "is started again")

        self.later(down_sec, start)

    def _server_ns(self) -> int:
        return int((EPOCH + self.loop.now) * 1e9)

    def _call_server_at(self, time_ns: int, action: Callable[[], None]) -> None:
        # Rounded up, so that it is due then.
        when = time_ns / 1e9 - EPOCH + 1e-6
        self.loop.call_at(when, action, context=self.loop.outside.context)

    def _written(self, stream: Stream, stored: Stored) -> None:
        self.record("nats", f"{stream.name} {stored.sequence} {stored.subject}")
        for call in self.on_write:
            call(stream, stored)

    # Executors

    def task_executed(self, execution: Execution) -> int:
        """How many there have been: each execution has a value of its own."""
        task = f"{execution.task} of {execution.run_id}, attempt {execution.attempt}"
        self.record(execution.worker, f"executes {task}")
        self.faults.aim(self.loop.running)
        self.executions.append(execution)
        return len(self.executions)
