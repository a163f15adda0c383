"""`pyoco-client workers`, `worker` and `metrics`."""

from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Final

from rich.console import RenderableType

from pyoco_server.cli.options.client_options import OutputOption, client_command
from pyoco_server.cli.options.shared_options import flag, one_of, option, text_option
from pyoco_server.cli.options.time_formats import ago, local_time
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, print_note, printable, show, stdout_console
from pyoco_server.cli.views.list_views import format_size, worker_state, workers_view
from pyoco_server.errors import InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient, PyocoHttpError
from pyoco_server.http_client.response_types import Worker, WorkerEvent, WorkerUsage
from pyoco_server.records.workers.worker_models import WorkerState

_GENERAL_COMMAND: Final = "pyoco-worker --flows ./flows --nats-url nats://HOST:4222"


class WorkerScope(StrEnum):
    ACTIVE = "active"
    ALL = "all"


@client_command(
    "pyoco-client workers",
    "pyoco-client workers --scope all --include-hidden",
    "pyoco-client workers --state DISCONNECTED",
)
def workers(
    client: PyocoHttpClient,
    *,
    scope: Annotated[
        WorkerScope | None,
        option(
            "active (default): live workers only; all: include stopped and disconnected ones.",
            "SCOPE",
            show_default=False,
        ),
    ] = None,
    state: Annotated[
        WorkerState | None,
        option(
            "Only workers that are RUNNING, IDLE, STOPPED_GRACEFUL or DISCONNECTED.",
            "STATE",
            parser=one_of(WorkerState),
            autocompletion=lambda: list(WorkerState),
        ),
    ] = None,
    include_hidden: Annotated[bool, flag("--include-hidden", "Include hidden workers.")] = False,
    limit: Annotated[
        int | None, option("Maximum number of results (default: 100; at most 500).", "N", min=1, max=500)
    ] = None,
    output: OutputOption = None,
) -> None:
    found = client.list_workers(scope=scope, state=state, include_hidden=include_hidden, limit=limit)
    show(found, output, workers_view)
    if not found and scope is None and state is None:
        _note_how_to_add_one(client)


def _note_how_to_add_one(client: PyocoHttpClient) -> None:
    command = _GENERAL_COMMAND
    # Not for every key, and not of an earlier gateway.
    with suppress(PyocoHttpError):
        command = client.get_worker_setup()["command"]
    print_note(localized("Start a worker: {command}", command=command))


@client_command(
    "pyoco-client worker --worker-id gpu-1",
    "pyoco-client worker --worker-id gpu-1 --pause",
    "pyoco-client worker --worker-id gpu-1 --drain",
)
def worker(
    client: PyocoHttpClient,
    *,
    worker_id: Annotated[str, text_option("The worker id shown by `workers`.", "ID")],
    pause: Annotated[bool, flag("--pause", "Stop taking new runs; current runs continue.")] = False,
    resume: Annotated[bool, flag("--resume", "Take new runs again.")] = False,
    drain: Annotated[bool, flag("--drain", "Finish current runs, then exit.")] = False,
    hide: Annotated[bool, flag("--hide", "Hide it from lists.")] = False,
    unhide: Annotated[bool, flag("--unhide", "Show it in lists again.")] = False,
    output: OutputOption = None,
) -> None:
    paused = _switch(pause, resume, "--pause", "--resume")
    hidden = _switch(hide, unhide, "--hide", "--unhide")
    if drain or paused is not None or hidden is not None:
        client.update_worker(worker_id, hidden=hidden, paused=paused, drain=drain or None)
    show(client.get_worker(worker_id), output, worker_view)


@client_command("pyoco-client metrics", "pyoco-client metrics --name pyoco_queue")
def metrics(
    client: PyocoHttpClient,
    *,
    name: Annotated[str | None, option("Only metrics whose names start with this.", "PREFIX")] = None,
) -> None:
    lines = client.metrics().splitlines(keepends=True)
    stdout_console().file.write(
        "".join(line for line in lines if name is None or _metric_name(line).startswith(name))
    )


def worker_view(worker: Worker) -> RenderableType:
    rows: list[tuple[str, RenderableType]] = [
        ("worker_id", printable(worker["worker_id"])),
        ("state", worker_state(worker)),
        ("slots", localized("{busy} of {slots} busy", busy=worker["slots_busy"], slots=worker["slots"])),
        ("executor error", printable(worker.get("executor_error") or "")),
        ("tags", printable(", ".join(worker["tags"]))),
        *_host_rows(worker),
        ("flows", printable(", ".join(worker["flows"]))),
        ("last seen", ago(worker["last_seen_at"])),
        ("last progress", ago(worker["last_progress_at"])),
        *(("run", printable(run_id)) for run_id in worker["current_run_ids"]),
        ("last run", printable(f"{worker['last_run_id'] or ''} {worker['last_run_status'] or ''}".strip())),
        ("stopped", printable(f"{ago(worker['stopped_at'])} {worker['stop_reason'] or ''}".strip())),
        *_wheel_rows(worker),
        ("version", printable(f"pyoco-server {worker['version']}, pyoco {worker['pyoco_version']}")),
        *(("history", printable(_event_text(event))) for event in worker.get("history", [])),
    ]
    return pairs((name, value) for name, value in rows if value)


def _host_rows(worker: Worker) -> list[tuple[str, RenderableType]]:
    host, usage = worker.get("host"), worker.get("usage")
    rows: list[tuple[str, RenderableType]] = []
    if host is not None:
        parts = [
            host["name"],
            host["system"],
            f"Python {host['python']}",
            localized("{count} CPUs", count=host["cpus"]),
        ]
        if host["memory_bytes"] is not None:
            parts.append(format_size(host["memory_bytes"]))
        rows.append(("host", printable(", ".join(parts))))
    if usage is not None:
        rows += [("cpu", _cpu_text(usage)), ("memory", _memory_text(usage))]
    return rows


def _cpu_text(usage: WorkerUsage) -> str:
    cores, host = usage["cpu_cores"], usage["host_cpu"]
    own = "" if cores is None else localized("{count} cores", count=f"{cores:.2f}")
    return own if host is None else (own + localized(" (host {share} busy)", share=f"{host:.0%}")).strip()


def _memory_text(usage: WorkerUsage) -> str:
    size, host = usage["memory_bytes"], usage["host_memory_bytes"]
    own = ""
    if size is not None:
        own = localized("{size} in {count} processes", size=format_size(size), count=usage["processes"])
    return own if host is None else (own + localized(" (host {size} in use)", size=format_size(host))).strip()


def _event_text(event: WorkerEvent) -> str:
    by = localized(" by {who}", who=event["by"]) if event.get("by") else ""
    reason = f" ({event['reason']})" if event.get("reason") else ""
    return f"{local_time(event['at'])} {event['kind'].replace('_', ' ')}{by}{reason}"


def _wheel_rows(worker: Worker) -> list[tuple[str, RenderableType]]:
    wheels = worker.get("wheel_sync")
    if wheels is None or not wheels["enabled"]:
        return []
    installed = ", ".join(f"{each['package']} {each['version']}" for each in wheels["installed_wheels"])
    return [
        ("wheels", printable(f"{wheels['last_result']}: {installed or localized('none installed')}")),
        ("wheel error", printable(wheels["error"] or "")),
    ]


def _switch(on: bool, off: bool, on_option: str, off_option: str) -> bool | None:
    if on and off:
        raise InvalidCliArgument(f"use either {on_option} or {off_option}, not both")
    return True if on else False if off else None


def _metric_name(line: str) -> str:
    """The metric of a line: `name{...} 1`, `# HELP name ...` or `# TYPE name ...`."""
    words = line.split(maxsplit=3)
    return words[2] if line.startswith("# ") and len(words) > 2 else line
