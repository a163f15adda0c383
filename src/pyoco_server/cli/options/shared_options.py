"""Options and parsers of several programs. Importing this module is cheap: it starts every program."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from pyoco_server.errors import shortened

Word = TypeVar("Word", bound=StrEnum)


def option(help: str, metavar: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, **settings)


def text_option(help: str, metavar: str = "NAME", *names: str, **settings: Any) -> Any:
    """An option whose text is sent to the gateway."""
    return option(help, metavar, *names, parser=sendable_text, **settings)


def flag(name: str, help: str, *aliases: str) -> Any:
    """An option without a value."""
    return option(help, "", name, *aliases)


def _existing_folder(text: str) -> Path:
    folder = Path(text)
    if not folder.exists():
        raise typer.BadParameter(f"Directory {text!r} does not exist.")
    if not folder.is_dir():
        raise typer.BadParameter(f"Directory {text!r} is a file.")
    return folder


def _number_from(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not a valid integer.") from None
        if number < least:
            raise typer.BadParameter(f"{number} is not in the range x>={least}.")
        return number

    return parse


Server = Annotated[
    str | None,
    option("Gateway address (env: PYOCO_SERVER; default: http://127.0.0.1:8000).", "URL", show_default=False),
]
ApiKey = Annotated[
    str | None,
    option("API key, if the gateway requires one (env: PYOCO_API_KEY).", "KEY", show_default=False),
]
FlowsFolder = Annotated[
    Path | None, option("Folder with flows (*.py and *.yaml).", "DIR", parser=_existing_folder)
]
Concurrency = Annotated[
    int | None,
    option(
        "Number of concurrent runs (env: PYOCO_WORKER_CONCURRENCY; default: 1).", "N", parser=_number_from(1)
    ),
]
NatsUrl = Annotated[
    str | None,
    option("NATS server (env: PYOCO_NATS_URL; default: nats://127.0.0.1:4222).", "URL", show_default=False),
]
DashboardLang = Annotated[
    str | None, option("Dashboard language: auto, ja or en (env: PYOCO_DASHBOARD_LANG).", "LANG")
]
ReadyFd = Annotated[
    int | None,
    option(
        "Write one line of JSON to this file descriptor when ready; for supervising programs.",
        "FD",
        parser=_number_from(3),
    ),
]


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """The options before the subcommand; the same options after it take precedence."""

    server: str | None = None
    api_key: str | None = None


def sendable_text(text: str) -> str:
    """The text itself; a usage error when it is not UTF-8, which command line arguments may not be."""
    require_sendable(text)
    return text


def require_sendable(value: object) -> None:
    """Reject a value that cannot be written as JSON in UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise typer.BadParameter(f"{shortened(value)} is not UTF-8 text") from None
    except RecursionError:
        raise typer.BadParameter("the value is nested too deeply") from None


def one_of(words: type[Word], normalize: Callable[[str], str] = str.upper) -> Callable[[str], Word]:
    def parse(text: str) -> Word:
        # Not by calling it: some accept names of newer versions.
        named = {str(word): word for word in words}
        try:
            return named[normalize(text)]
        except KeyError:
            raise typer.BadParameter(f"{text!r}: expected one of {', '.join(words)}") from None

    return parse


def comma_separated(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def checked_tag(tag: str) -> str:
    from pyoco_server.records.value_types import TAG_EXPECTED, TAG_PATTERN  # noqa: PLC0415 - imports msgspec

    if not re.fullmatch(TAG_PATTERN, tag):
        raise typer.BadParameter(f"{tag!r}: {TAG_EXPECTED}")
    return tag


def checked_tags(tags: str) -> str:
    return ",".join(checked_tag(tag) for tag in comma_separated(tags))
