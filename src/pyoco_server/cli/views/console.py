"""Output of a command as a table or JSON: results on standard output, everything else on standard error."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

import typer

from pyoco_server.cli.translation import localized

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

T = TypeVar("T")

# Characters that can control a terminal; tasks may print them, and we show what tasks print.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class OutputFormat(StrEnum):
    JSON = "json"
    TABLE = "table"


def stdout_console() -> "Console":
    from rich.console import Console  # noqa: PLC0415 - a server needs none, and it takes 4 MB

    return Console(highlight=False, markup=False, emoji=False)


def stderr_console() -> "Console":
    from rich.console import Console  # noqa: PLC0415 - see above

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def effective_format(output: OutputFormat | None) -> OutputFormat:
    """The requested format; by default a table on a terminal, JSON otherwise."""
    if output is not None:
        return output
    return OutputFormat.TABLE if stdout_console().is_terminal else OutputFormat.JSON


def show(result: T, output: OutputFormat | None, view: "Callable[[T], RenderableType]") -> None:
    """Write a command's result to the standard output."""
    console = stdout_console()
    if effective_format(output) is OutputFormat.TABLE:
        # A line may be longer than the terminal is wide: it is for copying.
        console.print(view(result), crop=False)
    else:
        console.file.write(json_text(result) + "\n")
    console.file.flush()


def json_text(value: object) -> str:
    """JSON that the standard output can encode."""
    can_encode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    return json.dumps(value, indent=2, ensure_ascii=not can_encode)


def print_note(line: str) -> None:
    typer.echo(printable(line), err=True)


def print_note_on_terminal(line: str) -> None:
    """A note that the log has as well, so that only a terminal needs it."""
    if sys.stderr.isatty():
        print_note(line)


def pairs(rows: "Iterable[tuple[str, RenderableType]]") -> "Table":
    """Names and values in two columns; names of the API's fields stay as they are."""
    from rich.table import Table  # noqa: PLC0415 - see above

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(localized(name), value)
    return table


def discard_output() -> None:
    """Drop unwritten output: Python would write it at its exit, and fail again."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def printable(text: str) -> str:
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
