"""The entry point of every program: turns what happens in a command into an exit code and a message."""

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.main import get_command

from pyoco_server.cli.lazy_group import examples_in
from pyoco_server.cli.old_names import translated
from pyoco_server.version import __version__

OK: Final = 0
FAILURE: Final = 1  # a usage error, an HTTP error, a run that did not complete, a server that cannot start
INTERRUPTED: Final = 130  # Ctrl-C


class CommandFailed(Exception):
    """The command cannot do what was asked for; the text says why, and the exit code is FAILURE."""


def _show_version(ctx: typer.Context, requested: bool) -> None:
    if requested:
        typer.echo(f"{ctx.find_root().info_name} {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", help="Show the version and exit.", metavar="", callback=_show_version, is_eager=True
    ),
]


def run(app: typer.Typer, program: str) -> NoReturn:
    _open_closed_streams()
    _accept_any_terminal()
    sys.exit(exit_code_of(app, program, sys.argv[1:]))


def _open_closed_streams() -> None:
    """Standard streams that the caller has closed (`>&-`) are empty, and discard what is written.

    Python has None for them. Besides, the next file or socket would get the number of the closed one.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 - until the exit
            # For the programs that this one starts; else they begin without it.
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _accept_any_terminal() -> None:
    """A terminal with another encoding than UTF-8, or of an unknown width, is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="backslashreplace")
    if os.environ.get("COLUMNS") == "0":
        # Rich would print nothing.
        del os.environ["COLUMNS"]


def exit_code_of(app: typer.Typer, program: str, arguments: Sequence[str]) -> int:
    command = get_command(app)
    try:
        arguments = translated(program, arguments)
        code = command.main(list(arguments), prog_name=program, standalone_mode=False)
        sys.stdout.flush()  # here, so that a failure is reported
    except (KeyboardInterrupt, typer.Abort):  # the second is Ctrl-C or Ctrl-D at a prompt
        return INTERRUPTED
    except CommandFailed as error:
        _print_error(str(error))
    except Exception as error:
        from pyoco_server.cli.failure_text import failure_text  # noqa: PLC0415 - imports all error classes

        text = failure_text(error, lambda: _named_command(command, program, arguments))
        if text is None:
            raise
        _print_error(text)
    else:
        return code if isinstance(code, int) else OK
    return FAILURE


def _named_command(command: Any, program: str, arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The path of the command that the arguments name, and its examples."""
    path = program
    for word in arguments:
        if word in getattr(command, "commands", {}):
            command, path = command.commands[word], f"{path} {word}"
    return path, examples_in(command.epilog)


def _print_error(text: str) -> None:
    from pyoco_server.cli.views.console import printable  # noqa: PLC0415 - imports rich

    first, *rest = printable(text).split("\n")
    typer.secho(first, fg=typer.colors.RED, err=True)
    for line in rest:
        typer.echo(line, err=True)
