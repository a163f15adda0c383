"""A gateway or a worker of the real code, as a process of the simulated world."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.wheels.wheel_sync import WheelSync
from pyoco_server.worker.nats_worker import PyocoNatsWorker, _WorkerParts
from pyoco_server.worker.session.slots import DedicatedSlot
from tests.simulation.executor import SimulatedExecutor
from tests.simulation.loop import Process

if TYPE_CHECKING:
    from tests.simulation.world import World

# After how long a program that has exited is started again.
_SUPERVISOR_SEC: Final = 1.0

# What each gateway has. The others look at their buckets every second, which costs more than a run.
_SERVICES: Final = frozenset({"connection", "timekeeper", "listing", "runs", "sweeper", "takeover"})
# What the timekeeper calls, by the service that it belongs to.
_TIME_SOURCES: Final = {
    "timekeeper": ("clock",),
    "sweeper": ("delayed starts",),
    "schedules": ("schedules",),
    "hooks": ("counted deliveries",),
    "workflow_events": ("retries of workflow events", "refused senders"),
}

P = TypeVar("P")
T = TypeVar("T")


class NodeCrashed(Exception):
    """The process that was called has crashed: whether it has done what was asked is not known."""


class Node(Generic[P]):
    """A program that is started, crashes and is started again; each time it is another process."""

    def __init__(self, world: "World", name: str, config: NatsBackendConfig) -> None:
        self._world = world
        self.name = name
        self.config = config
        self.process: Process | None = None
        # The gateway or worker while it runs.
        self.program: P | None = None
        self._calls: dict[asyncio.Future[Any], None] = {}
        self._starts = 0

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.alive

    def start(self) -> None:
        assert not self.is_alive, f"{self.name} runs already"
        self._starts += 1
        process = Process(self.name if self._starts == 1 else f"{self.name}#{self._starts}")
        self._world.add_process(self, process)
        self.process = process
        self._spawn(self._run())

    async def started(self) -> None:
        """Wait until it serves; not before its connection is ready."""
        while not self.is_alive or self.program is None:
            await self._world.sleep(0.05)

    def crash(self) -> None:
        """Nothing of it runs any more, from this moment on."""
        self._end("crashes")

    def _end(self, how: str) -> None:
        if self.process is None or not self.process.alive:
            return
        self._world.record(self.process.name, how)
        self._world.remove_process(self.process)
        self.program = None
        calls, self._calls = list(self._calls), {}
        for call in calls:
            if not call.done():
                call.set_exception(NodeCrashed(self.name))

    async def call(self, act: Callable[[P], Awaitable[T]]) -> T:
        """Call the program from outside; NodeCrashed if it crashes meanwhile, or does not run."""
        if not self.is_alive or self.program is None:
            raise NodeCrashed(self.name)
        answer: asyncio.Future[T] = self._world.loop.create_future()
        self._calls[answer] = None
        program = self.program

        async def answered() -> None:
            try:
                result = await act(program)
            except Exception as error:
                _set(answer, error=error)
            else:
                _set(answer, result)

        self._spawn(answered())
        try:
            return await answer
        finally:
            self._calls.pop(answer, None)

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        assert self.process is not None
        self._world.loop.create_task(work, context=self.process.context.copy())

    async def _run(self) -> None:
        try:
            await self._main()
        except Exception as error:
            # Its supervisor starts it again.
            self._end(f"exits: {error}")
            self._world.later(_SUPERVISOR_SEC, lambda: None if self.is_alive else self.start())

    async def _main(self) -> None:
        """Start the program; when this returns, the process has ended or serves."""
        raise NotImplementedError


def _set(answer: "asyncio.Future[Any]", result: Any = None, error: Exception | None = None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


class GatewayNode(Node[Gateway]):
    """`services` are started beside the usual ones: names of attributes of a gateway."""

    def __init__(
        self, world: "World", name: str, config: NatsBackendConfig, services: frozenset[str]
    ) -> None:
        super().__init__(world, name, config)
        self.services = _SERVICES | services

    async def _main(self) -> None:
        gateway = Gateway(self.config)
        chosen = {id(getattr(gateway, name)) for name in self.services}
        gateway._start_order = [each for each in gateway._start_order if id(each) in chosen]
        sources = {source for name in self.services for source in _TIME_SOURCES.get(name, ())}
        loops = gateway.timekeeper._loops
        gateway.timekeeper._loops = {name: loop for name, loop in loops.items() if name in sources}
        # Not `gateway.running()`, which would close it when the abandoned task is collected.
        for service in gateway._start_order:
            await service.start()
        self.program = gateway


class WorkerNode(Node[PyocoNatsWorker]):
    def __init__(self, world: "World", name: str, config: NatsBackendConfig, tags: list[str]) -> None:
        super().__init__(world, name, config)
        self._tags = tags

    async def _main(self) -> None:
        world = self._world
        executor = SimulatedExecutor(world.flows, self.name, on_executed=world.task_executed)
        sync = WheelSync(self.config, self.name, self._tags)
        parts = await _WorkerParts.connect(
            self.config, [executor], self.name, self._tags, sync, run_dir=None, timeout_sec=None
        )
        slot = DedicatedSlot(parts.services, parts.intake, parts.wheel_updates, executor)
        worker = PyocoNatsWorker(parts, slot)
        self.program = worker
        with suppress(asyncio.CancelledError):
            await worker.serve(asyncio.Event())
