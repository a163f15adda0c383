"""What several commands have in common: an option, and settings that the command line overrules."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from pyoco_server.config import NatsBackendConfig

NatsUrl = Annotated[
    str | None,
    typer.Option(
        help="Where NATS is (PYOCO_NATS_URL; nats://127.0.0.1:4222).", metavar="URL", show_default=False
    ),
]


def comma_separated(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def settings_with(**given: Any) -> NatsBackendConfig:
    """The settings of the environment, except where the command line says otherwise."""
    wanted = {name: value for name, value in given.items() if value is not None}
    return replace(NatsBackendConfig.from_env(), **wanted)
