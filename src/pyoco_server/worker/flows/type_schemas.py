"""The JSON Schema of a parameter's annotation. A type without one has no constraint."""

from collections.abc import Callable, Hashable
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from inspect import unwrap
from pathlib import PurePath
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from pyoco_server.waits.human.answer_types import is_pydantic_model, schema_of_type

Schema = dict[str, Any]

_PATH: Final[Schema] = {"type": "string", "format": "path"}
# Where msgspec's own are too loose, or too strict for values that tasks receive as they are in JSON.
_SCHEMAS: Final[dict[Any, Schema]] = {
    Any: {},
    object: {},
    # With an offset, as JSON Schema defines it.
    datetime: {"type": "string", "format": "date-time"},
    Decimal: {"anyOf": [{"type": "string", "format": "decimal"}, {"type": "number"}]},
}
# Constraints of these packages are read by pydantic only.
_PYDANTIC_METADATA: Final = ("pydantic", "annotated_types")
_DEFINITIONS: Final = "$defs"
_REFERENCE: Final = "#/$defs/"


def resolved_annotation(function: Callable[..., Any], name: str, annotation: Any) -> Any:
    """The annotation with its names resolved; `Any` if one of them does not exist.

    Each one by itself: an unknown name in another annotation does not matter.
    """
    holder = type("_Holder", (), {"__annotations__": {name: annotation}})
    names = getattr(_implementation(function), "__globals__", {})
    try:
        return get_type_hints(holder, globalns=names, include_extras=True)[name]
    except Exception:  # noqa: BLE001 - evaluating an annotation may raise anything
        return Any


def schema_of_annotation(annotation: Any, within: tuple[Any, ...] = ()) -> Schema:
    """Definitions of classes may be at any level of it: `Definitions` moves them to one place.

    `within` are the classes that it is a part of.
    """
    try:
        return _schema(annotation, within)
    except Exception:  # noqa: BLE001 - a model may make its schema with code of its own
        return {}


def _implementation(function: Callable[..., Any]) -> Any:
    """The function behind decorators, `functools.partial` and objects that can be called."""
    function = unwrap(getattr(function, "func", function))
    return function if hasattr(function, "__globals__") else type(function).__call__


def _schema(kind: Any, within: tuple[Any, ...]) -> Schema:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _any_of([_schema(each, within) for each in arguments])
    if origin is Annotated and any(map(_is_of_pydantic, arguments[1:])):
        from pydantic import TypeAdapter  # noqa: PLC0415 - slow to import, and here it is imported already

        return TypeAdapter(kind).json_schema()
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum_schema(kind)
    if origin is Literal or is_pydantic_model(kind):
        return schema_of_type(kind)
    return _schema_of_class(kind, within)


def _schema_of_class(kind: Any, within: tuple[Any, ...]) -> Schema:
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return _PATH
    known = _SCHEMAS.get(kind) if isinstance(kind, Hashable) else None
    if known is not None:
        return known
    try:
        return msgspec.json.schema(kind, schema_hook=_class_schema)
    except TypeError:
        # Because of one of its parts: the others have a schema.
        return _schema_by_parts(kind, within)


def _enum_schema(kind: type[Enum]) -> Schema:
    """In the order of the code; msgspec takes no values of several types."""
    values = [member.value for member in kind]
    has_json = all(value is None or isinstance(value, str | int | float) for value in values)
    return {"title": kind.__name__, "enum": values} if values and has_json else {}


def _schema_by_parts(kind: Any, within: tuple[Any, ...]) -> Schema:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is list:
        return {"type": "array", "items": schema_of_annotation(arguments[0], within)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of_annotation(arguments[1], within)}
    if kind in within:
        # A class that contains itself.
        return {}
    if is_dataclass(kind):
        required = [each.name for each in fields(kind) if each.default is each.default_factory is MISSING]
    elif is_typeddict(kind):
        required = sorted(kind.__required_keys__)
    else:
        return {}
    hints = get_type_hints(kind, include_extras=True)
    names = [each.name for each in fields(kind)] if is_dataclass(kind) else list(hints)
    properties = {name: schema_of_annotation(hints[name], (*within, kind)) for name in names}
    return {"title": kind.__name__, "type": "object", "properties": properties, "required": required}


def _class_schema(kind: Any) -> Schema:
    """Of a class that msgspec does not know."""
    if is_pydantic_model(kind):
        return schema_of_type(kind)
    # No constraint; msgspec takes an empty schema for none.
    return {"$comment": getattr(kind, "__name__", str(kind))}


def _is_of_pydantic(metadata: object) -> bool:
    return type(metadata).__module__.partition(".")[0] in _PYDANTIC_METADATA


def _any_of(schemas: list[Schema]) -> Schema:
    if {} in schemas:
        return {}
    alternatives: list[Schema] = []
    for schema in schemas:
        for each in schema["anyOf"] if list(schema) == ["anyOf"] else [schema]:
            if each not in alternatives:
                alternatives.append(each)
    return {"anyOf": alternatives}


def nullable(schema: Schema) -> Schema:
    """The schema that also allows null."""
    return _any_of([schema, {"type": "null"}])


class Definitions:
    """The definitions of several schemas in one place, where references are looked up."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}

    def moved_from(self, schema: Any) -> Any:
        """The schema without definitions; those with a name that another one has are renamed."""
        if isinstance(schema, list):
            return [self.moved_from(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        own = schema.get(_DEFINITIONS, {})
        parts = {key: self.moved_from(part) for key, part in schema.items() if key != _DEFINITIONS}
        if not own:
            return parts
        own = {name: self.moved_from(part) for name, part in own.items()}
        names = {name: self._free_name(name, part) for name, part in own.items()}
        for name, part in own.items():
            self.schemas[names[name]] = _renamed(part, names)
        return _renamed(parts, names)

    def _free_name(self, name: str, schema: Schema) -> str:
        free, number = name, 1
        while self.schemas.get(free, schema) != schema:
            number += 1
            free = f"{name}{number}"
        return free


def _renamed(schema: Any, names: dict[str, str]) -> Any:
    if isinstance(schema, list):
        return [_renamed(each, names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {key: _renamed(part, names) for key, part in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_REFERENCE):
        name = reference.removeprefix(_REFERENCE)
        renamed["$ref"] = _REFERENCE + names.get(name, name)
    return renamed
