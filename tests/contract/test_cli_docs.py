"""docs/commands.md says what the commands do: each command, option and example is in it, as it is.

When a test here fails, its message holds the line that the page should have.
"""

import re
from typing import Any

import pytest

from tests.support.places import DOCS
from tests.unit.cli.test_cli_usage import commands

PAGE = DOCS / "commands.md"
COMMANDS = commands()
NAMES = [name for name, _ in COMMANDS]


def section(name: str) -> list[str]:
    """The lines below the heading of a command, up to the next heading."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    heading = f"{'###' if ' ' in name else '##'} `{name}`"
    assert heading in lines
    rest = lines[lines.index(heading) + 1 :]
    return rest[: next((number for number, line in enumerate(rest) if line.startswith("#")), len(rest))]


def option_rows(command: Any) -> list[str]:
    rows = []
    for option in command.params:
        if option.name == "help":
            continue
        if option.param_type_name == "argument":
            rows.append(f"| `{option.metavar}` |  | {option.help} |")
            continue
        value = f" {option.metavar}" if option.metavar else ""
        default = "*required*" if option.required else f"`{option.default}`" if option.default else ""
        rows.append(f"| `{option.opts[0]}{value}` | {default} | {option.help} |")
    return rows


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=NAMES)
def test_every_option_is_documented_and_no_other(name: str, command: Any) -> None:
    documented = [line for line in section(name) if re.match(r"\| `(--|[A-Z_]+` \|  \|)", line)]
    assert documented == option_rows(command)


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=NAMES)
def test_every_example_of_the_help_is_documented(name: str, command: Any) -> None:
    for example in command.epilog.splitlines()[2:]:
        assert example.strip() in section(name)


def test_no_command_is_documented_that_does_not_exist() -> None:
    headings = re.findall(r"^##+ `(pyoco-[^`]+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == NAMES
