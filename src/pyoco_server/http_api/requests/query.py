"""Query strings, parsed strictly: unknown, repeated and invalid parameters are errors."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from starlette.requests import Request

from pyoco_server.api.invalid_fields import invalid_fields
from pyoco_server.api.run_types import RunFilterQuery
from pyoco_server.errors import FieldProblem, InvalidListQuery, InvalidRequest, PyocoError, shortened
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.records.runs.causes import CauseKind
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.value_types import RUN_ID_EXPECTED, TAG_EXPECTED, is_run_id, is_tag
from pyoco_server.runs.index.pagination import BadCursor, Cursors, SortKey
from pyoco_server.runs.index.search.run_filter import RunFilter, TimeRange
from pyoco_server.runs.lifecycle.tenancy import Caller

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

_TEXT_MAX = 200
_YES_NO = {"true": True, "1": True, "false": False, "0": False}


class InvalidValue(Exception):
    """The text says what was expected."""


def run_filter_of(request: Request) -> RunFilter:
    """A query of filters only; InvalidListQuery names every invalid parameter."""
    reader = QueryReader(request, RunFilterQuery)
    selected = filter_in(reader, caller_of(request))
    reader.check()
    return selected


@cache
def _lists_of(record: type[msgspec.Struct]) -> frozenset[str]:
    """The parameters that may be repeated."""
    return frozenset(name for name, hint in get_type_hints(record).items() if _has_list(hint))


def _has_list(hint: Any) -> bool:
    return get_origin(hint) is list or any(map(_has_list, get_args(hint)))


def _unknown(known: Iterable[str]) -> str:
    names = ", ".join(sorted(known))
    return f"unknown parameter; expected {f'one of {names}' if names else 'none'}"


class QueryReader:
    """Parses the parameters of a record, whose fields are their names, and collects their errors."""

    error: type[PyocoError] = InvalidListQuery

    def __init__(self, request: Request, record: type[msgspec.Struct]) -> None:
        self._query = request.query_params
        self._problems: list[FieldProblem] = []
        self._check_names(record)

    def _check_names(self, record: type[msgspec.Struct]) -> None:
        known, lists = record.__struct_fields__, _lists_of(record)
        for name in dict.fromkeys(self._query.keys()):
            values = self._query.getlist(name)
            if name not in known:
                self._problems.append(FieldProblem(name, _unknown(known), shortened(values[0])))
            elif len(values) > 1 and name not in lists:
                self._problems.append(FieldProblem(name, "given more than once; give it once"))

    def one(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """The value of a parameter; the default when it is missing or invalid."""
        text = self._query.get(name)
        return default if text is None else self._parsed(name, text, parse, default)

    def each(self, name: str, parse: Callable[[str], T]) -> list[T]:
        """The values of a parameter that may be repeated or separated by commas."""
        texts = [text.strip() for value in self._query.getlist(name) for text in value.split(",")]
        parsed = (self._parsed(name, text, parse, None) for text in texts)
        return [value for value in parsed if value is not None]

    def repeated(self, name: str) -> list[str]:
        """The values of a parameter that may be repeated, and may contain commas."""
        return self._query.getlist(name)

    def check(self) -> None:
        if self._problems:
            raise self.error(problems=self._problems)

    def _parsed(self, name: str, text: str, parse: Callable[[str], T], default: Any) -> Any:
        try:
            return parse(text)
        except InvalidValue as error:
            self._problems.append(FieldProblem(name, str(error), shortened(text)))
            return default


class RequestQueryReader(QueryReader):
    """Its errors are ERR-PYOCO-0002; those of a list are ERR-PYOCO-0017."""

    error = InvalidRequest


class TolerantQueryReader(RequestQueryReader):
    """For probes: ignores other parameters, and takes the last one of a name."""

    def _check_names(self, record: type[msgspec.Struct]) -> None:
        """Load balancers may add parameters of their own."""


class _NoParameters(msgspec.Struct):
    pass


def refuse_parameters(request: Request) -> None:
    """For endpoints without a query."""
    RequestQueryReader(request, _NoParameters).check()


def filter_in(reader: QueryReader, caller: Caller) -> RunFilter:
    """The filter of the query, limited to the tenant of the caller."""
    return RunFilter(
        tenant=caller.confined_to,
        statuses=frozenset(reader.each("status", _status)),
        flow=reader.one("flow", text_value, None),
        tag=reader.one("tag", text_value, None),
        worker=reader.one("worker", text_value, None),
        origin=reader.one("origin", run_id_value, None),
        cause=reader.one("cause", _cause, None),
        workflow_yaml_sha256=reader.one("workflow_yaml_sha256", _sha256, None),
        updated=_time_range(reader, "updated"),
        submitted=_time_range(reader, "submitted"),
        q=reader.one("q", text_value, None),
    )


def _time_range(reader: QueryReader, name: str) -> TimeRange:
    return TimeRange(
        after=reader.one(f"{name}_after", time_value, None),
        before=reader.one(f"{name}_before", time_value, None),
    )


def choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise InvalidValue(f"expected one of {', '.join(choices)}")
        return text.lower()

    return parse


def yes_or_no(text: str) -> bool:
    if text.lower() not in _YES_NO:
        raise InvalidValue("expected true or false")
    return _YES_NO[text.lower()]


def whole_number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # int() would accept "1_0" and digits of other scripts.
        if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
            raise InvalidValue(f"expected a whole number from {least} to {most}")
        return int(text)

    return parse


def _status(text: str) -> str:
    if text.upper() not in RunStatus.__members__:
        raise InvalidValue(f"expected one of {', '.join(RunStatus)}, in upper or lower case")
    return text.upper()


def _cause(text: str) -> str:
    kind = text.partition(":")[0]
    if kind not in list(CauseKind):
        kinds = ", ".join(CauseKind)
        raise InvalidValue(f"expected one of {kinds}, or one with an id, such as schedule:nightly")
    return text_value(text)


def time_value(text: str) -> float:
    try:
        at = float(text)
    except ValueError:
        at = math.nan
    if not (at >= 0 and math.isfinite(at)) or "_" in text:
        raise InvalidValue("expected a time in unix seconds, such as 1760000000.5")
    return at


def cursor_value(cursors: Cursors | None, *bound_to: Any) -> Callable[[str], SortKey]:
    """Reads a cursor that is valid for this filter, and this order, only."""

    def parse(text: str) -> SortKey:
        assert cursors is not None, "there is a cursor to read"
        try:
            return cursors.read(text, *bound_to)
        except BadCursor as bad:
            raise InvalidValue(str(bad)) from None

    return parse


def run_id_value(text: str) -> str:
    if not is_run_id(text):
        raise InvalidValue(RUN_ID_EXPECTED)
    return text


def _sha256(text: str) -> str:
    if len(text) != 64 or not set(text.lower()) <= set("0123456789abcdef"):
        raise InvalidValue("expected the 64 hexadecimal digits of a SHA-256")
    return text.lower()


def tag_value(text: str) -> str:
    if not is_tag(text):
        raise InvalidValue(TAG_EXPECTED)
    return text


def text_up_to(most: int) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if len(text) > most:
            raise InvalidValue(f"expected at most {most} characters")
        return text

    return parse


def text_value(text: str) -> str:
    if not 1 <= len(text) <= _TEXT_MAX:
        raise InvalidValue(f"expected 1 to {_TEXT_MAX} characters")
    return text


def query_record(request: Request, kind: type[S], expected: Mapping[str, str], error: type[PyocoError]) -> S:
    """The query as the record; `expected` says for each parameter what it may be, for the error."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in expected:
            # Without its value, as below.
            raise error(problems=[FieldProblem(name, _unknown(expected))])
        if name in given:
            # Without its value: it may be a token.
            raise error(problems=[FieldProblem(name, "given twice; expected once")])
        given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as invalid:
        [problem] = invalid_fields(invalid, given).problems
        message = expected[problem.field]
        raise error(problems=[FieldProblem(problem.field, message, value=problem.value)]) from None
