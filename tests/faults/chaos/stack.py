"""The whole product as real processes: NATS or a cluster of it, gateways, and workers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.streams_and_buckets import ensure_resources
from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.child.template_main import EXECUTOR_NAME
from tests.faults.chaos.history import History
from tests.faults.chaos.scheduling import Schedules
from tests.faults.chaos.service import Service
from tests.support.broker.cluster import NatsCluster
from tests.support.broker.full_disk import OwnFileSystem
from tests.support.broker.nats_server import NatsServer
from tests.support.places import ROOT
from tests.support.ports import port_to_keep
from tests.support.programs import SERVER, WORKER, environment
from tests.support.waiting import LIMIT_SEC

FLOWS = Path(__file__).parent / "flows"
_ROOT = ROOT
ACK_WAIT_SEC = 1.5

_READY_SEC = LIMIT_SEC
# Short intervals: a scenario sees in seconds what production sees in minutes.
_SETTINGS = {
    "PYOCO_CONSUMER_ACK_WAIT_SEC": str(ACK_WAIT_SEC),
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.3",
    "PYOCO_NATS_REQUEST_TIMEOUT_SEC": "1.5",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.3",
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.5",
    "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "2",
    "PYOCO_CANCEL_GRACE_PERIOD_SEC": "0.5",
    "PYOCO_SWEEP_INTERVAL_SEC": "1",
    "PYOCO_DRAIN_TIMEOUT_SEC": "1",
}


@dataclass(frozen=True, slots=True)
class Size:
    """How many of each there are."""

    nats: int = 1
    gateways: int = 1
    workers: int = 2
    slots: int = 2


class Stack:
    """Gateways and workers around a running NATS, and a connection to inspect it."""

    def __init__(
        self,
        folder: Path,
        size: Size,
        nats: NatsServer | NatsCluster,
        *,
        every_write: bool = True,
        default_settings: bool = False,
        disk: OwnFileSystem | None = None,
    ) -> None:
        """With `every_write` the runs bucket keeps each write; in production it keeps the newest of a run."""
        self.execution_log = folder / "executions.log"
        self.nats = nats
        # That of NATS, if it is to be filled.
        self.disk = disk
        self.gateways: dict[str, Service] = {}
        self.workers: dict[str, Service] = {}
        # The addresses of the gateways.
        self.urls: list[str] = []
        self._folder = folder
        self._size = size
        self._settings = {
            **({} if default_settings else _SETTINGS),
            "PYOCO_NATS_URL": nats.url,
            "PYOCO_NATS_REPLICAS": str(size.nats),
            "PYOCO_LOAD_DOTENV": "0",
        }
        self.connection = Connection(NatsBackendConfig.from_env(self._settings), name="faults")
        self.history = History(self.connection)
        self.schedules = Schedules(self.connection)
        if every_write:
            self.connection.on_connect(self.history.keep_everything)
            self.connection.on_connect(self.schedules.keep_everything)
        self.connection.on_connect(lambda: ensure_resources(self.connection))

    async def start(self) -> None:
        self.execution_log.touch()
        await self.connection.start()
        await self.connection.wait_ready(_READY_SEC)
        await self._start_services(self._env)

    @property
    def _env(self) -> dict[str, str]:
        return environment(**self._settings, FAULTS_EXECUTION_LOG=str(self.execution_log))

    def crashing_gateway(self, crash_point: str, count: int) -> Service:
        """A gateway in the place of `g1` that kills itself after the call of this number."""
        arguments = (crash_point, str(count), *self.gateways["g1"].arguments)
        env = {**self._env, "PYTHONPATH": str(_ROOT)}
        return Service(
            "dying", "tests.support.running.crashing_gateway", *arguments, folder=self._folder, env=env
        )

    async def _start_services(self, env: dict[str, str]) -> None:
        for name in _names("g", self._size.gateways):
            self.gateways[name] = Service(name, SERVER, "up", folder=self._folder, env=env)
        for name in _names("w", self._size.workers):
            options = ("--flows", str(FLOWS), "--worker-id", name, "--concurrency", str(self._size.slots))
            self.workers[name] = Service(name, WORKER, *options, folder=self._folder, env=env)
        async with asyncio.TaskGroup() as group:
            urls = [group.create_task(_start_gateway(gateway)) for gateway in self.gateways.values()]
            for worker in self.workers.values():
                group.create_task(worker.start())
        self.urls = [url.result() for url in urls]

    async def close(self) -> None:
        for service in (*self.workers.values(), *self.gateways.values()):
            service.kill()
        await self.connection.close()

    def executors(self) -> list[int]:
        """The executors of this stack that live, whoever started them."""
        mark = f"FAULTS_EXECUTION_LOG={self.execution_log}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                name, variables = (folder / "comm").read_text().strip(), (folder / "environ").read_bytes()
            except (FileNotFoundError, ProcessLookupError, PermissionError):  # ended meanwhile, or not ours
                continue
            if name == EXECUTOR_NAME and mark in variables.split(b"\0"):
                found.append(int(folder.name))
        return found


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(1, count + 1)]


async def _start_gateway(gateway: Service) -> str:
    """Its address; it comes back there when it is started again."""
    gateway.arguments += ["--port", str(port_to_keep())]
    url: str = (await gateway.start())["url"]
    return url


@asynccontextmanager
async def running_stack(
    folder: Path,
    size: Size,
    *,
    every_write: bool = True,
    default_settings: bool = False,
    own_disk: bool = False,
) -> AsyncIterator[Stack]:
    disk = OwnFileSystem(folder / "nats") if own_disk else None
    nats = NatsCluster(folder / "nats", size.nats) if size.nats > 1 else NatsServer(folder / "nats")
    try:
        await asyncio.to_thread(nats.start)
        stack = Stack(
            folder, size, nats, every_write=every_write, default_settings=default_settings, disk=disk
        )
        try:
            await stack.start()
            yield stack
        finally:
            await stack.close()
    finally:
        nats.stop()
        if disk is not None:
            disk.unmount()
