"""Python types of answers: the schema of a type, and what `ctx.human` returns for a decided wait."""

from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct

from pyoco_server.records.waits.wait_models import Actor, Decision, WaitRecord

EXPECTED_SCHEMA: Final = (
    "a JSON Schema (a dict), a Pydantic model, or a type such as bool, list[int], a Literal, an Enum or a "
    "dataclass"
)


class HumanTimeout(Exception):
    """Nobody answered a question in time, which was asked with `on_timeout="raise"`."""

    def __init__(self, message: str, name: str, deadline_at: float) -> None:
        super().__init__(message, name, deadline_at)
        self.message = message
        self.name = name
        # In unix seconds.
        self.deadline_at = deadline_at

    def __str__(self) -> str:
        return f"nobody answered {self.message[:200]!r} ({self.name}) in time"


@dataclass(frozen=True)
class HumanAnswer:
    """What `ctx.human(..., details=True)` returns: the answer, who gave it, and how."""

    # The answer, the approved or edited proposal, or the default; None if the proposal was rejected.
    value: Any
    # The name of the API key, or its id; None if the gateway requires none, or nobody answered.
    by: str | None
    # When it was given, or the question expired: unix seconds.
    at: float
    # Of a proposal: "approved", "edited" or "rejected".
    decision: str | None
    note: str | None
    # Whether nobody answered in time, so that the value is the default.
    expired: bool


def schema_of_type(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type; TypeError if there is none."""
    if is_pydantic_model(kind):
        found: dict[str, Any] = kind.model_json_schema()
        return found
    schema = msgspec.json.schema(kind)
    # Choices in the order of the type, which is the one that people see.
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"title": kind.__name__, "enum": [member.value for member in kind]}
    return {"enum": list(get_args(kind))} if get_origin(kind) is Literal else schema


def answer_of(wait: WaitRecord, schema: Any, *, details: bool) -> Any:
    """What `ctx.human` returns for a resolved wait, with the value as the type that was given as schema."""
    if wait.timed_out:
        raise HumanTimeout(wait.message, wait.name, wait.deadline_at)
    has_value = wait.value is not UNSET and wait.decision is not Decision.REJECTED
    value = _typed(wait.value, schema) if has_value else None
    if not details:
        return value if wait.proposal is UNSET else {**wait.answer, "value": value}
    by = wait.decided_by or Actor()
    return HumanAnswer(
        value=value,
        by=by.name or by.api_key_id,
        at=wait.decided_at or wait.deadline_at,
        decision=None if wait.decision is None else wait.decision.value,
        note=wait.note,
        expired=wait.is_expired,
    )


def plain_value(value: Any) -> Any:
    """The JSON value of an instance of a type that can be a schema; TypeError for other objects."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Struct | Enum) or (is_dataclass(value) and not isinstance(value, type)):
        return msgspec.to_builtins(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def is_pydantic_model(schema: Any) -> bool:
    return isinstance(schema, type) and hasattr(schema, "model_json_schema")


def _typed(value: Any, schema: Any) -> Any:
    if schema is None or isinstance(schema, dict | bool):
        return value
    if is_pydantic_model(schema):
        return schema.model_validate(value)
    try:
        # The keys of a JSON object are strings, also those of a dict[int, str].
        return msgspec.convert(value, schema, str_keys=True)
    except msgspec.ValidationError:
        return msgspec.convert(_with_integers(value), schema, str_keys=True)


def _with_integers(value: Any) -> Any:
    """In a JSON Schema, 1.0 is an integer too."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_with_integers(each) for each in value]
        case dict():
            return {name: _with_integers(each) for name, each in value.items()}
    return value
