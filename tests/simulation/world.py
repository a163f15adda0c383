"""The simulated world: a NATS server, gateways and workers, built from a seed.

    with World(seed) as world:
        world.run(scenario)

A scenario is a coroutine function of a world. It acts as the users and the operator do: it calls gateways,
and crashes, pauses and disconnects nodes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, Self

from pyoco_server.config import NatsBackendConfig
from tests.simulation.choices import Choices, Decisions
from tests.simulation.executor import AnyStep, Execution, Flows, Step
from tests.simulation.jetstream.server import SimulatedServer
from tests.simulation.jetstream.stream import Stored, Stream
from tests.simulation.loop import Process, SimulationLoop
from tests.simulation.network import Network
from tests.simulation.node import GatewayNode, Node, WorkerNode
from tests.simulation.patches import EPOCH, patched_interpreter
from tests.simulation.story import Story

Scenario = Callable[["World"], Awaitable[None]]

DEFAULT_FLOWS: Final[Mapping[str, list[AnyStep]]] = {"one": [Step("a")], "three": [Step("a"), Step("b"), Step("c")]}
# Short, so that little time has to be simulated until what was lost is found.
SETTINGS: Final = {
    "nats_url": "nats://simulated:4222",
    "nats_request_timeout_sec": 1.5,
    "run_heartbeat_interval_sec": 1.0,
    "worker_heartbeat_interval_sec": 2.0,
    "worker_disconnect_timeout_sec": 10.0,
    "worker_lost_after_sec": 6.0,
    "consumer_ack_wait_sec": 10.0,
    "ack_progress_interval_sec": 3.0,
    "consumer_max_deliver": 5,
    "sweep_interval_sec": 2.0,
    "cancel_grace_period_sec": 2.0,
    "drain_timeout_sec": 5.0,
    "load_dotenv": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a scenario needs of its world."""

    gateways: int = 2
    workers: int = 2
    flows: Flows = field(default_factory=lambda: DEFAULT_FLOWS)
    # The attributes of a gateway that are started; None: all.
    services: frozenset[str] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ("default",)
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
        self.flows = self.shape.flows
        self.executed: list[Execution] = []
        self.finished: list[Execution] = []
        # Called with each message that is stored or removed: for invariants.
        self.on_write: list[Callable[[Stream, Stored], None]] = []
        self.on_remove: list[Callable[[Stream, Stored], None]] = []
        self.server.on_write = self._written
        self.server.on_remove = self._removed
        self._nodes_of: dict[Process, Node[Any]] = {}
        self._stack = ExitStack()
        self.gateways: list[GatewayNode] = []
        self.workers: list[WorkerNode] = []

    def __enter__(self) -> Self:
        self._stack.enter_context(patched_interpreter(self.loop, self.choices, self.network.new_client))
        self._make_nodes()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.loop.abandon_all()
        self._stack.close()
        self.loop.close()

    def run(self, scenario: Scenario) -> None:
        """Start the nodes, and run the scenario to its end."""
        asyncio.set_event_loop(self.loop)
        try:
            for node in self.nodes:
                node.start()
            self.loop.run_until_complete(self._scenario(scenario))
        finally:
            asyncio.set_event_loop(None)

    async def _scenario(self, scenario: Scenario) -> None:
        await scenario(self)

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

    # Nodes

    def _make_nodes(self) -> None:
        shape = self.shape
        settings = SETTINGS | {"index_dir": "/dev/shm/simulation"} | dict(shape.settings)
        config = replace(NatsBackendConfig(load_dotenv=False), **settings)
        self.gateways = [
            GatewayNode(self, f"gateway-{number}", config, shape.services)
            for number in range(1, shape.gateways + 1)
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

    def _crash_process(self, process: Process) -> None:
        self._nodes_of[process].crash()

    def pause(self, node: Node[Any], seconds: float) -> None:
        """Stop its process for a while, as SIGSTOP or a busy machine does."""
        process = node.process
        if process is not None and process.alive and not process.paused:
            self.record(node.name, f"is paused for {seconds:g} s")
            process.paused = True
            self.loop.call_later(seconds, self.loop.wake, process, context=self.loop.outside.context)

    # The server

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

    def _removed(self, stream: Stream, stored: Stored) -> None:
        for call in self.on_remove:
            call(stream, stored)

    # Executors

    def task_executed(self, execution: Execution) -> None:
        self.record(execution.worker, f"executes {execution.task} of {execution.run_id}, attempt {execution.attempt}")
        self.executed.append(execution)

    def task_finished(self, execution: Execution) -> None:
        self.finished.append(execution)


log = logging.getLogger(__name__)
