"""`pyoco-server dev`: NATS, a gateway and a worker on one machine, restarted when they crash."""

import asyncio
import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final, Self

import httpx
import typer
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

import pyoco_server
from pyoco_server.aio.async_http import AsyncHttpClient
from pyoco_server.broker.client.credentials import CREDENTIALS
from pyoco_server.broker.embedded.data_folder import DataFolderInUse
from pyoco_server.broker.embedded.embedded_server import EmbeddedNats
from pyoco_server.broker.embedded.store_restart import StoreRestarter
from pyoco_server.cli.lazy_group import examples
from pyoco_server.cli.options.command_settings import is_set, settings_with
from pyoco_server.cli.options.shared_options import Concurrency, DashboardLang, FlowsFolder, option
from pyoco_server.cli.options.time_formats import interval
from pyoco_server.cli.server.dev_schedules import DevSchedules
from pyoco_server.cli.server.listening import (
    DEFAULT_NATS_PORT,
    DEFAULT_PORT,
    Host,
    choose_port,
    open_access_warning,
)
from pyoco_server.cli.server.serving import StopRequest, cancel, serve
from pyoco_server.cli.server.supervisor import Child
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, printable, stdout_console
from pyoco_server.config import NatsBackendConfig, safe_url
from pyoco_server.errors import EmbeddedServerError, InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.triggers.secret_keys import with_own_secrets_key
from pyoco_server.version import __version__

_DASHBOARD: Final = Path(pyoco_server.__file__).parent / "dashboard" / "index.html"
DEFAULT_DATA_DIR: Final = Path(".pyoco")
WORKER_ID: Final = "dev"
# The folders below the data folder, by setting.
_FOLDERS: Final = {
    "nats_data_dir": "nats",
    "run_dir": "runs",
    "index_dir": "index",
    "wheel_sync_dir": "wheels",
}
# Time to stop beyond the drain timeout.
_STOP_MARGIN_SEC: Final = 10.0
_READY_SEC: Final = 10.0
_POLL_SEC: Final = 0.02
_NATS_RESTART_SEC: Final = 1.0


@examples(
    "pyoco-server dev --flows ./flows",
    "pyoco-server dev --flows ./flows --port 8080 --concurrency 4",
)
def dev(
    *,
    flows: FlowsFolder = None,
    host: Host = "127.0.0.1",
    port: Annotated[
        int | None, option("Gateway port (default: 8000, or a free one).", "PORT", min=0, max=65535)
    ] = None,
    nats_port: Annotated[
        int | None, option("NATS port (default: 4222, or a free one).", "PORT", min=0, max=65535)
    ] = None,
    data_dir: Annotated[
        Path | None,
        option(
            "Folder for the files of NATS, index, runs, wheels and logs (default: .pyoco).",
            "DIR",
            file_okay=False,
        ),
    ] = None,
    concurrency: Concurrency = None,
    dashboard_lang: DashboardLang = None,
) -> None:
    config = dev_settings(data_dir, worker_concurrency=concurrency, dashboard_lang=dashboard_lang)
    log_dir = (data_dir or DEFAULT_DATA_DIR) / "logs"
    options = DevOptions(
        config=config, flows=flows, host=host, port=port, nats_port=nats_port, log_dir=log_dir
    )
    raise typer.Exit(serve(lambda stop: _serve_dev(options, stop, DevScreen(stdout_console())), config))


@dataclass(frozen=True, slots=True, kw_only=True)
class DevOptions:
    config: NatsBackendConfig
    flows: Path | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    nats_port: int | None = None
    # An existing server, in place of the embedded one.
    nats_url: str | None = None
    log_dir: Path
    worker_id: str = WORKER_ID
    # Default: PYOCO_DEFAULT_TAG.
    tags: Sequence[str] = ()
    # Variables of gateway and worker, and their working directory.
    environ: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    # Of the folder of flows: a schedules.yaml in it is applied.
    with_schedules: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """What the worker reports when it is ready."""

    worker_id: str
    tags: list[str]
    slots: int
    flows: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def dev_settings(data_dir: Path | None, **given: Any) -> NatsBackendConfig:
    """The settings of all programs, with their files below `data_dir`.

    The log has warnings only, as text, unless the user has set its level or format.
    """
    if data_dir is not None:
        given |= {setting: str(data_dir / folder) for setting, folder in _FOLDERS.items()}
    config = settings_with(**given)
    defaults: dict[str, Any] = {"log_format": "text", "log_level": "WARNING"}
    unset = {name: value for name, value in defaults.items() if not is_set(f"PYOCO_{name.upper()}", config)}
    return replace(config, **unset)


async def _wait_until_ready(gateway_url: str) -> None:
    """Wait for the gateway's streams, so that a run can be submitted once the screen is shown."""
    # It is a child process, whose certificate may be of any name.
    async with AsyncHttpClient(base_url=gateway_url, trust_env=False, verify=False) as http:
        with suppress(TimeoutError):
            async with asyncio.timeout(_READY_SEC):
                while not await _is_ready(http):  # noqa: ASYNC110 - another process sends no event
                    await asyncio.sleep(_POLL_SEC)


async def _is_ready(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/health", params={"ready": 1})).is_success
    except httpx.TransportError:
        return False  # it crashed, and is restarted


class DevStack:
    """An async context manager that runs all programs; `on_event` gets a sentence, `on_line` a log line."""

    gateway_url: str
    worker_facts: WorkerFacts
    # Of the schedules.yaml in the folder of flows.
    schedules: list[str]

    def __init__(
        self, options: DevOptions, *, on_event: Callable[[str], None], on_line: Callable[[str, str], None]
    ) -> None:
        self.options = options
        self._on_event = on_event
        self._on_line = on_line
        self._undo = AsyncExitStack()
        # None: an existing server is used.
        self.nats = None if options.nats_url else self._new_nats()

    @property
    def nats_url(self) -> str:
        return self.options.nats_url or str(self.nats and self.nats.url)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as undo:  # stops in reverse order: the worker, the gateway, NATS
            if self.nats is not None:
                await self._start_nats(self.nats, undo)
            gateway, worker = self._gateway(), self._worker()
            undo.push_async_callback(gateway.stop, _STOP_MARGIN_SEC)
            await gateway.start()
            undo.push_async_callback(worker.stop, self.options.config.drain_timeout_sec + _STOP_MARGIN_SEC)
            await worker.start()
            self.gateway_url = (await gateway.ready())["url"]
            self.worker_facts = WorkerFacts(**await worker.ready())
            await _wait_until_ready(self.gateway_url)
            self.schedules = await self._follow_schedules(undo)
            self._undo = undo.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._undo.aclose()

    def _new_nats(self) -> EmbeddedNats:
        requested = self.options.nats_port
        port = choose_port("127.0.0.1", requested, DEFAULT_NATS_PORT, option="--nats-port")
        # A fixed port, so that NATS has the same one after a restart.
        return EmbeddedNats(Path(self.options.config.nats_data_dir), port=port)

    async def _follow_schedules(self, undo: AsyncExitStack) -> list[str]:
        """Apply the schedules of the folder of flows now and when they change; return their ids."""
        if self.options.flows is None or not self.options.with_schedules:
            return []
        schedules = DevSchedules(
            self.options.flows,
            self.options.log_dir.parent / "applied-schedules.json",
            client=self._client,
            on_event=self._on_event,
        )
        await schedules.look()
        undo.push_async_callback(cancel, asyncio.create_task(schedules.run(), name="follow-schedules"))
        return schedules.applied

    def _client(self) -> PyocoHttpClient:
        config = self.options.config
        return PyocoHttpClient(
            self.gateway_url, api_key=config.api_key or None, api_key_header=config.http_api_key_header
        )

    def _gateway(self) -> Child:
        options = self.options
        port = choose_port(options.host, options.port, DEFAULT_PORT, option="--port")
        arguments = ["up", "--host", options.host, "--port", str(port)]
        return self._child("gateway", "pyoco_server.cli.server.server_command", *arguments)

    def _worker(self) -> Child:
        concurrency = str(self.options.config.worker_concurrency)
        arguments = ["--worker-id", self.options.worker_id, "--concurrency", concurrency]
        for tag in self.options.tags:
            arguments += ["--tag", tag]
        if self.options.flows is not None:
            arguments += ["--flows", str(self.options.flows)]
        return self._child("worker", "pyoco_server.cli.worker_command", *arguments)

    def _child(self, name: str, module: str, *arguments: str) -> Child:
        return Child(
            name,
            [sys.executable, "-m", module, *arguments, "--nats-url", self.nats_url],
            environ=self._environ(),
            log_path=self.options.log_dir / f"{name}.log",
            on_event=self._on_event,
            on_line=self._on_line,
            folder=self.options.folder,
        )

    def _environ(self) -> dict[str, str]:
        config = self.options.config
        embedded: dict[str, str] = {}
        if self.nats is not None:
            config = with_own_secrets_key(config)
            # The embedded NATS has no users.
            embedded = {f"PYOCO_{name.upper()}": "" for name in CREDENTIALS}
        return {
            **os.environ,
            **self.options.environ,
            **{f"PYOCO_{setting.upper()}": getattr(config, setting) for setting in _FOLDERS},
            "PYOCO_LOG_FORMAT": config.log_format,
            "PYOCO_LOG_LEVEL": config.log_level,
            "PYOCO_DASHBOARD_LANG": config.dashboard_lang,
            "PYOCO_SECRETS_KEY_FILE": config.secrets_key_file,
            **embedded,
        }

    async def _start_nats(self, nats: EmbeddedNats, undo: AsyncExitStack) -> None:
        try:
            await nats.start()
        except DataFolderInUse as error:
            owner = f" (process {error.holder.owner})" if error.holder else ""
            raise InvalidCliArgument(
                f"another program{owner} uses the data folder {error.folder}; stop that program, or choose "
                "another folder with --data-dir"
            ) from error
        undo.push_async_callback(nats.stop)
        supervisor = asyncio.create_task(self._supervise_nats(nats), name="supervise-nats")
        undo.push_async_callback(cancel, supervisor)
        restarter = asyncio.create_task(StoreRestarter(nats, self._on_event).run(), name="restart-nats")
        undo.push_async_callback(cancel, restarter)

    async def _supervise_nats(self, nats: EmbeddedNats) -> None:
        while True:
            code = await nats.wait()
            self._on_event(f"NATS stopped (exit code {code}); restarting.")
            await self._restart_nats(nats)
            self._on_event("NATS is running again.")

    async def _restart_nats(self, nats: EmbeddedNats) -> None:
        while True:
            try:
                await nats.start()
            except EmbeddedServerError as error:
                self._on_event(str(error))
                await asyncio.sleep(_NATS_RESTART_SEC)
            else:
                return


class DevScreen:
    def __init__(self, console: Console) -> None:
        self.console = console

    def print_event(self, sentence: str) -> None:
        self.console.print(Text(printable(sentence), style="yellow"), soft_wrap=True)

    def on_line(self, program: str, line: str) -> None:
        text = Text.assemble((f"{program:>7} | ", "dim"), printable(line))
        self.console.print(text, soft_wrap=True)

    def show_stack(self, stack: DevStack, extra: Sequence[tuple[str, str]] = ()) -> None:
        """The addresses and folders of the stack, after what is special about it."""
        title = f"pyoco-server {__version__}"
        rows = [*extra, *_stack_rows(stack)]
        if self.console.is_terminal:
            self.console.print(
                Panel(
                    pairs((name, printable(value)) for name, value in rows),
                    title=title,
                    title_align="left",
                    expand=False,
                )
            )
            return
        for name, value in [(title, ""), *rows]:
            self.console.print(Text(printable(f"{name:11}{value}")), soft_wrap=True)

    def show_commands(self, commands: Sequence[str]) -> None:
        self.console.print(Text(localized("Next, in another terminal:"), style="bold"))
        for command in commands:
            # Never wrapped, so that it can be copied.
            self.console.print(Text(f"  {command}"), soft_wrap=True)


@asynccontextmanager
async def running_stack(
    options: DevOptions, stop: StopRequest, screen: DevScreen
) -> AsyncIterator[DevStack | None]:
    """A running stack; None when the stop request came before it was ready."""
    stack = DevStack(options, on_event=screen.print_event, on_line=screen.on_line)
    async with AsyncExitStack() as last:
        yield await stop.before(last.enter_async_context(stack))
        drain_sec = options.config.drain_timeout_sec
        screen.print_event(
            localized(
                "Shutting down: runs have {time} to finish. Press Ctrl-C again to quit now.",
                time=interval(drain_sec),
            )
        )
    kept = stack.nats and localized(" Data is kept in {folder}.", folder=stack.nats.data_dir)
    screen.print_event(f"{localized('Stopped.')}{kept or ''}")


async def _serve_dev(options: DevOptions, stop: StopRequest, screen: DevScreen) -> None:
    async with running_stack(options, stop, screen) as stack:
        if stack is not None:
            screen.show_stack(stack)
            screen.show_commands(_first_commands(stack))
            screen.console.print(Text(localized("Press Ctrl-C to stop everything."), style="dim"))
            await stop.event.wait()


def client_command(gateway_url: str, *arguments: str) -> str:
    """A `pyoco-client` command line for this gateway."""
    server = [] if gateway_url == f"http://127.0.0.1:{DEFAULT_PORT}" else ["--server", gateway_url]
    return shlex.join([program_command("pyoco-client"), *server, *arguments])


def program_command(name: str) -> str:
    """The bare name if it is on the PATH, otherwise the path of our program."""
    ours = Path(sysconfig.get_path("scripts")) / name
    found = shutil.which(name)
    if found and Path(found).resolve() == ours.resolve():
        return name
    return str(ours.relative_to(Path.cwd())) if ours.is_relative_to(Path.cwd()) else str(ours)


def _first_commands(stack: DevStack) -> list[str]:
    flows = stack.worker_facts.flows
    if flows:
        submit = ["submit", "--flow-name", flows[0]]
    else:
        submit = ["submit-yaml", "--workflow-file", "flow.yaml", "--flow-name", "first"]
    # The flow may ask a person, who has days to answer.
    limited = client_command(stack.gateway_url, *submit, "--wait", "--timeout-sec", "60")
    return [limited, f"curl {stack.gateway_url}/health", client_command(stack.gateway_url, "--help")]


def _stack_rows(stack: DevStack) -> list[tuple[str, str]]:
    worker = stack.worker_facts
    slots = localized("1 slot" if worker.slots == 1 else "{count} slots", count=worker.slots)
    warning = open_access_warning(stack.options.host, stack.options.config)
    return [
        *([("Dashboard", f"{stack.gateway_url}/")] if _DASHBOARD.is_file() else []),
        ("Gateway", f"{stack.gateway_url}  (API: {stack.gateway_url}/openapi.json)"),
        ("Worker", f"{worker.worker_id}, {slots}, {localized('tags {tags}', tags=', '.join(worker.tags))}"),
        ("Flows", ", ".join(worker.flows) or localized("none")),
        *(
            ("", localized("not loaded: {file}: {why}", file=file, why=why))
            for file, why in worker.failures.items()
        ),
        *([("Schedules", ", ".join(stack.schedules))] if stack.schedules else []),
        ("NATS", safe_url(stack.nats_url)),
        *([] if stack.nats is None else [("Data", str(stack.nats.data_dir))]),
        ("Logs", str(stack.options.log_dir.absolute())),
        *([("Warning", warning)] if warning else []),
    ]
