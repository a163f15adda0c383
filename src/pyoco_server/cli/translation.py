"""The texts of the commands in the language of the locale; `japanese.json` has the Japanese ones.

The file is read under a Japanese locale only, because every command starts with this module.
"""

import json
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from shutil import get_terminal_size
from typing import Any, Final

from pyoco_server.errors.error_table import system_language

# A text of wide characters takes two columns for each of them, and Click counts one.
_WIDE: Final = 2 / 3
_WIDEST: Final = 110
_HEADING: Final = re.compile(r"^( *)(Usage|Options|Commands|Arguments|Examples):", re.MULTILINE)
_NOTE: Final = re.compile(r"\[(required)\]")

# What the library that parses command lines says; a group of a pattern is a value in the text.
_USAGE: Final = {
    re.compile(r"Missing (?:option|argument|parameter) '([^']+)'\."): "{0} is missing",
    re.compile(
        r"No such option: (\S+)(?: \(Possible options: (.+)\)| Did you mean (.+)\?)?"
    ): "No such option: {0}",
    re.compile(r"No such command '([^']+)'\."): "No such command: {0}",
    re.compile(r"Got unexpected extra arguments? \((.+)\)"): "Unexpected argument: {0}",
    re.compile(r"Option '([^']+)' requires an argument\."): "{0} requires a value",
    re.compile(r"Invalid value for '([^']+)': (.+)", re.DOTALL): "Invalid value for {0}: {1}",
    re.compile(r"(RUN_ID) is missing"): "{0} is missing",
}


@cache
def japanese() -> dict[str, str]:
    text = files("pyoco_server.cli").joinpath("japanese.json").read_text(encoding="utf-8")
    texts: dict[str, str] = json.loads(text)
    return texts


def localized(english: str, **values: object) -> str:
    """The text in the language of the locale, with its values; English if it has no translation."""
    text = japanese().get(english, english) if system_language() == "ja" else english
    return text.format(**values) if values else text


def localized_usage_error(english: str) -> str:
    """A usage error; what was wrong with a value stays English."""
    if system_language() != "ja":
        return english
    for pattern, text in _USAGE.items():
        if found := pattern.fullmatch(english):
            meant = [group for group in found.groups()[1:] if group] if "{1}" not in text else []
            said = localized(text).format(*found.groups())
            return said + localized(" (did you mean {0}?)").format(*meant) if meant else said
    return english


class LocalizedHelp:
    """A command with this base shows its help in the language of the locale."""

    def get_help(self, ctx: Any) -> str:
        command: Any = self
        if system_language() != "ja":
            return str(super().get_help(ctx))  # type: ignore[misc]
        _localize(command, command.get_params(ctx))
        ctx.terminal_width = int(min(get_terminal_size().columns, _WIDEST) * _WIDE)
        text = str(super().get_help(ctx))  # type: ignore[misc]
        text = _HEADING.sub(lambda found: f"{found[1]}{localized(found[2])}:", text)
        return _NOTE.sub(lambda found: f"[{localized(found[1])}]", text)


def _localize(command: Any, params: Iterable[Any]) -> None:
    command.help = localized(command.help or "")
    for param in params:
        if getattr(param, "help", None):
            param.help = localized(param.help)
