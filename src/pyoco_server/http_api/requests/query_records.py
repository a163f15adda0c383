"""A query string as a record: every parameter known, given once, and of the right form."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from starlette.requests import Request

from pyoco_server.errors import FieldProblem, shortened
from pyoco_server.http_api.requests.invalid_input import invalid_fields

T = TypeVar("T", bound=msgspec.Struct)


class BadQuery(Exception):
    """The query is not what the record wants; which error that is, the endpoint knows."""

    def __init__(self, problem: FieldProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def query_record(request: Request, kind: type[T], wanted: Mapping[str, str]) -> T:
    """The query as the record; `wanted` says in words, for each parameter, what it may be."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in wanted:
            known = ", ".join(wanted)
            raise BadQuery(FieldProblem(name, f"unknown parameter; wanted one of {known}"))
        if name in given:
            raise BadQuery(FieldProblem(name, "given twice; wanted once", value=shortened(value)))
        given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        [problem] = invalid_fields(error, given).problems
        message = wanted[problem.field]
        raise BadQuery(FieldProblem(problem.field, message, value=problem.value)) from None
