"""A check of params against the schema of their flow that takes microseconds, for every submit.

It knows types, required fields, enums, number ranges, array lengths and `anyOf`, and takes everything else
for valid. `strict` submits are checked in full: `SubmitChecks.require` in submit_checks.py.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyoco_server.errors import shortened_json
from pyoco_server.json_schemas.schema_check_messages import ValueProblem

Schema = dict[str, Any]

# More than params of usual runs need. It bounds what large values, and schemas that multiply the work, cost.
_BUDGET: Final = 2000
_REFERENCE: Final = "#/$defs/"
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_LIMITS: Final[dict[str, Callable[[float, float], bool]]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
}


class _OutOfBudget(Exception):
    pass


class QuickCheck:
    def __init__(self, schema: Schema) -> None:
        self._definitions: Schema = schema.get("$defs", {})
        self._properties: Schema = schema.get("properties", {})
        self._required: list[str] = schema.get("required", [])
        self._is_open = schema.get("additionalProperties", True) is not False
        self._left = 0

    def problems(self, params: Mapping[str, Any]) -> list[ValueProblem]:
        """At most one for each param, with the path of the first mismatch in it."""
        self._left = _BUDGET
        found = [ValueProblem((name,), "this is missing") for name in self._required if name not in params]
        for name, value in params.items():
            schema = self._properties.get(name)
            if schema is None:
                if not self._is_open:
                    found.append(ValueProblem((name,), "the flow has no such parameter"))
                continue
            try:
                problem = self._problem(schema, value)
            except _OutOfBudget:
                break
            if problem is not None:
                found.append(problem.below(name))
        return found

    def _problem(self, schema: Any, value: Any) -> ValueProblem | None:
        if schema is False:
            return ValueProblem((), "no value is allowed here")
        schema = self._resolved(schema)
        if (problem := _own_problem(schema, value)) is not None:
            return problem
        if "anyOf" in schema:
            return self._problem_with_any_of(schema["anyOf"], value)
        if isinstance(value, dict):
            return self._problem_in_object(schema, value)
        return self._problem_in_array(schema, value) if isinstance(value, list) else None

    def _resolved(self, schema: Any) -> Schema:
        """The schema that it refers to, or itself; an empty one where there is none."""
        while True:
            self._left -= 1
            if self._left < 0:
                raise _OutOfBudget
            if not isinstance(schema, dict):
                return {}
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            schema = self._definitions.get(reference.removeprefix(_REFERENCE))

    def _problem_with_any_of(self, alternatives: list[Any], value: Any) -> ValueProblem | None:
        """Within the first alternative of the same kind of value; if there is none, what all expect."""
        nearest: ValueProblem | None = None
        for schema in alternatives:
            problem = self._problem(schema, value)
            if problem is None:
                return None
            if problem.path:
                nearest = nearest or problem
        kinds = [str(each.get("type", "another type")) for each in map(self._resolved, alternatives)]
        return nearest or _mismatch(" or ".join(dict.fromkeys(kinds)), value)

    def _problem_in_object(self, schema: Schema, value: dict[str, Any]) -> ValueProblem | None:
        for name in schema.get("required", ()):
            if name not in value:
                return ValueProblem((name,), "this is missing")
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, each in value.items():
            inner = properties.get(name, others)
            if inner is False:
                return ValueProblem((name,), "this property is not expected")
            problem = self._problem(inner, each)
            if problem is not None:
                return problem.below(name)
        return None

    def _problem_in_array(self, schema: Schema, value: list[Any]) -> ValueProblem | None:
        if len(value) < schema.get("minItems", 0):
            return ValueProblem((), f"expected at least {schema['minItems']} items")
        if len(value) > schema.get("maxItems", len(value)):
            return ValueProblem((), f"expected at most {schema['maxItems']} items")
        first, rest = schema.get("prefixItems", []), schema.get("items", True)
        for index, each in enumerate(value):
            inner = first[index] if index < len(first) else rest
            problem = self._problem(inner, each)
            if problem is not None:
                return problem.below(index)
        return None


def _own_problem(schema: Schema, value: Any) -> ValueProblem | None:
    """With the value itself, not with what it contains."""
    if "enum" in schema and not _is_among(value, schema["enum"]):
        return _mismatch(f"one of {shortened_json(schema['enum'], 200)}", value)
    kind = schema.get("type")
    if isinstance(kind, str) and not _is_of_type(value, kind):
        return _mismatch(kind, value)
    if _is_of_type(value, "number"):
        for keyword, holds in _LIMITS.items():
            limit = schema.get(keyword)
            if limit is not None and not holds(value, limit):
                return _mismatch(f"{keyword} {limit}", value)
    return None


def _is_of_type(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        # In JSON Schema 1.0 is an integer too.
        return value.is_integer()
    expected = _TYPES.get(kind)
    return kind != "boolean" if expected is None else isinstance(value, expected)


def _is_among(value: Any, choices: list[Any]) -> bool:
    """`True == 1` in Python, not in JSON."""
    return any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in choices)


def _mismatch(expected: str, value: Any) -> ValueProblem:
    return ValueProblem((), f"expected {expected}, not {shortened_json(value)}")
