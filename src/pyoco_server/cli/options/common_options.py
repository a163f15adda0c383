"""What several commands have in common: options, and settings that the command line overrules."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import typer
from dotenv import dotenv_values

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import shortened

Word = TypeVar("Word", bound=StrEnum)

NatsUrl = Annotated[
    str | None,
    typer.Option(
        help="Where NATS is (PYOCO_NATS_URL; nats://127.0.0.1:4222).", metavar="URL", show_default=False
    ),
]


def sendable_text(text: str) -> str:
    """The text itself, or a usage error: what a terminal sends need not be UTF-8, and what we send must."""
    require_sendable(text)
    return text


def require_sendable(value: object) -> None:
    """Refuse a value that cannot be written as JSON in UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise typer.BadParameter(f"{shortened(value)} is not UTF-8 text") from None
    except RecursionError:
        raise typer.BadParameter("the value is nested too deeply") from None


def one_of(words: type[Word]) -> Callable[[str], Word]:
    """Reads one of some words, in upper or lower case."""

    def parse(text: str) -> Word:
        try:
            return words(text.upper())
        except ValueError:
            raise typer.BadParameter(f"{text!r}: wanted one of {', '.join(words)}") from None

    return parse


def comma_separated(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def settings_with(**given: Any) -> NatsBackendConfig:
    """The settings of the environment, except where the command line says otherwise."""
    wanted = {name: value for name, value in given.items() if value is not None}
    return replace(NatsBackendConfig.from_env(), **wanted)


def service_settings(**given: Any) -> NatsBackendConfig:
    """The same for a program that logs; on a terminal its log is for people, unless otherwise said."""
    config = settings_with(**given)
    if sys.stdout.isatty() and not is_said("PYOCO_LOG_FORMAT", config):
        return replace(config, log_format="text")
    return config


def is_said(name: str, config: NatsBackendConfig) -> bool:
    """Whether the environment or its file holds this variable, though perhaps with the default's value."""
    if os.environ.get(name):
        return True
    return config.load_dotenv and bool(dotenv_values(config.env_file, encoding="utf-8-sig").get(name))
