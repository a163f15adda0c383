"""`pyoco-worker`: executes the runs of its tags until it is asked to stop."""

import logging
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from pyoco_server.cli.entry import Version, examples, new_app, run
from pyoco_server.cli.options.common_options import NatsUrl, comma_separated, service_settings
from pyoco_server.cli.server.readiness import ReadyFd, tell_ready
from pyoco_server.cli.server.serving import StopRequest, serve
from pyoco_server.cli.views.console import tell_person
from pyoco_server.config import NatsBackendConfig, safe_url
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.records.models import TAG_EXPECTED, TAG_PATTERN, WORKER_ID_EXPECTED, WORKER_ID_PATTERN
from pyoco_server.system.garbage import spare_loaded_code
from pyoco_server.telemetry.logging_config import configure_logging
from pyoco_server.telemetry.tracing import tracing
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.executors.executor import ExecutorFailedToStart
from pyoco_server.worker.ipc.protocol import Setup

log = logging.getLogger(__name__)

app = new_app()

_LONGEST_HOST = 100
_RESOLVER = re.compile(r"[\w.]+:\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProcess:
    """The worker as it was asked for; called with the signals' wish, it serves until then."""

    config: NatsBackendConfig
    worker_id: str
    tags: list[str]
    flows: Path | None
    resolver: str | None
    ready_fd: int | None

    async def __call__(self, stop: StopRequest) -> None:
        worker = await stop.before(self._connect())
        if worker is None:
            return
        try:
            spare_loaded_code()
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
                timeout_sec=None,  # NATS may come later than we do; the connection says what it waits for
            )
        except ExecutorFailedToStart as error:
            raise InvalidCliArgument(f"the flows cannot be loaded: {error}") from error

    def _announce(self, worker: PyocoNatsWorker) -> None:
        for file, why in worker.failures.items():
            log.warning("no flow is taken from %s: %s", file, why)
        slots = self.config.worker_concurrency
        tell_person(
            f"Worker {self.worker_id} at {safe_url(self.config.nats_url)}: tags {', '.join(self.tags)}; "
            f"{slots} slot{'s' if slots > 1 else ''}; {self._flows_in_words(worker)}. Ctrl-C ends it."
        )
        tell_ready(
            self.ready_fd,
            worker_id=self.worker_id,
            tags=self.tags,
            slots=slots,
            flows=worker.flows,
            failures=worker.failures,
        )

    def _flows_in_words(self, worker: PyocoNatsWorker) -> str:
        if self.flows is not None:
            return f"flows {', '.join(worker.flows) or 'none'}"
        return f"flows of {self.resolver}" if self.resolver else "no flows of its own, only flow.yaml runs"


def _checked_tag(tag: str) -> str:
    if not re.fullmatch(TAG_PATTERN, tag):
        raise typer.BadParameter(f"{tag!r}: {TAG_EXPECTED}")
    return tag


def _checked_tags(tags: str) -> str:
    return ",".join(_checked_tag(tag) for tag in comma_separated(tags))


def _checked_worker_id(worker_id: str) -> str:
    if not re.fullmatch(WORKER_ID_PATTERN, worker_id):
        raise typer.BadParameter(f"{worker_id!r}: {WORKER_ID_EXPECTED}")
    return worker_id


def _checked_resolver(path: str) -> str:
    if not _RESOLVER.fullmatch(path):
        raise typer.BadParameter(f"{path!r}: wanted module:function, as in myflows.registry:resolve")
    return path


@app.command(
    help="Execute the runs of some tags; it works until Ctrl-C or SIGTERM, then finishes what runs.",
    epilog=examples(
        "pyoco-worker --flows ./flows",
        "pyoco-worker --resolver myflows.registry:resolve --tag gpu --concurrency 4",
        "pyoco-worker --flows ./flows --tags cpu,linux --worker-id build-7",
    ),
)
def worker(
    *,
    flows: Annotated[
        Path | None,
        typer.Option(help="A folder of flows: *.py and *.yaml.", metavar="DIR", exists=True, file_okay=False),
    ] = None,
    resolver: Annotated[
        str | None,
        typer.Option(
            help="Instead: a function that gives the flow of a name.",
            metavar="MODULE:FUNCTION",
            parser=_checked_resolver,
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            help="Execute runs of this tag; repeatable (default: PYOCO_DEFAULT_TAG).",
            metavar="TAG",
            parser=_checked_tag,
        ),
    ] = None,
    tags: Annotated[
        str | None,
        typer.Option(help="The same, separated by commas.", metavar="A,B", parser=_checked_tags),
    ] = None,
    worker_id: Annotated[
        str | None,
        typer.Option(
            help="A name of its own (default: the host's name and the process id).",
            metavar="ID",
            parser=_checked_worker_id,
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(help="How many runs at once (PYOCO_WORKER_CONCURRENCY; 1).", metavar="N", min=1),
    ] = None,
    nats_url: NatsUrl = None,
    ready_fd: ReadyFd = None,
    version: Version = False,
) -> None:
    if flows and resolver:
        raise InvalidCliArgument(
            "--flows and --resolver both say where flows come from; leave one of them out"
        )
    config = service_settings(nats_url=nats_url, worker_concurrency=concurrency)
    configure_logging(service="pyoco-server:worker", config=config)
    process = WorkerProcess(
        config=config,
        worker_id=worker_id or default_worker_id(),
        tags=list(dict.fromkeys([*(tag or ()), *comma_separated(tags)])) or [config.default_tag],
        flows=flows,
        resolver=resolver,
        ready_fd=ready_fd,
    )
    with tracing(config, service="pyoco-server:worker"):
        code = serve(process)
    raise typer.Exit(code)


def default_worker_id() -> str:
    host = re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname())[:_LONGEST_HOST].strip("-") or "worker"
    return f"{host}-{os.getpid()}"


def main() -> None:
    run(app, "pyoco-worker")


if __name__ == "__main__":
    main()
