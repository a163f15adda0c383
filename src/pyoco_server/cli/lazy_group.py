"""A group of commands that imports a command's module when the command is called.

A program's table of commands has their names and one-line helps, so that `--help`, `--version` and the
completion of command names import none of them.
"""

from collections import UserDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from importlib import import_module
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from pyoco_server.cli.translation import LocalizedHelp, localized

Function = TypeVar("Function", bound=Callable[..., None])

_EXAMPLES: Final = "\b\nExamples:\n"
_INDENT: Final = "  "
_EPILOG: Final = "command_epilog"


@dataclass(frozen=True, slots=True)
class Command:
    help: str
    target: str  # "module:function", within the package of the program's commands


@dataclass(frozen=True, slots=True)
class CommandGroup:
    help: str
    examples: tuple[str, ...]
    commands: Mapping[str, Command]


Table = Mapping[str, Command | CommandGroup]


def new_app(*, add_completion: bool = False, **settings: Any) -> typer.Typer:
    """A Typer app with the settings that all our programs share."""
    return typer.Typer(
        add_completion=add_completion,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # importing rich takes longer than everything else that --help does
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
        **settings,
    )


def new_lazy_app(
    table: Table, package: str, *, help: str, examples: tuple[str, ...], **settings: Any
) -> typer.Typer:
    return new_app(cls=lazy_group(table, package), help=help, epilog=epilog(*examples), **settings)


def epilog(*examples: str) -> str:
    """The end of a command's help. A usage error of the command shows the first example."""
    return _EXAMPLES + "\n".join(_INDENT + line for line in examples)


def examples_in(epilog: str | None) -> list[str]:
    return [line.strip() for line in (epilog or "").removeprefix(_EXAMPLES).splitlines()]


def examples(*lines: str) -> Callable[[Function], Function]:
    """Give a command of a table its examples."""

    def add(function: Function) -> Function:
        setattr(function, _EPILOG, epilog(*lines))
        return function

    return add


def lazy_group(table: Table, package: str) -> type[TyperGroup]:
    class LazyGroup(LocalizedHelp, TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands = _LoadedCommands(table, package)

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if not args and not ctx.resilient_parsing:
                typer.echo(ctx.get_help())
                raise typer.Exit(1)
            _avoid_pydantic(self.get_params(ctx))
            return super().parse_args(ctx, args)

        def list_commands(self, ctx: Any) -> list[str]:
            return list(table)

        def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
            """A command without its options, which is enough to list it."""
            row = table.get(cmd_name)
            return None if row is None else TyperCommand(cmd_name, help=row.help)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            """As Click does it, but with the whole help of each command."""
            with formatter.section("Commands"):
                formatter.write_dl([(name, localized(row.help)) for name, row in table.items()])

        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
            name, listed, rest = super().resolve_command(ctx, args)
            return name, listed and self.commands[name or ""], rest

    return LazyGroup


class _LoadedCommands(UserDict[str, Any]):
    """The commands by name; reading one imports its module."""

    def __init__(self, table: Table, package: str) -> None:
        super().__init__(table)
        self._package = package

    def __getitem__(self, name: str) -> Any:
        row = self.data[name]
        if isinstance(row, Command | CommandGroup):
            self.data[name] = _load(name, row, self._package)
        return self.data[name]


def _load(name: str, row: Command | CommandGroup, package: str) -> Any:
    if isinstance(row, CommandGroup):
        return get_group(new_lazy_app(row.commands, package, name=name, help=row.help, examples=row.examples))
    module, _, function_name = row.target.partition(":")
    function = getattr(import_module(f"{package}.{module}"), function_name)
    app = new_app()
    app.command(name, cls=FastCommand, help=row.help, epilog=getattr(function, _EPILOG))(function)
    return get_command(app)


class FastCommand(LocalizedHelp, TyperCommand):
    """Parses plain options without pydantic, which Typer would import."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _avoid_pydantic(self.get_params(ctx))
        return super().parse_args(ctx, args)


def _avoid_pydantic(params: Iterable[Any]) -> None:
    """Process what is simple here: Typer imports pydantic for it, which takes 0.1 s and 5 MB."""
    for param in params:
        if "process_value" not in vars(param):
            param.process_value = partial(_process_value, param, param.process_value)


def _process_value(param: Any, by_typer: Callable[..., Any], ctx: Any, value: Any) -> Any:
    is_several = param.multiple or param.nargs != 1
    if (value is None or value == ()) and not param.required:
        absent = () if is_several else None
        return param.callback(ctx, param, absent) if param.callback else absent
    annotation = param.type_descriptor.annotation
    if is_several or param.callback or not isinstance(value, str):
        return by_typer(ctx, value)
    parse = param.type_descriptor.parameter_info.parser
    if parse is None and isinstance(annotation, type) and issubclass(annotation, Enum):
        member = next((member for member in annotation if member.value == value), None)
        return by_typer(ctx, value) if member is None else member
    if parse is None and annotation is not str:
        return by_typer(ctx, value)
    try:
        return parse(value) if parse else value
    except typer.BadParameter as error:
        error.ctx, error.param = ctx, param
        raise
