"""Writes what a run or a task returned: to a file, or to the standard output as it is."""

import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import json_text, print_note, printable
from pyoco_server.errors import FieldProblem, InvalidCliArgument, shortened
from pyoco_server.http_client import PyocoHttpClient


def write_result(client: PyocoHttpClient, run_id: str, task: str | None, file: Path | None) -> None:
    if file is not None:
        _save(client, run_id, task, file)
    elif sys.stdout.isatty():
        _print(client.result(run_id, task))
    else:
        client.download_result(run_id, sys.stdout.buffer, task)
        sys.stdout.buffer.flush()


def _save(client: PyocoHttpClient, run_id: str, task: str | None, file: Path) -> None:
    """The file appears when it is complete."""
    partial = file.with_name(f".{file.name}.part-{os.getpid()}")
    try:
        with _new_file(partial, file) as target:
            size = client.download_result(run_id, target, task)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    print_note(localized("Wrote {size} bytes to {file}.", size=size, file=file))


def _new_file(partial: Path, file: Path) -> BinaryIO:
    if file.is_dir():
        raise _invalid(file, "it is a folder; expected the path of a file")
    try:
        return partial.open("xb")
    except OSError as error:
        raise _invalid(file, f"it cannot be written: {error.strerror}") from error


def _print(value: Any) -> None:
    """For a person: tasks may return what controls a terminal."""
    if isinstance(value, bytes):
        raise InvalidCliArgument(
            f"the result is {len(value)} bytes and not text: save it with --output FILE, or redirect it"
        )
    sys.stdout.write(printable(json_text(value)) + "\n")


def _invalid(file: Path, why: str) -> InvalidCliArgument:
    return InvalidCliArgument(problems=[FieldProblem("--output", why, shortened(str(file)))])
