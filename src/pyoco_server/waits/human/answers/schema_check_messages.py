"""What is sent to the process that checks answers against their schema, and what it replies."""

from typing import Any

from msgspec import Struct

from pyoco_server.errors import FieldProblem

Schema = dict[str, Any] | bool


class Check(Struct):
    value: Any
    schema: Schema
    at: str


class CheckResult(Struct):
    problems: list[FieldProblem] = []
    # What is wrong with the schema itself.
    schema_error: str | None = None
