"""What `pyoco-server up` does: a gateway, and with it a NATS server of its own when asked for."""

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pyoco_server.broker.client.credentials import connect_options, on_own_server
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
from pyoco_server.cli.server.certificate import https_files
from pyoco_server.cli.server.listening import USUAL_NATS_PORT, http_url, listen, open_to_others
from pyoco_server.cli.server.readiness import tell_ready
from pyoco_server.cli.server.serving import StopRequest
from pyoco_server.cli.views.console import say, tell_person
from pyoco_server.config import NatsBackendConfig, safe_url
from pyoco_server.errors import EmbeddedServerError
from pyoco_server.http_api import create_app
from pyoco_server.http_api.server.asgi_server import serve_gateway
from pyoco_server.runs.index.index_file import check_folder

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """The gateway as it was asked for; called with the signals' wish, it serves until then."""

    config: NatsBackendConfig
    host: str
    port: int
    with_nats: bool = False
    nats_port: int | None = None
    ready_fd: int | None = None

    async def __call__(self, stop: StopRequest) -> None:
        check_folder(Path(self.config.index_dir))
        tls = https_files(self.config)
        if not self.with_nats:
            connect_options(self.config)  # a file that is missing is told before anything starts
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
                say(f"NATS runs at {nats.url} and keeps its data in {nats.data_dir}")
                config = on_own_server(config, nats.url)

            def on_ready() -> None:
                log.info("gateway ready at %s", url)
                tell_person(f"Gateway at {url}, NATS at {safe_url(config.nats_url)}. Ctrl-C ends it.")
                tell_ready(self.ready_fd, url=url)
                if warning := open_to_others(listener.getsockname()[0], config):
                    log.warning(warning)
                    tell_person(warning)

            app = create_app(config)

            def on_stop() -> None:
                app.state.gateway.stopping.set()

            await serve_gateway(
                app,
                listener,
                on_ready=on_ready,
                on_stop=on_stop,
                until=_stopped_or_ended(stop, nats),
                tls=tls,
            )
            if nats is not None and not stop.event.is_set():
                raise EmbeddedServerError(f"the embedded NATS server ended; its log is {nats.log_path}")

    def _new_nats(self) -> EmbeddedNats:
        # Where workers look for it, unless they are told otherwise.
        usual = urlsplit(self.config.nats_servers[0]).port or USUAL_NATS_PORT
        return EmbeddedNats(Path(self.config.nats_data_dir), port=self.nats_port or usual)


async def _stopped_or_ended(stop: StopRequest, nats: EmbeddedNats | None) -> None:
    waiting: list[asyncio.Task[object]] = [asyncio.create_task(stop.event.wait())]
    if nats is not None:
        waiting.append(asyncio.create_task(nats.wait()))
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
