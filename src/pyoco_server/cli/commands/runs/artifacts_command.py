"""`pyoco-client artifacts`: the files of a run."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import Annotated, BinaryIO, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from pyoco_server.cli.options.client_options import OutputOption, RunId, client_command
from pyoco_server.cli.options.shared_options import flag, option, sendable_text
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import print_note, printable, show
from pyoco_server.cli.views.copied_commands import with_server
from pyoco_server.cli.views.list_views import artifacts_table, format_size
from pyoco_server.errors import FieldProblem, InvalidCliArgument
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.http_client.response_types import Artifacts
from pyoco_server.records.runs.artifact_models import InvalidArtifactName, artifact_name

_STDOUT: Final = "-"
_NOT_ON_WINDOWS: Final = frozenset('<>:"|?*')


@client_command("pyoco-client artifacts list $RUN_ID", "pyoco-client artifacts list $RUN_ID --output json")
def list_artifacts(client: PyocoHttpClient, run: RunId, *, output: OutputOption = None) -> None:
    show(client.list_artifacts(run), output, _view)


@client_command(
    "pyoco-client artifacts get $RUN_ID report.csv",
    "pyoco-client artifacts get $RUN_ID plots/loss.png --output -",
    "pyoco-client artifacts get $RUN_ID --output results --force",
)
def get(
    client: PyocoHttpClient,
    run: RunId,
    name: Annotated[
        str | None,
        typer.Argument(
            help="The name of the file (default: all files of the run).",
            metavar="NAME",
            parser=sendable_text,
            show_default=False,
        ),
    ] = None,
    *,
    output: Annotated[
        str | None,
        option(
            "Folder to write to; - writes one file to the standard output (default: this folder, and for all "
            "files a folder with the run id).",
            "DIR",
        ),
    ] = None,
    force: Annotated[bool, flag("--force", "Replace files that exist.")] = False,
) -> None:
    if output == _STDOUT:
        if name is None:
            raise InvalidCliArgument("--output - needs the NAME of one file")
        client.download_artifact(run, name, sys.stdout.buffer)
        return
    if name is not None:
        folder = Path(output or ".")
        _download(client, run, name, folder, _target(folder, name, force=force))
        return
    folder, listed = Path(output or run), client.list_artifacts(run)
    # Before the first one is written: one of them may be refused.
    targets = [(file, _target(folder, file["name"], force=force)) for file in listed["artifacts"]]
    for file, target in targets:
        _download(client, run, file["name"], folder, target, sha256=file["sha256"])
    if count := listed["left_out_count"]:
        text = localized("{count} files of the run are not stored", count=count)
        print_note(f"{text}: {with_server(f'pyoco-client artifacts list {run}')}")


def _target(folder: Path, name: str, *, force: bool) -> Path:
    """Where the file is written."""
    try:
        safe = artifact_name(name)
    except InvalidArtifactName as error:
        raise InvalidCliArgument(f"{name!r} is not written: {error}") from None
    if os.name == "nt" and not _NOT_ON_WINDOWS.isdisjoint(safe):
        raise InvalidCliArgument(f"Windows has no files of the name {safe!r}: get it with --output -")
    target = folder / safe
    if not force and os.path.lexists(target):
        problem = FieldProblem("--output", f"{target} exists; --force replaces it")
        raise InvalidCliArgument(problems=[problem])
    return target


def _download(
    client: PyocoHttpClient, run: str, name: str, folder: Path, target: Path, *, sha256: str | None = None
) -> None:
    """`sha256` is what the list says: the file may be replaced while a run lasts."""
    digest = hashlib.sha256()
    with _created(target.parent):
        if not target.parent.resolve().is_relative_to(folder.resolve()):
            raise InvalidCliArgument(f"{target.parent} leads out of {folder}: nothing is written there")
        with _replacing(target) as written:
            size = client.download_artifact(run, name, _Digested(written, digest.update))
            if sha256 not in (None, digest.hexdigest()):
                raise InvalidCliArgument(f"{name} was replaced while it was downloaded: get it again")
    print_note(f"{target} ({format_size(size)})")


@contextmanager
def _created(folder: Path) -> Iterator[None]:
    """Create the folder and those above it; after an error, remove the new ones that are empty."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for each in new:
            with suppress(OSError):
                each.rmdir()
        raise


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """A file that gets its name when it is complete: a link of that name is replaced, not followed."""
    descriptor, unfinished = mkstemp(prefix=".pyoco-", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        # Not only for its owner, which temporary files are.
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, target)
    except BaseException:
        os.unlink(unfinished)
        raise


class _Digested:
    """An open file whose written bytes are also digested."""

    def __init__(self, file: BinaryIO, update: Callable[[bytes], None]) -> None:
        self._file = file
        self._update = update

    def write(self, block: bytes) -> int:
        self._update(block)
        return self._file.write(block)


def _view(listed: Artifacts) -> RenderableType:
    table = artifacts_table(listed["artifacts"])
    if not listed["left_out_count"]:
        return table
    lines = [f"{each['name']}: {each['reason']}" for each in listed["left_out"]]
    more = listed["left_out_count"] - len(lines)
    lines += [f"and {more} more"] if more > 0 else []
    title = Text(f"\nNot stored: {listed['left_out_count']}", style="yellow")
    return Group(table, title, *(Text(f"  {printable(line)}") for line in lines))
