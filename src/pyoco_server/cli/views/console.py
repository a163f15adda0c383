"""Where a command writes: results to the standard output, everything else to the standard error."""

import os
import re
import sys
from typing import Final

import typer
from rich.console import Console

# All that could steer a terminal; a task may have printed it, and we show what tasks print.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def results() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


def notes() -> Console:
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def say(line: str) -> None:
    """One line for a person, which a script that reads the output does not see."""
    typer.echo(printable(line), err=True)


def tell_person(line: str) -> None:
    """A line that only somebody who looks on wants; the log has the same for everybody else."""
    if sys.stderr.isatty():
        say(line)


def discard_output() -> None:
    """Give up what was not written yet: at its exit Python would try again, and complain again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def printable(text: str) -> str:
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
