"""A query string as a record: every parameter known, given once, and of the right form."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from starlette.requests import Request

from pyoco_server.errors import FieldProblem, PyocoError, shortened
from pyoco_server.http_api.requests.invalid_input import invalid_fields

T = TypeVar("T", bound=msgspec.Struct)


def query_record(request: Request, kind: type[T], expected: Mapping[str, str], error: type[PyocoError]) -> T:
    """The query as the record; `expected` says for each parameter what it may be, for the error."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in expected:
            message = f"unknown parameter; expected one of {', '.join(expected)}"
            raise error(problems=[FieldProblem(name, message)])
        if name in given:
            raise error(problems=[FieldProblem(name, "given twice; expected once", value=shortened(value))])
        given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as invalid:
        [problem] = invalid_fields(invalid, given).problems
        message = expected[problem.field]
        raise error(problems=[FieldProblem(problem.field, message, value=problem.value)]) from None
