"""Telling the program that started this one that it is ready: one line of JSON on a descriptor it gave."""

import json
import os
from typing import Annotated, Any

import typer

ReadyFd = Annotated[
    int | None,
    typer.Option(
        help="Write one line of JSON to this file descriptor when ready; for programs that start this one.",
        metavar="FD",
        min=3,
    ),
]


def tell_ready(descriptor: int | None, **facts: Any) -> None:
    if descriptor is None:
        return
    with os.fdopen(descriptor, "w", encoding="utf-8") as parent:
        parent.write(json.dumps(facts) + "\n")
