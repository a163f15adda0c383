"""Validation by JSON Schemas (draft 2020-12 with formats), and the process in which slow checks run.

Nothing is ever fetched: a schema whose references lead out of it is rejected.
"""

import re
import sys
from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from typing import Any, Final

import msgspec
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from pyoco_server.config.process_isolation import close_other_descriptors, hide_process
from pyoco_server.errors import FieldProblem, shortened
from pyoco_server.json_schemas.schema_check_messages import (
    Schema,
    SchemaCheck,
    SchemaCheckResult,
    ValueProblem,
)
from pyoco_server.json_schemas.schema_problem_texts import problems_in

_REFERENCES: Final = ("$ref", "$dynamicRef")
_MAX_PROBLEMS: Final = 20
_MESSAGE_CHARS: Final = 300
_EMPTY_REGISTRY: Final[Registry[Any]] = Registry()
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")

_formats: Final = FormatChecker()


@_formats.checks("date-time", raises=ValueError)
def _is_date_time(value: object) -> bool:
    """jsonschema leaves this format to another package."""
    if isinstance(value, str):
        if _TIME.fullmatch(value) is None:
            return False
        datetime.fromisoformat(value.upper())
    return True


def _multiple_of(_: Any, step: float, value: Any, __: Any) -> Iterator[ValidationError]:
    """Exact, as the numbers are written. jsonschema divides floats: 0.3 is no multiple of 0.1 there, and
    10^400 an OverflowError."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and (_exact(value) / _exact(step)).denominator != 1:
        yield ValidationError(f"{value!r} is not a multiple of {step!r}")


def _exact(number: float) -> Fraction:
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


_Validator: Final = extend(Draft202012Validator, {"multipleOf": _multiple_of})  # type: ignore[no-untyped-call]


def check_schema(schema: Schema) -> None:
    """ValueError says what is wrong with it, and where."""
    try:
        Draft202012Validator.check_schema(schema)
        resource = DRAFT202012.create_resource(schema)
        _check_references(resource, _EMPTY_REGISTRY.resolver_with_root(resource))
    except SchemaError as error:
        where = ".".join(map(str, error.absolute_path)) or "the schema"
        raise ValueError(f"{where} is not JSON Schema: {_short(error.message)}") from None
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None
    except ValueError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it has, a schema must not fail a request
        raise ValueError(f"it cannot be used: {_described(error)}") from None


def problems_of(value: Any, schema: Schema, *, at: str = "") -> list[FieldProblem]:
    """What is wrong with the value, each with its dotted path below `at`."""
    return [problem.dotted(at) for problem in value_problems(value, schema)]


def value_problems(value: Any, schema: Schema) -> list[ValueProblem]:
    """What is wrong with the value; at most one problem for each path."""
    validator = _Validator(schema, registry=_EMPTY_REGISTRY, format_checker=_formats)
    found: dict[tuple[str | int, ...], ValueProblem] = {}
    try:
        for error in validator.iter_errors(value):
            for problem in problems_in(error):
                found.setdefault(problem.path, problem)
            if len(found) >= _MAX_PROBLEMS:
                break
    except RecursionError:
        return [ValueProblem((), "the value is nested too deeply for its schema")]
    except Unresolvable as error:
        # Only possible with a schema that was not checked.
        return [ValueProblem((), f"its schema refers to {error.ref!r}, which does not exist")]
    except Exception as error:  # noqa: BLE001 - whatever it has, an answer must not fail a request
        return [ValueProblem((), f"this value cannot be checked against its schema: {_described(error)}")]
    return sorted(found.values(), key=lambda problem: list(map(str, problem.path)))


def _check_references(resource: Resource[Any], resolver: Any) -> None:
    contents = resource.contents
    if isinstance(contents, dict):
        for reference in (contents[word] for word in _REFERENCES if word in contents):
            try:
                resolver.lookup(reference)
            except Unresolvable:
                expected = "references lead to a place within the schema, such as #/$defs/name"
                raise ValueError(f"there is nothing at {shortened(reference)}: {expected}") from None
    for inner in resource.subresources():
        _check_references(inner, resolver.in_subresource(inner))


def _described(error: Exception) -> str:
    return _short(f"{type(error).__name__}: {error}")


def _short(message: str) -> str:
    return message if len(message) <= _MESSAGE_CHARS else f"{message[: _MESSAGE_CHARS - 1]}…"


def run_check(check: SchemaCheck) -> SchemaCheckResult:
    try:
        check_schema(check.schema)
    except ValueError as error:
        return SchemaCheckResult(schema_error=str(error))
    return SchemaCheckResult(problems=value_problems(check.value, check.schema))


def main() -> None:
    """Checks from standard input, results to standard output, each one line of JSON."""
    hide_process()
    close_other_descriptors()
    decode = msgspec.json.Decoder(SchemaCheck).decode
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(msgspec.json.encode(run_check(decode(line))) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
