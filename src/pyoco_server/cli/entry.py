"""The way into every command: it turns whatever happens inside into an exit code and a readable message."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.main import get_command

from pyoco_server.cli import exit_codes
from pyoco_server.cli.failure_text import error_text, http_error_text, io_error_text, usage_text
from pyoco_server.cli.views.console import discard_output, printable
from pyoco_server.errors import InvalidCliArgument, PyocoError
from pyoco_server.http_client import PyocoHttpError
from pyoco_server.system.system_language import system_language
from pyoco_server.version import __version__

_EXAMPLES: Final = "\b\nExamples:\n"
_INDENT: Final = "  "


def new_app(*, add_completion: bool = False, **settings: Any) -> typer.Typer:
    """A Typer app in the manner of all our commands."""
    return typer.Typer(
        add_completion=add_completion,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        **settings,
    )


def examples(*lines: str) -> str:
    """The end of a command's help. A usage error of the command shows the first of them."""
    return _EXAMPLES + "\n".join(_INDENT + line for line in lines)


def _show_version(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        typer.echo(f"{ctx.find_root().info_name} {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", help="Show the version and exit.", metavar="", callback=_show_version, is_eager=True
    ),
]


def run(app: typer.Typer, program: str, arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the app and leave with its exit code."""
    sys.exit(exit_code_of(app, program, sys.argv[1:] if arguments is None else arguments))


def exit_code_of(app: typer.Typer, program: str, arguments: Sequence[str]) -> int:
    command = get_command(app)
    try:
        code = command.main(list(arguments), prog_name=program, standalone_mode=False)
        sys.stdout.flush()  # while it can still be told that this fails
    except typer.TyperException as error:
        _complain(_usage_text(command, program, arguments, error.format_message()))
    except InvalidCliArgument as error:
        _complain(_usage_text(command, program, arguments, _what_was_wrong(error)))
    except PyocoHttpError as error:
        _complain(http_error_text(error, system_language()))
    except PyocoError as error:
        _complain(error_text(error, system_language()))
    except exit_codes.CommandFailed as error:
        _complain(str(error))
    except OSError as error:
        discard_output()
        _complain(io_error_text(error))
    except (KeyboardInterrupt, typer.Abort):  # the second is Ctrl-C or Ctrl-D at a question
        return exit_codes.INTERRUPTED
    else:
        return code if isinstance(code, int) else exit_codes.OK
    return exit_codes.FAILURE


def _what_was_wrong(error: InvalidCliArgument) -> str:
    return error.detail or "".join(f"\n  - {problem}" for problem in error.problems)


def _usage_text(command: Any, program: str, arguments: Sequence[str], what: str) -> str:
    """The complaint with an example of the command that the arguments name."""
    if not what:  # no arguments at all: the help was shown instead
        return ""
    named, path = command, program
    for word in arguments:
        if word in getattr(named, "commands", {}):
            named, path = named.commands[word], f"{path} {word}"
    first = (named.epilog or "").removeprefix(_EXAMPLES).strip().splitlines()[:1]
    return usage_text(what, examples=first, help_command=path, lang=system_language())


def _complain(text: str) -> None:
    if text:
        first, *rest = printable(text).split("\n")
        typer.secho(first, fg=typer.colors.RED, err=True)
        for line in rest:
            typer.echo(line, err=True)
