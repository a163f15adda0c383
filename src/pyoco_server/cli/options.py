"""Options that several commands share, and how their texts are read."""

from typing import Annotated

import typer

NatsUrl = Annotated[
    str | None,
    typer.Option(
        help="Where NATS is (PYOCO_NATS_URL; nats://127.0.0.1:4222).", metavar="URL", show_default=False
    ),
]


def comma_separated(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
