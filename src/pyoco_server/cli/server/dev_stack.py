"""Everything on one machine: NATS, a gateway and a worker, kept running and ended in order."""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from pyoco_server.broker.client.credentials import CREDENTIALS
from pyoco_server.broker.embedded.data_folder import DataFolderInUse
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
from pyoco_server.cli.options.common_options import is_said, settings_with
from pyoco_server.cli.server.listening import USUAL_NATS_PORT, USUAL_PORT, choose_port
from pyoco_server.cli.server.supervisor import Child
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import EmbeddedServerError, InvalidCliArgument

USUAL_DATA_DIR: Final = Path(".pyoco")
WORKER_ID: Final = "dev"
# Of one data folder: which setting names which.
_FOLDERS: Final = {
    "nats_data_dir": "nats",
    "run_dir": "runs",
    "index_dir": "index",
    "wheel_sync_dir": "wheels",
}
# What is known to end soon, beyond what it may take by its own settings.
_MARGIN_SEC: Final = 10.0
_READY_SEC: Final = 10.0
_POLL_SEC: Final = 0.02
_NATS_PAUSE_SEC: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DevOptions:
    config: NatsBackendConfig
    flows: Path | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    nats_port: int | None = None
    log_dir: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """What the worker says of itself when it is ready."""

    worker_id: str
    tags: list[str]
    slots: int
    flows: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def dev_settings(data_dir: Path | None, **given: Any) -> NatsBackendConfig:
    """The settings for everything below `data_dir`, with a log that leaves the screen readable."""
    if data_dir is not None:
        given |= {setting: str(data_dir / folder) for setting, folder in _FOLDERS.items()}
    config = settings_with(log_format="text", **given)
    return config if is_said("PYOCO_LOG_LEVEL", config) else replace(config, log_level="WARNING")


async def _until_it_takes_runs(gateway_url: str) -> None:
    """A gateway listens before it has its streams; who reads that all is there may submit at once."""
    # It is our own child, whose certificate may be anybody's.
    async with httpx.AsyncClient(base_url=gateway_url, trust_env=False, verify=False) as http:  # noqa: S501
        with suppress(TimeoutError):
            async with asyncio.timeout(_READY_SEC):
                while not await _is_ready(http):  # noqa: ASYNC110 - another process tells nobody
                    await asyncio.sleep(_POLL_SEC)


async def _is_ready(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/health", params={"ready": 1})).is_success
    except httpx.TransportError:
        # It has ended: whoever looks after it starts it again, or says so.
        return False


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


class DevStack:
    """An async context manager: inside, everything runs; after it, nothing does, and the data stays.

    `say` gets a sentence when something happens, `on_line` each line of a program's log.
    """

    gateway_url: str
    worker_facts: WorkerFacts

    def __init__(
        self, options: DevOptions, *, say: Callable[[str], None], on_line: Callable[[str, str], None]
    ) -> None:
        self.options = options
        self._say = say
        self._on_line = on_line
        self._undo = AsyncExitStack()
        nats_port = choose_port("127.0.0.1", options.nats_port, USUAL_NATS_PORT, option="--nats-port")
        # A port of our choice, so that NATS has the same one after a restart.
        self.nats = EmbeddedNats(Path(options.config.nats_data_dir), port=nats_port)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as undo:  # undone in the opposite order: the worker, the gateway, NATS
            await self._start_nats()
            undo.push_async_callback(self.nats.stop)
            keeper = asyncio.create_task(self._keep_nats(), name="keep-nats")
            undo.push_async_callback(_end, keeper)
            gateway, worker = self._gateway(), self._worker()
            undo.push_async_callback(gateway.stop, _MARGIN_SEC)
            await gateway.start()
            undo.push_async_callback(worker.stop, self.options.config.drain_timeout_sec + _MARGIN_SEC)
            await worker.start()
            self.gateway_url = (await gateway.ready())["url"]
            self.worker_facts = WorkerFacts(**await worker.ready())
            await _until_it_takes_runs(self.gateway_url)
            self._undo = undo.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._undo.aclose()

    def _gateway(self) -> Child:
        options = self.options
        port = choose_port(options.host, options.port, USUAL_PORT, option="--port")
        arguments = ["up", "--host", options.host, "--port", str(port)]
        return self._child("gateway", "pyoco_server.cli.server.server_command", *arguments)

    def _worker(self) -> Child:
        arguments = ["--worker-id", WORKER_ID, "--concurrency", str(self.options.config.worker_concurrency)]
        if self.options.flows is not None:
            arguments += ["--flows", str(self.options.flows)]
        return self._child("worker", "pyoco_server.cli.worker_command", *arguments)

    def _child(self, name: str, module: str, *arguments: str) -> Child:
        return Child(
            name,
            [sys.executable, "-m", module, *arguments, "--nats-url", self.nats.url],
            environ=self._environ(),
            log_path=self.options.log_dir / f"{name}.log",
            say=self._say,
            on_line=self._on_line,
        )

    def _environ(self) -> dict[str, str]:
        config = self.options.config
        return {
            **os.environ,
            **{f"PYOCO_{setting.upper()}": getattr(config, setting) for setting in _FOLDERS},
            "PYOCO_LOG_FORMAT": config.log_format,
            "PYOCO_LOG_LEVEL": config.log_level,
            # Its own NATS knows no users.
            **{f"PYOCO_{name.upper()}": "" for name in CREDENTIALS},
        }

    async def _start_nats(self) -> None:
        try:
            await self.nats.start()
        except DataFolderInUse as error:
            owner = f" (process {error.holder.owner})" if error.holder else ""
            raise InvalidCliArgument(
                f"another program{owner} keeps its data in {error.folder}; stop that program, or choose "
                "another folder with --data-dir"
            ) from error

    async def _keep_nats(self) -> None:
        while True:
            code = await self.nats.wait()
            self._say(f"NATS ended (exit code {code}); it is started again.")
            await self._start_nats_at_last()
            self._say("NATS is back.")

    async def _start_nats_at_last(self) -> None:
        while True:
            try:
                await self.nats.start()
            except EmbeddedServerError as error:
                self._say(str(error))
                await asyncio.sleep(_NATS_PAUSE_SEC)
            else:
                return
