"""What `pyoco-server dev` does and shows."""

import shlex
import shutil
import sysconfig
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import pyoco_server
from pyoco_server.cli.server.dev_stack import DevOptions, DevStack
from pyoco_server.cli.server.listening import USUAL_PORT, open_to_others
from pyoco_server.cli.server.serving import StopRequest
from pyoco_server.cli.views.console import printable
from pyoco_server.version import __version__

_DASHBOARD: Final = Path(pyoco_server.__file__).parent / "dashboard" / "index.html"


class Screen:
    """The terminal that everything of one `dev` writes to."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, sentence: str) -> None:
        self.console.print(Text(printable(sentence), style="yellow"), soft_wrap=True)

    def on_line(self, program: str, line: str) -> None:
        text = Text.assemble((f"{program:>7} | ", "dim"), printable(line))
        self.console.print(text, soft_wrap=True)

    def show_stack(self, stack: DevStack) -> None:
        title = f"pyoco-server {__version__}"
        if self.console.is_terminal:
            self.console.print(
                Panel(_table(_what_runs(stack)), title=title, title_align="left", expand=False)
            )
            return
        for name, value in [(title, ""), *_what_runs(stack)]:
            self.console.print(Text(printable(f"{name:11}{value}")), soft_wrap=True)

    def show_commands(self, commands: Sequence[str]) -> None:
        self.console.print(Text("Next, in another terminal:", style="bold"))
        for command in commands:
            # As it is, whatever the width of the terminal: it is there to be copied.
            self.console.print(Text(f"  {command}"), soft_wrap=True)


@asynccontextmanager
async def running_stack(
    options: DevOptions, stop: StopRequest, screen: Screen
) -> AsyncIterator[DevStack | None]:
    """Everything runs inside this context; None when the request to stop came before that."""
    stack = DevStack(options, say=screen.say, on_line=screen.on_line)
    async with AsyncExitStack() as last:
        yield await stop.before(last.enter_async_context(stack))
        drain_sec = options.config.drain_timeout_sec
        screen.say(f"Ending. What runs has {drain_sec:g} s to finish; another Ctrl-C leaves at once.")
    screen.say(f"Everything has ended. The data stays in {stack.nats.data_dir}.")


async def serve_dev(options: DevOptions, stop: StopRequest, screen: Screen) -> None:
    """Run everything, show it, and wait until asked to stop."""
    async with running_stack(options, stop, screen) as stack:
        if stack is not None:
            show_start(stack, screen)
            await stop.event.wait()


def show_start(stack: DevStack, screen: Screen) -> None:
    screen.show_stack(stack)
    screen.show_commands(_first_commands(stack))
    screen.console.print(Text("Ctrl-C ends everything.", style="dim"))


def client_command(gateway_url: str, *arguments: str) -> str:
    """A `pyoco-client` command that works in this shell, against this gateway."""
    server = [] if gateway_url == f"http://127.0.0.1:{USUAL_PORT}" else ["--server", gateway_url]
    return shlex.join([_program("pyoco-client"), *server, *arguments])


def _program(name: str) -> str:
    """The bare name when the shell finds our own program by it, otherwise the way to it."""
    ours = Path(sysconfig.get_path("scripts")) / name
    found = shutil.which(name)
    if found and Path(found).resolve() == ours.resolve():
        return name
    return str(ours.relative_to(Path.cwd())) if ours.is_relative_to(Path.cwd()) else str(ours)


def _first_commands(stack: DevStack) -> list[str]:
    flows = stack.worker_facts.flows
    if flows:
        submit = client_command(stack.gateway_url, "submit", "--flow-name", flows[0], "--wait")
    else:
        submit = client_command(
            stack.gateway_url, "submit-yaml", "--workflow-file", "flow.yaml", "--flow-name", "first", "--wait"
        )
    return [submit, f"curl {stack.gateway_url}/health", client_command(stack.gateway_url, "--help")]


def _what_runs(stack: DevStack) -> list[tuple[str, str]]:
    worker = stack.worker_facts
    slots = "1 slot" if worker.slots == 1 else f"{worker.slots} slots"
    warning = open_to_others(stack.options.host, stack.options.config)
    return [
        *([("Dashboard", f"{stack.gateway_url}/")] if _DASHBOARD.is_file() else []),
        ("Gateway", f"{stack.gateway_url}  (API: {stack.gateway_url}/openapi.json)"),
        ("Worker", f"{worker.worker_id}, {slots}, tags {', '.join(worker.tags)}"),
        ("Flows", ", ".join(worker.flows) or "none"),
        *(("", f"not loaded: {file}: {why}") for file, why in worker.failures.items()),
        ("NATS", stack.nats.url),
        ("Data", str(stack.nats.data_dir)),
        ("Logs", str(stack.options.log_dir.absolute())),
        *([("Warning", warning)] if warning else []),
    ]


def _table(rows: Sequence[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, printable(value))
    return table
