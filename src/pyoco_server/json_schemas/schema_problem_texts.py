"""What is wrong with a value, in the words and values of JSON, and the path of the wrong property."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from jsonschema.exceptions import ValidationError, best_match

from pyoco_server.errors import shortened_json
from pyoco_server.json_schemas.schema_check_messages import ValueProblem

_MESSAGE_CHARS: Final = 300
# `{given}` and `{expected}` are the checked value and that of the schema, as JSON.
_TEXTS: Final = {
    "enum": "{given} is not one of {expected}",
    "const": "expected {expected}, not {given}",
    "minimum": "{given} is less than the minimum of {expected}",
    "maximum": "{given} is greater than the maximum of {expected}",
    "exclusiveMinimum": "{given} is not greater than {expected}",
    "exclusiveMaximum": "{given} is not less than {expected}",
    "multipleOf": "{given} is not a multiple of {expected}",
    "minLength": "{given} is shorter than {expected} characters",
    "maxLength": "{given} is longer than {expected} characters",
    "pattern": "{given} does not match the pattern {expected}",
    "format": "{given} is not in the format {expected}",
    "minItems": "expected at least {expected} items",
    "maxItems": "expected at most {expected} items",
    "uniqueItems": "{given} has the same item twice",
    "contains": "{given} has no item that matches the schema of `contains`",
    "minProperties": "expected at least {expected} properties",
    "maxProperties": "expected at most {expected} properties",
    "not": "{given} matches what the schema excludes (`not`)",
    "anyOf": "{given} matches none of the alternatives (`anyOf`)",
    "oneOf": "{given} does not match exactly one of the alternatives (`oneOf`)",
}
_NOT_EXPECTED: Final = frozenset({"additionalProperties", "unevaluatedProperties"})


def problems_in(error: ValidationError) -> Iterator[ValueProblem]:
    """Of several alternatives, the one that is nearest to a match counts."""
    error = best_match([error]) or error
    path = tuple(error.absolute_path)
    expected, given = error.validator_value, error.instance
    keyword = str(error.validator)
    if isinstance(given, dict):
        if keyword == "required" and isinstance(expected, list):
            yield from _missing(path, expected, given)
            return
        if keyword == "dependentRequired" and isinstance(expected, dict):
            for name in expected.keys() & given.keys():
                yield from _missing(path, expected[name], given)
            return
        if keyword in _NOT_EXPECTED and (names := _unexpected(error, given)):
            for name in names:
                value = shortened_json(given[name])
                yield ValueProblem((*path, name), "this property is not expected", value)
            return
    yield ValueProblem(path, _message(error, keyword), shortened_json(given))


def _message(error: ValidationError, keyword: str) -> str:
    given = shortened_json(error.instance)
    if keyword == "type":
        types: Any = error.validator_value
        expected = types if isinstance(types, str) else " or ".join(types)
        return f"expected {expected}, not {given}"
    if error.validator_value is False or keyword == "None":
        return "the schema allows no value here"
    text = _TEXTS.get(keyword)
    if text is None:
        return f"{given} does not match {keyword} of the schema"
    return _short(text.format(given=given, expected=shortened_json(error.validator_value, _MESSAGE_CHARS)))


def _missing(
    path: tuple[str | int, ...], names: Iterable[str], given: dict[str, Any]
) -> Iterator[ValueProblem]:
    for name in names:
        if name not in given:
            yield ValueProblem((*path, name), "this is missing")


def _unexpected(error: ValidationError, given: dict[str, Any]) -> list[str]:
    """The properties that the schema has no place for."""
    schema = error.schema if isinstance(error.schema, dict) else {}
    if error.validator_value is not False:
        return []
    if error.validator == "unevaluatedProperties":
        # What was evaluated depends on other parts of the schema, and only the message has the rest.
        return [name for name in given if repr(name) in error.message]
    patterns = [str(pattern) for pattern in schema.get("patternProperties", {})]
    known = schema.get("properties", {})
    return [
        name
        for name in given
        if name not in known and not any(re.search(pattern, name) for pattern in patterns)
    ]


def _short(message: str) -> str:
    return message if len(message) <= _MESSAGE_CHARS else f"{message[: _MESSAGE_CHARS - 1]}…"
