"""JSON Schemas of answers: whether a schema is one, and what is wrong with a value.

Draft 2020-12 with its formats. Nothing is ever fetched: a reference leads to a place within the schema, or
the schema is refused.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from pyoco_server.errors import FieldProblem, shortened

Schema = dict[str, Any] | bool

_REFERENCES: Final = ("$ref", "$dynamicRef")
# Enough to mend an answer by; a form shows no more.
_MOST_PROBLEMS: Final = 20
_MESSAGE_CHARS: Final = 300
_NOTHING_TO_FETCH: Final[Registry[Any]] = Registry()
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")

_formats: Final = FormatChecker()


@_formats.checks("date-time", raises=ValueError)
def _is_date_time(value: object) -> bool:
    """The library leaves this one to a package that we would need for nothing else."""
    if isinstance(value, str):
        if _TIME.fullmatch(value) is None:
            return False
        datetime.fromisoformat(value.upper())
    return True


def check_schema(schema: Schema) -> None:
    """ValueError says what is wrong with it, and where."""
    try:
        Draft202012Validator.check_schema(schema)
        resource = DRAFT202012.create_resource(schema)
        _check_references(resource, _NOTHING_TO_FETCH.resolver_with_root(resource))
    except SchemaError as error:
        where = ".".join(map(str, error.absolute_path)) or "the schema"
        raise ValueError(f"{where} is not JSON Schema: {_short(error.message)}") from None
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None


def problems_of(value: Any, schema: Schema, *, at: str = "") -> list[FieldProblem]:
    """What is wrong with the value, each with its path below `at`; nothing when it is as wanted."""
    validator = Draft202012Validator(schema, registry=_NOTHING_TO_FETCH, format_checker=_formats)
    found: dict[str, FieldProblem] = {}
    try:
        for error in validator.iter_errors(value):
            for problem in _problems(error, at):
                found.setdefault(problem.field, problem)
            if len(found) >= _MOST_PROBLEMS:
                break
    except RecursionError:
        return [FieldProblem(at, "the value is nested too deeply for its schema")]
    except Unresolvable as error:
        # Only of a schema that was never checked.
        return [FieldProblem(at, f"its schema refers to {error.ref!r}, and nothing is there")]
    return sorted(found.values(), key=lambda problem: problem.field)


def _problems(error: ValidationError, at: str) -> Iterator[FieldProblem]:
    """Of several ways to be right, what is wrong is told of the one that comes nearest."""
    error = best_match([error]) or error
    path = ".".join(part for part in (at, *map(str, error.absolute_path)) if part)
    wanted, given = error.validator_value, error.instance
    if error.validator == "required" and isinstance(wanted, list) and isinstance(given, dict):
        for name in wanted:
            if name not in given:
                yield FieldProblem(f"{path}.{name}" if path else name, "this is missing")
    else:
        yield FieldProblem(path, _short(error.message), value=shortened(given))


def _check_references(resource: Resource[Any], resolver: Any) -> None:
    contents = resource.contents
    if isinstance(contents, dict):
        for reference in (contents[word] for word in _REFERENCES if word in contents):
            try:
                resolver.lookup(reference)
            except Unresolvable:
                wanted = "references lead to a place within the schema, such as #/$defs/name"
                raise ValueError(f"there is nothing at {shortened(reference)}: {wanted}") from None
    for inner in resource.subresources():
        _check_references(inner, resolver.in_subresource(inner))


def _short(message: str) -> str:
    return message if len(message) <= _MESSAGE_CHARS else f"{message[: _MESSAGE_CHARS - 1]}…"
