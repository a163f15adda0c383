"""Command lines that a command prints for copying: for the same gateway, and never wrapped."""

import shlex
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.text import Text

_PROGRAM: Final = "pyoco-client"

# The --server of this command; None if it is that of the environment, or the default.
_given_server: ContextVar[str | None] = ContextVar("given_server", default=None)


def use_server(server: str | None) -> None:
    """Commands that are printed from now on name this gateway."""
    _given_server.set(server)


def with_server(command: str) -> str:
    """A command line of pyoco-client with the --server that this command was given; other text unchanged."""
    server = _given_server.get()
    program, space, arguments = command.partition(" ")
    if server is None or program != _PROGRAM:
        return command
    return f"{program} --server {shlex.quote(server)}{space}{arguments}"


def command_line(label: str, command: str, *, style: str = "") -> "Text":
    """A line of a view, which stays one line however narrow the terminal is."""
    from rich.text import Text  # noqa: PLC0415 - a server needs none, and it takes 4 MB

    return Text.assemble(label, (with_server(command), style), no_wrap=True, overflow="ignore")
