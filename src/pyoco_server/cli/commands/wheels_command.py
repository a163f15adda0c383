"""`pyoco-client wheels`, `wheel-history`, `wheel-upload` and `wheel-delete`."""

from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from pyoco_server.cli.options.client_options import OutputForm, client_command
from pyoco_server.cli.options.shared_options import checked_tags, comma_separated, sendable_text
from pyoco_server.cli.views.console import pairs, printable, show, stderr_console
from pyoco_server.cli.views.list_views import format_size, wheel_events_view, wheels_view
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.http_client.response_types import Wheel


class Action(StrEnum):
    UPLOAD = "upload"
    DELETE = "delete"


@client_command("pyoco-client wheels", "pyoco-client wheels --output json")
def wheels(client: PyocoHttpClient, *, output: OutputForm = None) -> None:
    show(client.list_wheels(), output, wheels_view)


@client_command(
    "pyoco-client wheel-history --limit 20",
    "pyoco-client wheel-history --wheel-name mypackage-1.2.0-py3-none-any.whl --action upload",
)
def wheel_history(
    client: PyocoHttpClient,
    *,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of results (default: 100; at most 500).", metavar="N", min=1, max=500
        ),
    ] = None,
    wheel_name: Annotated[
        str | None, typer.Option(help="Only events of this wheel.", metavar="NAME", parser=sendable_text)
    ] = None,
    action: Annotated[
        Action | None, typer.Option(help="Only upload or only delete events.", metavar="ACTION")
    ] = None,
    output: OutputForm = None,
) -> None:
    show(client.wheel_history(limit, wheel_name=wheel_name, action=action), output, wheel_events_view)


@client_command(
    "pyoco-client wheel-upload --wheel-file dist/mypackage-1.2.0-py3-none-any.whl",
    "pyoco-client wheel-upload --wheel-file dist/mypackage-1.2.0-py3-none-any.whl --tags cpu,linux",
)
def wheel_upload(
    client: PyocoHttpClient,
    *,
    wheel_file: Annotated[
        Path,
        typer.Option(
            help="The wheel file, with its original name.",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            readable=True,
        ),
    ],
    tags: Annotated[
        str | None,
        typer.Option(
            help="Only workers with one of these tags install it (default: all).",
            metavar="A,B",
            parser=checked_tags,
        ),
    ] = None,
    replace: Annotated[
        bool | None,
        typer.Option(
            "--replace/--no-replace",
            help="Recorded in the history only; the version must be newer either way.",
            metavar="",
        ),
    ] = None,
    output: OutputForm = None,
) -> None:
    with _progress(wheel_file.stat().st_size) as bar:
        wheel = client.upload_wheel(wheel_file, tags=comma_separated(tags), replace=replace, on_progress=bar)
    show(wheel, output, wheel_view)


@client_command("pyoco-client wheel-delete --name mypackage-1.2.0-py3-none-any.whl")
def wheel_delete(
    client: PyocoHttpClient,
    *,
    name: Annotated[
        str, typer.Option(help="The wheel name shown by `wheels`.", metavar="NAME", parser=sendable_text)
    ],
    output: OutputForm = None,
) -> None:
    show(client.delete_wheel(name), output, lambda wheel: pairs([("deleted", printable(wheel["name"]))]))


class _Bar:
    def __init__(self, size: int) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._progress = Progress(*columns, console=stderr_console(), transient=True)
        self._task = self._progress.add_task("Uploading", total=size)

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, done: int, total: int) -> None:
        # The gateway checks the wheel once it is complete.
        description = "Uploading" if done < total else "Checking on the gateway"
        self._progress.update(self._task, completed=done, description=description)


def _progress(size: int) -> "_Bar | nullcontext[None]":
    return _Bar(size) if stderr_console().is_terminal else nullcontext()


def wheel_view(wheel: Wheel) -> RenderableType:
    return pairs(
        [
            ("name", printable(wheel["name"])),
            ("size", format_size(wheel["size_bytes"])),
            ("tags", printable(", ".join(wheel["tags"]) or "(all workers)")),
            ("sha256", wheel["sha256_hex"] or ""),
        ]
    )
