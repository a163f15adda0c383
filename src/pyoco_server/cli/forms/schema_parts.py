"""A JSON Schema as somebody reads it who asks for the value: part by part, and what each part wants.

What cannot be asked for in parts (references that are not to `$defs`, or several types at once) is a part of
the kind ANY: it is written as JSON. What no part says, such as `if` and `then`, is checked with the whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from msgspec import UNSET

from pyoco_server.errors import FieldProblem

Schema = dict[str, Any]

_DEFINITIONS: Final = ("$defs", "definitions")
# What stands beside a reference or an alternative, and is said of it.
_REMARKS: Final = ("title", "description", "default")
_ELSEWHERE: Final = {"$dynamicRef", "$recursiveRef", "$id", "$anchor", "$dynamicAnchor"}
_MOST_REFERENCES: Final = 50
_MOST_ALTERNATIVES: Final = 3


class Kind(Enum):
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
    "boolean": Kind.BOOLEAN,
    "integer": Kind.INTEGER,
    "number": Kind.NUMBER,
    "string": Kind.STRING,
    "null": Kind.NULL,
    "array": Kind.ARRAY,
    "object": Kind.OBJECT,
}
_WORDS: Final = {
    Kind.BOOLEAN: "yes or no",
    Kind.INTEGER: "whole number",
    Kind.NUMBER: "number",
    Kind.STRING: "text",
    Kind.NULL: "nothing",
    Kind.ARRAY: "list",
    Kind.OBJECT: "object",
    Kind.MAP: "object",
}
_PLAIN: Final = {Kind.BOOLEAN, Kind.INTEGER, Kind.NUMBER, Kind.STRING}


@dataclass(frozen=True, slots=True)
class Field:
    """A property of an object."""

    name: str
    part: "SchemaPart"
    required: bool


class SchemaPart:
    """One part of a schema; the first one is the schema itself."""

    def __init__(self, schema: Any, root: Any = UNSET, depth: int = 0) -> None:
        self._root: Schema = _as_object(schema if root is UNSET else root)
        self._as_written = schema
        # Of how many alternatives this is one of the alternatives.
        self._depth = depth
        says = _as_object(schema)
        if root is UNSET and _refers_elsewhere(schema):
            says = {name: says[name] for name in _REMARKS if name in says}
        self._says, self.nullable = _without_null(_resolved(says, self._root), self._root)
        self.kind = self._kind()

    @property
    def title(self) -> str:
        return str(self._says.get("title", ""))

    @property
    def description(self) -> str:
        return str(self._says.get("description", ""))

    @property
    def default(self) -> Any:
        """What is taken when nothing is given; UNSET where the schema does not say."""
        return self._says.get("default", UNSET)

    @property
    def choices(self) -> list[Any]:
        if "const" in self._says:
            return [self._says["const"]]
        if "enum" in self._says:
            return list(self._says["enum"])
        return [value for each in self.alternatives for value in each.choices]

    @property
    def alternatives(self) -> list["SchemaPart"]:
        if self._depth > _MOST_ALTERNATIVES:  # they may contain themselves
            return []
        return [SchemaPart(each, self._root, self._depth + 1) for each in _alternatives(self._says)]

    @property
    def fields(self) -> list[Field]:
        required = self._says.get("required") or ()
        properties: Schema = self._says.get("properties") or {}
        return [Field(name, self._part(each), name in required) for name, each in properties.items()]

    @property
    def items(self) -> "SchemaPart":
        return self._part(self._says.get("items", {}))

    @property
    def entries(self) -> "SchemaPart":
        """What each value of an object is whose names are free."""
        return self._part(self._says.get("additionalProperties", {}))

    @property
    def fewest(self) -> int:
        return int(self._says.get("minItems", 0))

    @property
    def most(self) -> int | None:
        return self._says.get("maxItems")

    @property
    def hint(self) -> str:
        """What is wanted, in a few words."""
        if self.kind is Kind.CHOICE:
            return "one of these"
        if self.kind in (Kind.ANY, Kind.ALTERNATIVES):
            words = [each.hint for each in self.alternatives]
            return " or ".join(dict.fromkeys(words)) or "JSON, or text"
        return ", ".join([_WORDS[self.kind], *_limits(self._says)])

    def problems(self, value: Any, at: str = "") -> list[FieldProblem]:
        """What is wrong with a value of this part, which stands at this place in the whole."""
        from pyoco_server.human.answers.schema_validation import problems_of  # noqa: PLC0415 - only who answers needs it

        if not isinstance(self._as_written, dict):
            return problems_of(value, self._as_written, at=at)
        definitions: Schema = {name: self._root[name] for name in _DEFINITIONS if name in self._root}
        return problems_of(value, definitions | self._as_written, at=at)

    def _part(self, schema: Any) -> "SchemaPart":
        return SchemaPart(schema, self._root)

    def _kind(self) -> Kind:
        says = self._says
        if "const" in says or "enum" in says:
            return Kind.CHOICE
        if alternatives := self.alternatives:
            kinds = {each.kind for each in alternatives}
            if kinds == {Kind.CHOICE}:
                return Kind.CHOICE
            # A number or a text can be told by what is typed.
            return Kind.ANY if kinds <= _PLAIN else Kind.ALTERNATIVES
        kind = _KINDS.get(_type_of(says), Kind.ANY)
        if kind is Kind.OBJECT and not says.get("properties"):
            return Kind.MAP
        return Kind.ANY if kind is Kind.ARRAY and "prefixItems" in says else kind


def shape_of(value: Any) -> Schema:
    """A schema for a value like this one: for editing what has none."""
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
    """With what its reference, or its only `allOf`, says; what stands beside it wins."""
    for _ in range(_MOST_REFERENCES):
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
    return {}  # a circle of references


def _without_null(schema: Schema, root: Schema) -> tuple[Schema, bool]:
    """The schema of what it is when it is something, and whether it may be null instead."""
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
        remarks = {name: schema[name] for name in _REMARKS if name in schema}
        return _resolved(_as_object(others[0]), root) | remarks, True
    return schema, False


def _alternatives(schema: Schema) -> list[Any]:
    types = schema.get("type")
    if isinstance(types, list):
        return [schema | {"type": each} for each in types]
    # Beside a type they only say more about it.
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
        yield f"{least} to {most}"
    elif least is not None:
        yield f"at least {least}"
    elif most is not None:
        yield f"at most {most}"


def _refers_elsewhere(schema: Any) -> bool:
    """Whether some reference in it is not to a definition of its own."""
    if isinstance(schema, list):
        return any(map(_refers_elsewhere, schema))
    if not isinstance(schema, dict):
        return False
    reference = schema.get("$ref", "#/$defs/")
    known = isinstance(reference, str) and reference.startswith(tuple(f"#/{each}/" for each in _DEFINITIONS))
    below = (each for name, each in schema.items() if name not in ("enum", "const", "default", "examples"))
    return not known or not _ELSEWHERE.isdisjoint(schema) or any(map(_refers_elsewhere, below))
