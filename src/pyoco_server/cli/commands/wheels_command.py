"""`pyoco-client wheels` and what goes with it: the registry of code that workers install."""

import re
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import RenderableType
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from pyoco_server.cli.entry import examples
from pyoco_server.cli.options.client_options import ApiKey, OutputForm, Server, open_client
from pyoco_server.cli.options.common_options import comma_separated, sendable_text
from pyoco_server.cli.views.console import notes, printable
from pyoco_server.cli.views.list_views import size_in_words, wheel_events_view, wheels_view
from pyoco_server.cli.views.run_views import pairs, show
from pyoco_server.http_client.response_types import DeletedWheel, Wheel
from pyoco_server.records.models import TAG_EXPECTED, TAG_PATTERN

WHEELS_EPILOG: Final = examples("pyoco-client wheels", "pyoco-client wheels --output json")
HISTORY_EPILOG: Final = examples(
    "pyoco-client wheel-history --limit 20",
    "pyoco-client wheel-history --wheel-name mypackage-1.2.0-py3-none-any.whl --action upload",
)
UPLOAD_EPILOG: Final = examples(
    "pyoco-client wheel-upload --wheel-file dist/mypackage-1.2.0-py3-none-any.whl",
    "pyoco-client wheel-upload --wheel-file dist/mypackage-1.2.0-py3-none-any.whl --tags cpu,linux",
)
DELETE_EPILOG: Final = examples("pyoco-client wheel-delete --name mypackage-1.2.0-py3-none-any.whl")


class Action(StrEnum):
    UPLOAD = "upload"
    DELETE = "delete"


def _checked_tags(text: str) -> str:
    for tag in comma_separated(text):
        if not re.fullmatch(TAG_PATTERN, tag):
            raise typer.BadParameter(f"{tag!r}: {TAG_EXPECTED}")
    return text


def wheels(
    ctx: typer.Context, *, output: OutputForm = None, server: Server = None, api_key: ApiKey = None
) -> None:
    """List the wheels that workers install."""
    with open_client(ctx, server, api_key) as client:
        show(client.list_wheels(), output, wheels_view)


def wheel_history(
    ctx: typer.Context,
    *,
    limit: Annotated[
        int | None,
        typer.Option(help="How many at most (100; no more than 500).", metavar="N", min=1, max=500),
    ] = None,
    wheel_name: Annotated[
        str | None, typer.Option(help="Only those of this wheel.", metavar="NAME", parser=sendable_text)
    ] = None,
    action: Annotated[
        Action | None, typer.Option(help="Only upload, or only delete.", metavar="ACTION")
    ] = None,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """List the uploads and deletions of wheels, the newest first."""
    with open_client(ctx, server, api_key) as client:
        show(client.wheel_history(limit, wheel_name=wheel_name, action=action), output, wheel_events_view)


def wheel_upload(
    ctx: typer.Context,
    *,
    wheel_file: Annotated[
        Path,
        typer.Option(
            help="The wheel, under the name it was built with.",
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
            parser=_checked_tags,
        ),
    ] = None,
    replace: Annotated[
        bool | None,
        typer.Option(
            "--replace/--no-replace", help="Written to the history; the version decides.", metavar=""
        ),
    ] = None,
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Register a wheel whose version is above that of every other one of its package."""
    with open_client(ctx, server, api_key) as client, _progress(wheel_file.stat().st_size) as bar:
        wheel = client.upload_wheel(wheel_file, tags=comma_separated(tags), replace=replace, on_progress=bar)
    show(wheel, output, wheel_view)


def wheel_delete(
    ctx: typer.Context,
    *,
    name: Annotated[
        str, typer.Option(help="The wheel, as `wheels` shows it.", metavar="NAME", parser=sendable_text)
    ],
    output: OutputForm = None,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Take a wheel out of the registry; workers uninstall it before their next runs."""
    with open_client(ctx, server, api_key) as client:
        show(client.delete_wheel(name), output, _deleted_view)


class _Bar:
    """How far an upload is, for a person who looks on."""

    def __init__(self, size: int) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._progress = Progress(*columns, console=notes(), transient=True)
        self._task = self._progress.add_task("Sending", total=size)

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, done: int, total: int) -> None:
        # The gateway looks through the wheel once all of it is there.
        description = "Sending" if done < total else "The gateway checks it"
        self._progress.update(self._task, completed=done, description=description)


def _progress(size: int) -> "_Bar | nullcontext[None]":
    return _Bar(size) if notes().is_terminal else nullcontext()


def wheel_view(wheel: Wheel) -> RenderableType:
    return pairs(
        [
            ("name", printable(wheel["name"])),
            ("size", size_in_words(wheel["size_bytes"])),
            ("tags", printable(", ".join(wheel["tags"]) or "(all workers)")),
            ("sha256", wheel["sha256_hex"] or ""),
        ]
    )


def _deleted_view(answer: DeletedWheel) -> RenderableType:
    return pairs([("deleted", printable(answer["name"]))])
