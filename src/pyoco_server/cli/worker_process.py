"""The process of `pyoco-worker`."""

import logging
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyoco_server.aio.garbage_collection import freeze_loaded_code
from pyoco_server.cli.options.command_settings import service_settings
from pyoco_server.cli.server.serving import StopRequest, report_ready, serve
from pyoco_server.cli.views.console import print_note_on_terminal
from pyoco_server.config import NatsBackendConfig, safe_url
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.telemetry.logging_config import configure_logging
from pyoco_server.telemetry.tracing import tracing
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.executors.executor import ExecutorFailedToStart
from pyoco_server.worker.ipc.protocol import Setup

log = logging.getLogger(__name__)

_SERVICE: Final = "pyoco-server:worker"
_MAX_HOST_CHARACTERS: Final = 100


def run_worker(
    *,
    flows: Path | None,
    resolver: str | None,
    tags: list[str],
    worker_id: str | None,
    concurrency: int | None,
    nats_url: str | None,
    ready_fd: int | None,
) -> int:
    """Serve until a signal; the exit code."""
    config = service_settings(nats_url=nats_url, worker_concurrency=concurrency)
    configure_logging(service=_SERVICE, config=config)
    program = WorkerProgram(
        config=config,
        worker_id=worker_id or default_worker_id(),
        tags=tags or [config.default_tag],
        flows=flows,
        resolver=resolver,
        ready_fd=ready_fd,
    )
    with tracing(config, service=_SERVICE):
        return serve(program.run, config)


def default_worker_id() -> str:
    host = re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname())[:_MAX_HOST_CHARACTERS].strip("-") or "worker"
    return f"{host}-{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProgram:
    config: NatsBackendConfig
    worker_id: str
    tags: list[str]
    flows: Path | None
    resolver: str | None
    ready_fd: int | None

    async def run(self, stop: StopRequest) -> None:
        worker = await stop.before(self._connect())
        if worker is None:
            return
        try:
            freeze_loaded_code()
            self._announce(worker)
            await worker.serve(stop.event)
        finally:
            await worker.close()

    async def _connect(self) -> PyocoNatsWorker:
        flows = None if self.flows is None else str(self.flows.absolute())
        setup = Setup.from_config(self.config, resolver=self.resolver, flows=flows)
        try:
            return await PyocoNatsWorker.connect_processes(
                self.config,
                setup,
                concurrency=self.config.worker_concurrency,
                worker_id=self.worker_id,
                tags=self.tags,
                timeout_sec=None,  # NATS may start later; the connection logs that it waits
            )
        except ExecutorFailedToStart as error:
            raise InvalidCliArgument(f"the flows cannot be loaded: {error}") from error

    def _announce(self, worker: PyocoNatsWorker) -> None:
        for file, why in worker.failures.items():
            log.warning("cannot load flows from %s: %s", file, why)
        slots = self.config.worker_concurrency
        print_note_on_terminal(
            f"Worker {self.worker_id} at {safe_url(self.config.nats_url)}: tags {', '.join(self.tags)}; "
            f"{slots} slot{'s' if slots > 1 else ''}; {self._flows_text(worker)}. Press Ctrl-C to stop."
        )
        report_ready(
            self.ready_fd,
            worker_id=self.worker_id,
            tags=self.tags,
            slots=slots,
            flows=worker.flows,
            failures=worker.failures,
        )

    def _flows_text(self, worker: PyocoNatsWorker) -> str:
        if self.flows is not None:
            return f"flows {', '.join(worker.flows) or 'none'}"
        return f"flows of {self.resolver}" if self.resolver else "only flow.yaml runs"
