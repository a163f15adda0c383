"""`make demo`: start everything on this machine, run an example flow, show it, and serve until Ctrl-C."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from pyoco_server.cli.entry import CommandFailed, run
from pyoco_server.cli.lazy_group import epilog, new_app
from pyoco_server.cli.server.dev_command import (
    DEFAULT_DATA_DIR,
    DevOptions,
    DevScreen,
    DevStack,
    client_command,
    dev_settings,
    running_stack,
)
from pyoco_server.cli.server.serving import StopRequest, serve
from pyoco_server.cli.views.console import printable, stdout_console
from pyoco_server.cli.views.run_views import state, tasks_table
from pyoco_server.http_client import AsyncPyocoHttpClient
from pyoco_server.http_client.response_types import Run
from pyoco_server.records.runs.run_models import RunStatus

FLOWS = Path(__file__).parent / "flows"
FLOW_NAME = "sales_report"
ASKING_FLOW = "invoice"

app = new_app()


async def demonstrate(stop: StopRequest, options: DevOptions, *, once: bool) -> None:
    screen = DevScreen(stdout_console())
    screen.console.print(Text("Starting NATS, a gateway and a worker ...", style="dim"))
    async with running_stack(options, stop, screen) as stack:
        if stack is None:
            return
        screen.show_stack(stack)
        ended = await stop.before(run_example(stack, screen.console))
        if ended is None:
            return
        if ended["status"] != RunStatus.COMPLETED:
            raise CommandFailed(f"The example run is {ended['status']}: {ended.get('error')}")
        waiting = await stop.before(run_that_asks(stack))
        if waiting is None:
            return
        show_next(stack, screen, ended["run_id"], waiting)
        if not once:
            screen.console.print(Text("Serving. Press Ctrl-C to stop everything.", style="dim"))
            await stop.event.wait()


async def run_example(stack: DevStack, console: Console) -> Run:
    """Submit the example, show how it goes, and return it when it has ended."""
    async with AsyncPyocoHttpClient(stack.gateway_url) as client:
        accepted = await client.submit_run(FLOW_NAME, {"days": 14})
        ended = await follow(client, accepted["run_id"], console)
        answer = await client.get_tasks(accepted["run_id"])
    report = answer["task_records"].get("publish", {}).get("output")
    if report:
        console.print(Text("Its result:", style="bold"))
        console.print(Text(printable(report)))
    return ended


async def run_that_asks(stack: DevStack) -> Run:
    """Submit the example that waits for a person, and return it when it does."""
    async with AsyncPyocoHttpClient(stack.gateway_url) as client:
        accepted = await client.submit_run(ASKING_FLOW)
        async for snapshot in client.follow(accepted["run_id"]):
            if snapshot["status"] == RunStatus.WAITING_HUMAN:
                return snapshot
    raise CommandFailed(f"The run that asks is {snapshot['status']}: {snapshot.get('error')}")


async def follow(client: AsyncPyocoHttpClient, run_id: str, console: Console) -> Run:
    """Draw the run again and again on a terminal; elsewhere, write a line for each change."""
    seen: dict[str, str] = {}
    with Live(console=console, refresh_per_second=10) as live:
        async for snapshot in client.follow(run_id):
            run, tasks = {"run": snapshot["status"]}, snapshot["tasks"]
            # It begins before its tasks, and ends behind them.
            changes = note_changes(
                seen, tasks | run if RunStatus(snapshot["status"]).terminal else run | tasks
            )
            if console.is_terminal:
                live.update(drawing(snapshot))
            else:
                for name, word in changes.items():
                    console.print(Text(f"  {name} {word}"), soft_wrap=True)
    return snapshot


def note_changes(seen: dict[str, str], states: dict[str, str]) -> dict[str, str]:
    """What is new since the last look, apart from tasks that still wait."""
    changes = {name: word for name, word in states.items() if word not in ("PENDING", seen.get(name))}
    seen.update(changes)
    return changes


def drawing(snapshot: Run) -> RenderableType:
    head = Text.assemble(("Run ", "bold"), f"{FLOW_NAME} {snapshot['run_id']} ", state(snapshot["status"]))
    return Group(head, tasks_table(snapshot["tasks"], {}), Text())


def show_next(stack: DevStack, screen: DevScreen, run_id: str, waiting: Run) -> None:
    url = stack.gateway_url
    screen.console.print(Text.assemble(("This run:", "bold"), f" {url}/#/runs/{run_id}"), soft_wrap=True)
    show_question(screen, url, waiting)
    yaml_file = os.path.relpath(FLOWS / "check_orders.yaml")
    submit_yaml = ("submit-yaml", "--workflow-file", yaml_file, "--flow-name", "check_orders", "--wait")
    screen.show_commands(
        [
            client_command(url, "resume", waiting["run_id"], "--decision", "approved"),
            client_command(url, "tasks", run_id),
            client_command(url, "submit", "--flow-name", "greet", "--param", "name=Ada", "--wait"),
            client_command(url, *submit_yaml),
        ]
    )


def show_question(screen: DevScreen, url: str, waiting: Run) -> None:
    """What a run waits for that only a person can say."""
    wait = waiting["open_waits"][0]
    head = ("A run waits for you:", "bold")
    lines = [
        Text.assemble(head, f" {ASKING_FLOW} {waiting['run_id']} ", state(waiting["status"])),
        Text(printable(f"  {wait['message']}")),
        Text(f"  {url}/#/waits/{wait['wait_id']}"),
    ]
    for line in lines:
        screen.console.print(line, soft_wrap=True)


@app.command(epilog=epilog("make demo", 'make demo ARGS="--once"'))
def demo(
    *,
    once: Annotated[bool, typer.Option("--once", help="End after the example run.", metavar="")] = False,
    data_dir: Annotated[
        Path, typer.Option(help="Where NATS, runs and logs keep their files.", metavar="DIR")
    ] = DEFAULT_DATA_DIR,
) -> None:
    """Start everything on this machine, run an example flow, show it, and serve until Ctrl-C."""
    options = DevOptions(config=dev_settings(data_dir), flows=FLOWS, log_dir=data_dir / "logs")
    raise typer.Exit(serve(lambda stop: demonstrate(stop, options, once=once), options.config))


if __name__ == "__main__":
    run(app, "demo")
