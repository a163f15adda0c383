"""`pyoco-server up`: a gateway, optionally with a NATS server of its own."""

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from pyoco_server.broker.client.credentials import connect_options, on_own_server
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
from pyoco_server.broker.embedded.store_restart import StoreRestarter
from pyoco_server.cli.lazy_group import examples
from pyoco_server.cli.options.command_settings import service_settings
from pyoco_server.cli.options.shared_options import DashboardLang, NatsUrl, ReadyFd, flag, option
from pyoco_server.cli.server.listening import (
    DEFAULT_NATS_PORT,
    DEFAULT_PORT,
    Host,
    http_url,
    https_files,
    listen,
    open_access_warning,
)
from pyoco_server.cli.server.serving import StopRequest, cancel, report_ready, serve
from pyoco_server.cli.views.console import print_note, print_note_on_terminal
from pyoco_server.config import NatsBackendConfig, safe_url
from pyoco_server.errors import EmbeddedServerError, InvalidCliArgument
from pyoco_server.http_api import create_app
from pyoco_server.http_api.server.asgi_server import serve_gateway
from pyoco_server.runs.index.sqlite.index_file import check_folder
from pyoco_server.telemetry.logging_config import configure_logging
from pyoco_server.telemetry.tracing import tracing
from pyoco_server.triggers.secret_keys import box_of, with_own_secrets_key

log = logging.getLogger(__name__)


@examples(
    "pyoco-server up",
    "pyoco-server up --host 0.0.0.0 --port 8080 --nats-url nats://10.0.0.5:4222",
    "pyoco-server up --with-nats-bootstrap --nats-data-dir /var/lib/pyoco",
)
def up(
    *,
    host: Host = "127.0.0.1",
    port: Annotated[
        int, option("Port to listen on; 0 picks a free one.", "PORT", min=0, max=65535)
    ] = DEFAULT_PORT,
    nats_url: NatsUrl = None,
    with_nats_bootstrap: Annotated[
        bool, flag("--with-nats-bootstrap", "Also start a local NATS server.")
    ] = False,
    nats_port: Annotated[
        int | None,
        option(
            "Port of the local NATS server (default: the port of PYOCO_NATS_URL).", "PORT", min=1, max=65535
        ),
    ] = None,
    nats_data_dir: Annotated[
        Path | None,
        option(
            "Data folder of the local NATS server (env: PYOCO_NATS_DATA_DIR; default: .pyoco/nats).", "DIR"
        ),
    ] = None,
    dashboard_lang: DashboardLang = None,
    ready_fd: ReadyFd = None,
) -> None:
    if with_nats_bootstrap and nats_url:
        raise InvalidCliArgument(
            "--nats-url names an existing server; use either it or --with-nats-bootstrap"
        )
    if not with_nats_bootstrap and (nats_port or nats_data_dir):
        raise InvalidCliArgument("--nats-port and --nats-data-dir need --with-nats-bootstrap")
    config = service_settings(
        nats_url=nats_url, nats_data_dir=nats_data_dir and str(nats_data_dir), dashboard_lang=dashboard_lang
    )
    configure_logging(service="pyoco-server:http", config=config)
    gateway = GatewayProcess(
        config=config,
        host=host,
        port=port,
        with_nats=with_nats_bootstrap,
        nats_port=nats_port,
        ready_fd=ready_fd,
    )
    with tracing(config, service="pyoco-server:http"):
        code = serve(gateway.run, config)
    raise typer.Exit(code)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayProcess:
    config: NatsBackendConfig
    host: str
    port: int
    with_nats: bool = False
    nats_port: int | None = None
    ready_fd: int | None = None

    async def run(self, stop: StopRequest) -> None:
        check_folder(Path(self.config.index_dir))
        tls = https_files(self.config)
        if not self.with_nats:
            # These report a missing file before anything starts.
            connect_options(self.config)
            box_of(self.config)
        listener = listen(self.host, self.port)
        url = http_url(listener, scheme="https" if tls else "http")
        async with AsyncExitStack() as last:
            last.callback(listener.close)
            config, nats = self.config, None
            if self.with_nats:
                nats = self._new_nats()
                await stop.before(last.enter_async_context(nats))
                if stop.event.is_set():
                    return
                print_note(f"NATS is running at {nats.url}, with its data in {nats.data_dir}")
                restarter = asyncio.create_task(StoreRestarter(nats, log.warning).run(), name="restart-nats")
                last.push_async_callback(cancel, restarter)
                config = with_own_secrets_key(on_own_server(config, nats.url))

            def on_ready() -> None:
                log.info("gateway ready at %s", url)
                print_note_on_terminal(
                    f"Gateway at {url}, NATS at {safe_url(config.nats_url)}. Press Ctrl-C to stop."
                )
                report_ready(self.ready_fd, url=url)
                if warning := open_access_warning(listener.getsockname()[0], config):
                    log.warning(warning)
                    print_note_on_terminal(warning)

            app = create_app(config)

            def on_stop() -> None:
                app.state.gateway.stopping.set()

            await serve_gateway(
                app,
                listener,
                on_ready=on_ready,
                on_stop=on_stop,
                until=_until_stopped(stop, nats),
                tls=tls,
                websockets=bool(config.agent_repo),
            )
            if nats is not None and not stop.event.is_set():
                raise EmbeddedServerError(f"the embedded NATS server stopped; its log is {nats.log_path}")

    def _new_nats(self) -> EmbeddedNats:
        # Where workers connect to by default.
        default_port = urlsplit(self.config.nats_servers[0]).port or DEFAULT_NATS_PORT
        return EmbeddedNats(Path(self.config.nats_data_dir), port=self.nats_port or default_port)


async def _until_stopped(stop: StopRequest, nats: EmbeddedNats | None) -> None:
    waiting: list[asyncio.Task[object]] = [asyncio.create_task(stop.event.wait())]
    if nats is not None:
        waiting.append(asyncio.create_task(nats.wait()))
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
