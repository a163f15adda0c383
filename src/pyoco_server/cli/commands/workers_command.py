"""`pyoco-client workers` and `worker`: who executes runs; and having one of them pause or end."""

from enum import StrEnum
from typing import Annotated, Final

import typer
from rich.console import RenderableType

from pyoco_server.cli.entry import examples
from pyoco_server.cli.options.client_options import ApiKey, OutputForm, Server, open_client
from pyoco_server.cli.options.common_options import one_of, sendable_text
from pyoco_server.cli.options.moments import ago
from pyoco_server.cli.views.console import printable
from pyoco_server.cli.views.list_views import worker_state, workers_view
from pyoco_server.cli.views.run_views import pairs, show
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client.response_types import Worker
from pyoco_server.records.models import WorkerState

WORKERS_EPILOG: Final = examples(
    "pyoco-client workers",
    "pyoco-client workers --scope all --include-hidden",
    "pyoco-client workers --state DISCONNECTED",
)
WORKER_EPILOG: Final = examples(
    "pyoco-client worker --worker-id gpu-1",
    "pyoco-client worker --worker-id gpu-1 --pause",
    "pyoco-client worker --worker-id gpu-1 --drain",
)


class Scope(StrEnum):
    ACTIVE = "active"
    ALL = "all"


def workers(
    ctx: typer.Context,
    *,
    scope: Annotated[
        Scope | None,
        typer.Option(
            help="active (the default): those that live; all: those that are gone as well.",
            metavar="SCOPE",
            show_default=False,
        ),
    ] = None,
    state: Annotated[
        WorkerState | None,
        typer.Option(
            help="Only RUNNING, IDLE, STOPPED_GRACEFUL or DISCONNECTED ones.",
            metavar="STATE",
            parser=one_of(WorkerState),
            autocompletion=lambda: list(WorkerState),
        ),
    ] = None,
    include_hidden: Annotated[
        bool, typer.Option("--include-hidden", help="Also those that were hidden.", metavar="")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(help="How many at most (100; no more than 500).", metavar="N", min=1, max=500),
    ] = None,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """List the workers: their states, slots, tags and runs."""
    with open_client(ctx, server, api_key) as client:
        found = client.list_workers(scope=scope, state=state, include_hidden=include_hidden, limit=limit)
        show(found, output, workers_view)


def worker(
    ctx: typer.Context,
    *,
    worker_id: Annotated[
        str, typer.Option(help="The worker's id, as `workers` shows it.", metavar="ID", parser=sendable_text)
    ],
    pause: Annotated[
        bool, typer.Option("--pause", help="Have it take no more runs; what runs goes on.", metavar="")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Have it take runs again.", metavar="")] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Have it finish what runs, and end.", metavar="")
    ] = False,
    hide: Annotated[bool, typer.Option("--hide", help="Leave it out of lists.", metavar="")] = False,
    unhide: Annotated[bool, typer.Option("--unhide", help="Show it in lists again.", metavar="")] = False,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Show one worker; or pause, resume, drain, hide or unhide it first."""
    paused = _wish(pause, resume, "--pause", "--resume")
    hidden = _wish(hide, unhide, "--hide", "--unhide")
    with open_client(ctx, server, api_key) as client:
        if drain or paused is not None or hidden is not None:
            client.update_worker(worker_id, hidden=hidden, paused=paused, drain=drain or None)
        show(client.get_worker(worker_id), output, worker_view)


def worker_view(worker: Worker) -> RenderableType:
    rows: list[tuple[str, RenderableType]] = [
        ("worker_id", printable(worker["worker_id"])),
        ("state", worker_state(worker)),
        ("slots", f"{worker['slots_busy']} of {worker['slots']} busy"),
        ("executor error", printable(worker.get("executor_error") or "")),
        ("tags", printable(", ".join(worker["tags"]))),
        ("last seen", ago(worker["last_seen_at"])),
        ("last progress", ago(worker["last_progress_at"])),
        *(("run", printable(run_id)) for run_id in worker["current_run_ids"]),
        ("last run", printable(f"{worker['last_run_id'] or ''} {worker['last_run_status'] or ''}".strip())),
        ("stopped", printable(f"{ago(worker['stopped_at'])} {worker['stop_reason'] or ''}".strip())),
        *_wheel_rows(worker),
        ("version", printable(f"pyoco-server {worker['version']}, pyoco {worker['pyoco_version']}")),
    ]
    return pairs((name, value) for name, value in rows if value)


def _wheel_rows(worker: Worker) -> list[tuple[str, RenderableType]]:
    """The wheels of a worker that installs them."""
    wheels = worker.get("wheel_sync")
    if wheels is None or not wheels["enabled"]:
        return []
    installed = ", ".join(f"{each['package']} {each['version']}" for each in wheels["installed_wheels"])
    return [
        ("wheels", printable(f"{wheels['last_result']}: {installed or 'none installed'}")),
        ("wheel error", printable(wheels["error"] or "")),
    ]


def _wish(on: bool, off: bool, on_option: str, off_option: str) -> bool | None:
    if on and off:
        raise InvalidCliArgument(f"{on_option} and {off_option} are opposites; leave one of them out")
    return True if on else False if off else None
