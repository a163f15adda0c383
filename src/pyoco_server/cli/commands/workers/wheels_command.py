"""`pyoco-client wheels`, `wheel-history`, `wheel-upload` and `wheel-delete`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from rich.console import RenderableType
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from pyoco_server.cli.options.client_options import OutputOption, client_command
from pyoco_server.cli.options.shared_options import (
    checked_tags,
    comma_separated,
    flag,
    option,
    text_option,
)
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, printable, show, stderr_console
from pyoco_server.cli.views.list_views import format_size, wheel_events_view, wheels_view
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.http_client.response_types import Wheel
from pyoco_server.http_client.workers.wheel_calls import OnProgress
from pyoco_server.records.workers.wheel_models import WheelAction


@client_command("pyoco-client wheels", "pyoco-client wheels --output json")
def wheels(client: PyocoHttpClient, *, output: OutputOption = None) -> None:
    show(client.list_wheels(), output, wheels_view)


@client_command(
    "pyoco-client wheel-history --limit 20",
    "pyoco-client wheel-history --wheel-name mypackage-1.2.0-py3-none-any.whl --action upload",
)
def wheel_history(
    client: PyocoHttpClient,
    *,
    limit: Annotated[
        int | None, option("Maximum number of results (default: 100; at most 500).", "N", min=1, max=500)
    ] = None,
    wheel_name: Annotated[str | None, text_option("Only events of this wheel.")] = None,
    action: Annotated[WheelAction | None, option("Only upload or only delete events.", "ACTION")] = None,
    output: OutputOption = None,
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
        option("The wheel file, with its original name.", "FILE", exists=True, dir_okay=False, readable=True),
    ],
    tags: Annotated[
        str | None,
        option("Only workers with one of these tags install it (default: all).", "A,B", parser=checked_tags),
    ] = None,
    replace: Annotated[
        bool | None,
        flag("--replace/--no-replace", "Recorded in the history only; the version must be newer either way."),
    ] = None,
    output: OutputOption = None,
) -> None:
    with _progress_bar(wheel_file.stat().st_size) as on_progress:
        wheel = client.upload_wheel(
            wheel_file, tags=comma_separated(tags), replace=replace, on_progress=on_progress
        )
    show(wheel, output, wheel_view)


@client_command("pyoco-client wheel-delete --name mypackage-1.2.0-py3-none-any.whl")
def wheel_delete(
    client: PyocoHttpClient,
    *,
    name: Annotated[str, text_option("The wheel name shown by `wheels`.")],
    output: OutputOption = None,
) -> None:
    show(client.delete_wheel(name), output, lambda wheel: pairs([("deleted", printable(wheel["name"]))]))


@contextmanager
def _progress_bar(size: int) -> Iterator[OnProgress | None]:
    """What shows the progress of an upload; None without a terminal."""
    if not stderr_console().is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=stderr_console(), transient=True) as progress:
        upload = progress.add_task(localized("Uploading"), total=size)

        def show_progress(done: int, total: int) -> None:
            # The gateway checks the wheel once it is complete.
            description = localized("Uploading" if done < total else "Checking on the gateway")
            progress.update(upload, completed=done, description=description)

        yield show_progress


def wheel_view(wheel: Wheel) -> RenderableType:
    return pairs(
        [
            ("name", printable(wheel["name"])),
            ("size", format_size(wheel["size_bytes"])),
            ("tags", printable(", ".join(wheel["tags"]) or localized("(all workers)"))),
            ("sha256", wheel["sha256_hex"] or ""),
        ]
    )
