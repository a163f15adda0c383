"""A JSON Schema divided into parts that a form can ask for.

A part that cannot be divided (references other than to `$defs`, several types at once) is of the kind ANY and
typed as JSON. Keywords that belong to no part, such as `if` and `then`, are checked with the whole answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from msgspec import UNSET

from pyoco_server.cli.translation import localized
from pyoco_server.errors import FieldProblem

Schema = dict[str, Any]

_DEFINITIONS: Final = ("$defs", "definitions")
# Annotations beside a reference or an alternative apply to what it resolves to.
_ANNOTATIONS: Final = ("title", "description", "default")
_FOREIGN_REFERENCES: Final = {"$dynamicRef", "$recursiveRef", "$id", "$anchor", "$dynamicAnchor"}
_MAX_REFERENCES: Final = 50
_MAX_ALTERNATIVES: Final = 3


class PartKind(Enum):
    CHOICE = auto()
    BOOLEAN = auto()
    INTEGER = auto()
    NUMBER = auto()
    STRING = auto()
    NULL = auto()
    ARRAY = auto()
    OBJECT = auto()
    MAP = auto()
    ALTERNATIVES = auto()
    ANY = auto()


_KINDS: Final = {
    "boolean": PartKind.BOOLEAN,
    "integer": PartKind.INTEGER,
    "number": PartKind.NUMBER,
    "string": PartKind.STRING,
    "null": PartKind.NULL,
    "array": PartKind.ARRAY,
    "object": PartKind.OBJECT,
}
_WORDS: Final = {
    PartKind.BOOLEAN: "yes or no",
    PartKind.INTEGER: "whole number",
    PartKind.NUMBER: "number",
    PartKind.STRING: "text",
    PartKind.NULL: "nothing",
    PartKind.ARRAY: "list",
    PartKind.OBJECT: "object",
    PartKind.MAP: "object",
}
_PLAIN: Final = {PartKind.BOOLEAN, PartKind.INTEGER, PartKind.NUMBER, PartKind.STRING}


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    part: "SchemaPart"
    required: bool


class SchemaPart:
    """One part of a schema; the root is the schema itself."""

    def __init__(self, schema: Any, root: Any = UNSET, depth: int = 0) -> None:
        self._root: Schema = _as_object(schema if root is UNSET else root)
        self._schema = schema
        self._depth = depth
        own = _as_object(schema)
        if root is UNSET and _has_foreign_reference(schema):
            own = {name: own[name] for name in _ANNOTATIONS if name in own}
        self._resolved, self.nullable = _without_null(_resolved(own, self._root), self._root)
        self.kind = self._kind()

    @property
    def title(self) -> str:
        return str(self._resolved.get("title", ""))

    @property
    def description(self) -> str:
        return str(self._resolved.get("description", ""))

    @property
    def default(self) -> Any:
        """The default value; UNSET when the schema has none."""
        return self._resolved.get("default", UNSET)

    @property
    def choices(self) -> list[Any]:
        if "const" in self._resolved:
            return [self._resolved["const"]]
        if "enum" in self._resolved:
            return list(self._resolved["enum"])
        return [value for each in self.alternatives for value in each.choices]

    @property
    def alternatives(self) -> list["SchemaPart"]:
        if self._depth > _MAX_ALTERNATIVES:  # alternatives may be recursive
            return []
        return [SchemaPart(each, self._root, self._depth + 1) for each in _alternatives(self._resolved)]

    @property
    def fields(self) -> list[Field]:
        required = self._resolved.get("required") or ()
        properties: Schema = self._resolved.get("properties") or {}
        return [Field(name, self._part(each), name in required) for name, each in properties.items()]

    @property
    def items(self) -> "SchemaPart":
        return self._part(self._resolved.get("items", {}))

    @property
    def entries(self) -> "SchemaPart":
        """The values of an object with arbitrary names."""
        return self._part(self._resolved.get("additionalProperties", {}))

    @property
    def min_items(self) -> int:
        return int(self._resolved.get("minItems", 0))

    @property
    def max_items(self) -> int | None:
        return self._resolved.get("maxItems")

    @property
    def hint(self) -> str:
        """What is expected, in a few words."""
        if self.kind is PartKind.CHOICE:
            return localized("one of these")
        if self.kind in (PartKind.ANY, PartKind.ALTERNATIVES):
            words = [each.hint for each in self.alternatives]
            return localized(" or ").join(dict.fromkeys(words)) or localized("JSON, or text")
        return ", ".join([localized(_WORDS[self.kind]), *_limits(self._resolved)])

    def problems(self, value: Any, at: str = "") -> list[FieldProblem]:
        """The validation errors of a value of this part at the given path."""
        from pyoco_server.json_schemas.schema_validation import problems_of  # noqa: PLC0415 - slow to import

        if not isinstance(self._schema, dict):
            return problems_of(value, self._schema, at=at)
        definitions: Schema = {name: self._root[name] for name in _DEFINITIONS if name in self._root}
        return problems_of(value, definitions | self._schema, at=at)

    def _part(self, schema: Any) -> "SchemaPart":
        return SchemaPart(schema, self._root)

    def _kind(self) -> PartKind:
        schema = self._resolved
        if "const" in schema or "enum" in schema:
            return PartKind.CHOICE
        if alternatives := self.alternatives:
            kinds = {each.kind for each in alternatives}
            if kinds == {PartKind.CHOICE}:
                return PartKind.CHOICE
            # The typed text shows whether it is a number or a text.
            return PartKind.ANY if kinds <= _PLAIN else PartKind.ALTERNATIVES
        kind = _KINDS.get(_type_of(schema), PartKind.ANY)
        if kind is PartKind.OBJECT and not schema.get("properties"):
            return PartKind.MAP
        return PartKind.ANY if kind is PartKind.ARRAY and "prefixItems" in schema else kind


def shape_of(value: Any) -> Schema:
    """A schema for a value like this one, to edit a value that has no schema."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {name: shape_of(each) for name, each in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": shape_of(value[0]) if value else {}}
    for kind, word in ((bool, "boolean"), (int | float, "number"), (str, "string")):
        if isinstance(value, kind):
            return {"type": word}
    return {}


def _as_object(schema: Any) -> Schema:
    return schema if isinstance(schema, dict) else {}


def _resolved(schema: Schema, root: Schema) -> Schema:
    """The schema merged with its reference or single `allOf`; its own keywords take precedence."""
    for _ in range(_MAX_REFERENCES):
        rest = dict(schema)
        if "$ref" in rest:
            pointed: Any = root
            for step in rest.pop("$ref").removeprefix("#/").split("/"):
                pointed = _as_object(pointed).get(step.replace("~1", "/").replace("~0", "~"))
            schema = _as_object(pointed) | rest
        elif len(rest.get("allOf", ())) == 1:
            schema = _as_object(rest.pop("allOf")[0]) | rest
        else:
            return schema
    return {}  # circular references


def _without_null(schema: Schema, root: Schema) -> tuple[Schema, bool]:
    """The schema without null, and whether null is allowed."""
    types = schema.get("type")
    if isinstance(types, list) and "null" in types:
        others = [each for each in types if each != "null"]
        return schema | {"type": others[0] if len(others) == 1 else others}, True
    if "type" in schema or "properties" in schema:
        return schema, False
    for word in ("anyOf", "oneOf"):
        given = schema.get(word) or []
        others = [each for each in given if _as_object(each).get("type") != "null"]
        if len(others) == len(given):
            continue
        if len(others) != 1:
            return schema | {word: others}, True
        annotations = {name: schema[name] for name in _ANNOTATIONS if name in schema}
        return _resolved(_as_object(others[0]), root) | annotations, True
    return schema, False


def _alternatives(schema: Schema) -> list[Any]:
    types = schema.get("type")
    if isinstance(types, list):
        return [schema | {"type": each} for each in types]
    # Beside a type, anyOf and oneOf only restrict it.
    if types is not None or "properties" in schema:
        return []
    return schema.get("anyOf") or schema.get("oneOf") or []


def _type_of(schema: Schema) -> str:
    if "type" in schema:
        return str(schema["type"])
    return "object" if "properties" in schema else "array" if "items" in schema else ""


def _limits(schema: Schema) -> Iterator[str]:
    if "format" in schema:
        yield str(schema["format"])
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        yield localized("{least} to {most}").format(least=least, most=most)
    elif least is not None:
        yield localized("at least {least}").format(least=least)
    elif most is not None:
        yield localized("at most {most}").format(most=most)


def _has_foreign_reference(schema: Any) -> bool:
    """Whether a reference points to anything but a definition of this schema."""
    if isinstance(schema, list):
        return any(map(_has_foreign_reference, schema))
    if not isinstance(schema, dict):
        return False
    reference = schema.get("$ref", "#/$defs/")
    known = isinstance(reference, str) and reference.startswith(tuple(f"#/{each}/" for each in _DEFINITIONS))
    below = (each for name, each in schema.items() if name not in ("enum", "const", "default", "examples"))
    return not known or not _FOREIGN_REFERENCES.isdisjoint(schema) or any(map(_has_foreign_reference, below))
