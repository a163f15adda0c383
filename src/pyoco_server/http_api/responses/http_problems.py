"""Error responses: RFC 9457 members plus `err_id`, `msg_id` and `errors[]`."""

import logging
import math
import re
import traceback
from collections.abc import Sequence
from http import HTTPStatus
from inspect import currentframe
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from pyoco_server import errors
from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.api.agent_request_types import AgentErrorBody, AgentProblem
from pyoco_server.api.endpoints.endpoint import JSON_UTF8, is_agent_path
from pyoco_server.errors.error_table import Err, ErrorSpec, Lang
from pyoco_server.http_api.middleware import security_headers
from pyoco_server.http_api.responses.not_found_delay import NotFoundDelay
from pyoco_server.http_api.routing import allowed_methods, route_path
from pyoco_server.telemetry.key_redaction import redact_keys_in
from pyoco_server.telemetry.logging_config import exception_fields, origin_of

log = logging.getLogger(__name__)

_TRACEBACK: Final = "Traceback (most recent call last):\n"
PROBLEM_TYPE = "application/problem+json"
# Of a 503 whose error has no `retry_after_sec`.
_RETRY_AFTER_SEC: Final = 1

# `title` and `detail` of a 404 for an unknown path, a 405 and a 500. A 404 for a run, a wait, a worker and so
# on has the texts of its error: errors/error_table.py.
_TITLES_JA: Final[dict[int, str]] = {
    404: "見つかりません",
    405: "このメソッドは使えません",
    500: "ゲートウェイの内部エラーです",
}
_DETAILS: Final[dict[tuple[int, str], str]] = {
    (404, "en"): "there is no such path; /openapi.json lists the available ones",
    (404, "ja"): "このパスは存在しません。使えるパスは /openapi.json で確認してください",
    (405, "en"): "this path does not support this method; see /openapi.json",
    (405, "ja"): "このパスではこのメソッドを使えません。/openapi.json で確認してください",
    (500, "en"): "internal error; the log of the gateway has the details",
    (500, "ja"): "詳細はゲートウェイのログを確認してください",
}

_WAIT_PATHS: Final = re.compile(r"/(resume|waits(/.*)?|runs/[^/]+/retry)")
# On the paths of agent requests an error has the name of its row in the table as its code.
_AGENT_CODES: Final = {spec.err_id: name for name, spec in vars(Err).items() if isinstance(spec, ErrorSpec)}
_INVALID: Final = frozenset({Err.INVALID_REQUEST.err_id, Err.INVALID_LIST_QUERY.err_id})

# On the paths of waits every error has a code; these have none of their own.
_WAIT_ERROR_CODES: Final[dict[type[errors.PyocoError], str]] = {
    errors.RunNotFound: "not_found",
    errors.InvalidRequest: "invalid_request",
    errors.InvalidListQuery: "invalid_request",
    errors.NatsUnavailable: "unavailable",
    errors.IndexNotReady: "unavailable",
    errors.ApiKeysBusy: "unavailable",
    errors.ApiKeyMissing: "unauthorized",
    errors.ApiKeyInvalid: "forbidden",
    errors.ScopeMissing: "forbidden",
    errors.OriginRefused: "forbidden",
    errors.RateLimited: "rate_limited",
    errors.UnreadableRecord: "unreadable",
}


class FieldError(Struct, kw_only=True):
    """One invalid field, and what was expected."""

    field: str
    message: str
    value: str | UnsetType = UNSET
    line: int | UnsetType = UNSET
    column: int | UnsetType = UNSET


class Problem(Struct, kw_only=True):
    """An error response."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    err_id: str | None = None
    msg_id: str | None = None
    errors: list[FieldError] = []
    # On the paths of waits: the error as their clients expect it.
    success: bool | UnsetType = UNSET
    error: str | UnsetType = UNSET
    message: str | UnsetType = UNSET


def install(app: Starlette) -> None:
    app.add_exception_handler(errors.PyocoError, _on_pyoco_error)
    app.add_exception_handler(AgentError, _on_agent_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(ClientDisconnect, _on_client_disconnect)
    app.add_exception_handler(Exception, _on_unexpected)


async def _on_pyoco_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.PyocoError)
    answer = problem_response(request, error)
    not_found_delay: NotFoundDelay = request.app.state.gateway.authentication.not_found_delay
    await not_found_delay.wait(request, error)
    return answer


def problem_response(request: Request, error: errors.PyocoError) -> Response:
    """Also for middleware that rejects a request before it reaches the app."""
    spec = error.error
    status = spec.status or HTTPStatus.INTERNAL_SERVER_ERROR
    language = preferred_language(request.headers.get("accept-language"))
    _log_error(request, error, spec, status)
    problem = Problem(
        type=f"urn:pyoco:{spec.err_id}",
        title=spec.text(language),
        status=status,
        detail=_detail(error, language),
        instance=request.scope["path"],
        err_id=spec.err_id,
        msg_id=spec.msg_id,
        errors=_field_errors(error.problems),
    )
    if (code := _wait_error_code(route_path(request.scope), error)) is not None:
        problem.success, problem.error = False, code
        problem.message = error.public_detail or "; ".join(map(str, error.problems)) or problem.title
    return _response(problem, language, error.headers, error.retry_after_sec)


async def _on_agent_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AgentError)
    return agent_error_response(request, error)


def agent_error_response(request: Request, error: AgentError) -> Response:
    _log_response(request, error.status, error.code, _error_fields(error, error.status, str(error)))
    return _agent_response(AgentErrorBody(**error.as_json()), error.status)


def _agent_response(error: AgentErrorBody, status: int, headers: Any = None) -> Response:
    content = redact_keys_in(msgspec.json.encode(AgentProblem(error=error)))
    return Response(content, status, headers, JSON_UTF8)


def _agent_form(problem: Problem) -> tuple[AgentErrorBody, int]:
    """The same problem in the form of agent requests, and its status there."""
    details: dict[str, Any] = {"hint": problem.detail}
    if problem.errors:
        details["errors"] = problem.errors
    if problem.err_id in _INVALID:
        message = (
            "; ".join(
                f"{each.field}: {each.message}" if each.field else each.message for each in problem.errors
            )
            or problem.title
        )
        return AgentErrorBody(code=AgentCode.INVALID_REQUEST, message=message, details=details), 400
    if problem.err_id is not None:
        code = _AGENT_CODES[problem.err_id]
    elif problem.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        code = AgentCode.INTERNAL_ERROR
    else:
        code = HTTPStatus(problem.status).name
    return AgentErrorBody(code=code, message=problem.title, details=details), problem.status


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """Errors of the framework: an unknown path, a wrong method."""
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    # Starlette's own detail only repeats the phrase.
    detail = "" if error.detail == phrase else error.detail
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(allowed_methods(route_path(request.scope)))
    _log_response(request, error.status_code, phrase, _error_fields(error, error.status_code, error.detail))
    return _framework_response(request, error.status_code, detail, headers)


async def no_such_endpoint(request: Request) -> Response:
    """For a path, or a method of a path, that the middleware rejects."""
    known = allowed_methods(route_path(request.scope))
    status = HTTPStatus.METHOD_NOT_ALLOWED if known else HTTPStatus.NOT_FOUND
    return await _on_http_exception(request, HTTPException(status))


async def _on_client_disconnect(request: Request, error: Exception) -> Response:
    return client_disconnected(request)


def client_disconnected(request: Request) -> Response:
    """The client disconnected while its body was read; the response is not sent."""
    log.info("the client disconnected during %s %s", request.method, request.scope["path"])
    return Response(status_code=HTTPStatus.BAD_REQUEST)


async def _on_unexpected(request: Request, error: Exception) -> Response:
    fields = {**exception_fields(error), **_run_of(request)}
    log.error("unexpected error on %s %s", request.method, request.scope["path"], extra=fields)
    # This handler runs outside of all middleware.
    return _framework_response(request, HTTPStatus.INTERNAL_SERVER_ERROR, headers=security_headers.ALWAYS)


def _framework_response(request: Request, status: int, detail: str = "", headers: Any = None) -> Response:
    """A problem without an id of the error table."""
    language = preferred_language(request.headers.get("accept-language"))
    phrase = HTTPStatus(status).phrase
    path = request.scope["path"]
    title = _TITLES_JA.get(status, phrase) if language == "ja" else phrase
    problem = Problem(
        type="about:blank",
        title=title,
        status=status,
        detail=f"{request.method} {path}: {detail or _DETAILS.get((status, language), title)}",
        instance=path,
    )
    return _response(problem, language, headers)


def _response(
    problem: Problem, language: str, headers: Any = None, retry_after_sec: float | None = None
) -> Response:
    response_headers = {**(headers or {}), "Content-Language": language, "Vary": "Accept-Language"}
    if retry_after_sec is None and problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        retry_after_sec = _RETRY_AFTER_SEC
    if retry_after_sec is not None:
        response_headers["Retry-After"] = str(math.ceil(retry_after_sec))
    if is_agent_path(problem.instance):
        return _agent_response(*_agent_form(problem), response_headers)
    # It repeats the path and values of the request, where a key may have been sent by mistake.
    content = redact_keys_in(msgspec.json.encode(problem))
    return Response(content, problem.status, response_headers, PROBLEM_TYPE)


def _detail(error: errors.PyocoError, language: Lang) -> str:
    if error.exact_detail and error.detail:
        return error.detail
    return _sentences(error.sentence(language, public=True), error.error.cure(language), language)


def _sentences(what: str, cure: str, language: Lang) -> str:
    # Details that are too long end in "…".
    if what.endswith((".", "?", "。", "…")):
        return f"{what} {cure}"
    # A Japanese text without a detail ends in Japanese; details are English.
    in_japanese = language == "ja" and not what[-1:].isascii()
    return f"{what}。{cure}" if in_japanese else f"{what}. {cure}"


def _field_errors(problems: Sequence[errors.FieldProblem]) -> list[FieldError]:
    return [
        FieldError(
            field=problem.field,
            message=problem.message,
            value=UNSET if problem.value is None else problem.value,
            line=UNSET if problem.line is None else problem.line,
            column=UNSET if problem.column is None else problem.column,
        )
        for problem in problems
    ]


def _log_error(request: Request, error: errors.PyocoError, spec: ErrorSpec, status: int) -> None:
    """Of invalid fields only their names: the values, and texts that quote them, may be secret."""
    names = ", ".join(problem.field for problem in error.problems)
    # A detail beside problems repeats them.
    message = f"{spec.en}: {names}" if error.problems else error.detail or spec.en
    context = {"reason": names or None, **_run_of(request), **_error_fields(error, status, message)}
    _log_response(request, status, spec.en, spec.log_fields(**context))


def _log_response(request: Request, status: int, title: str, fields: dict[str, object]) -> None:
    method, path = request.method, request.scope["path"]
    log.log(_log_level(status), "%d %s on %s %s", status, title, method, path, extra=fields)


def _run_of(request: Request) -> dict[str, object]:
    run_id = request.path_params.get("run_id")
    return {} if run_id is None else {"run_id": run_id}


def _error_fields(error: Exception, status: int, message: str) -> dict[str, object]:
    """The exc_* fields; the traceback of an error of the caller would only show the gateway's own code."""
    fields: dict[str, object] = {
        "exc_type": type(error).__name__,
        "exc_message": message,
        "exc_origin": origin_of(error) or _caller(),
    }
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        frames = "".join(traceback.format_tb(error.__traceback__))
        fields["exc_traceback"] = f"{_TRACEBACK}{frames}{type(error).__name__}: {message}\n"
    return fields


def _caller() -> dict[str, str | int]:
    """Where a middleware reports an error that was not raised: the first frame outside of this module."""
    # Not `inspect.stack`, which reads every source file.
    frame = currentframe()
    assert frame is not None, "CPython has frames"
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return {"file": frame.f_code.co_filename, "line": frame.f_lineno, "func": frame.f_code.co_name}


def _log_level(status: int) -> int:
    """ERROR is an error of the gateway itself; an outage of NATS is a WARNING."""
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return logging.ERROR
    return logging.WARNING if status > HTTPStatus.INTERNAL_SERVER_ERROR else logging.INFO


def _wait_error_code(path: str, error: errors.PyocoError) -> str | None:
    if error.word is not None or _WAIT_PATHS.fullmatch(path) is None:
        return error.word
    return next((code for kind, code in _WAIT_ERROR_CODES.items() if isinstance(error, kind)), None)


def preferred_language(accept_language: str | None) -> Lang:
    """Japanese if Accept-Language prefers it to English, else English."""
    weights: dict[str, float] = {}
    for item in (accept_language or "").split(","):
        tag, _, parameters = item.strip().partition(";")
        primary = tag.strip().lower().partition("-")[0]
        weight = _weight(parameters)
        weights[primary] = max(weight, weights.get(primary, 0.0))
    japanese = weights.get("ja", 0.0)
    return "ja" if japanese > weights.get("en", 0.0) else "en"


def _weight(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    if name.strip().lower() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
