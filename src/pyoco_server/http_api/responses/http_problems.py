"""Every HTTP error in one shape: RFC 9457 members plus `err_id`, `msg_id` and `errors[]`."""

import logging
import traceback
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from msgspec import UNSET, Struct, UnsetType
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from pyoco_server.errors import FieldProblem, InvalidRequest, NatsUnavailable, PyocoError, shortened
from pyoco_server.errors.error_table import ErrorSpec
from pyoco_server.http_api.middleware import security_headers
from pyoco_server.http_api.middleware.constant_time_404 import NotFoundDelay
from pyoco_server.http_api.middleware.response_language import preferred_language
from pyoco_server.http_api.responses.wait_error_codes import word_on
from pyoco_server.http_api.routing import allowed_methods, route_path

log = logging.getLogger(__name__)

PROBLEM_TYPE = "application/problem+json"
_RETRY_AFTER_SEC = "1"

_PHRASES_JA: dict[int, str] = {
    HTTPStatus.NOT_FOUND: "見つかりません",
    HTTPStatus.METHOD_NOT_ALLOWED: "このメソッドは使えません",
    HTTPStatus.INTERNAL_SERVER_ERROR: "ゲートウェイの内部エラーです",
}
_WHAT_NOW: dict[tuple[int, str], str] = {
    (404, "en"): "there is no such path; /openapi.json lists the available ones",
    (404, "ja"): "このパスは存在しません。使えるパスは /openapi.json で確認してください",
    (405, "en"): "this path does not support this method; see /openapi.json",
    (405, "ja"): "このパスではこのメソッドを使えません。/openapi.json で確認してください",
    (500, "en"): "internal error; the log of the gateway has the details",
    (500, "ja"): "詳細はゲートウェイのログを確認してください",
}


class FieldError(Struct, kw_only=True):
    """One field that is not valid, and what is expected."""

    field: str
    message: str
    value: str | UnsetType = UNSET
    line: int | UnsetType = UNSET
    column: int | UnsetType = UNSET


class Problem(Struct, kw_only=True):
    """An error answer."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    err_id: str | None = None
    msg_id: str | None = None
    errors: list[FieldError] = []
    # The same in the words of waits for people, where the error is one of theirs.
    success: bool | UnsetType = UNSET
    error: str | UnsetType = UNSET
    message: str | UnsetType = UNSET


def install(app: FastAPI) -> None:
    """Have every error of the app answered as a problem."""
    app.add_exception_handler(PyocoError, _on_pyoco_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(ClientDisconnect, _on_client_gone)
    app.add_exception_handler(Exception, _on_unexpected)


async def _on_pyoco_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, PyocoError)
    answer = problem_answer(request, error)
    not_found_delay: NotFoundDelay = request.app.state.gateway.authentication.not_found_delay
    await not_found_delay.wait(request, error)
    return answer


def problem_answer(request: Request, error: PyocoError) -> Response:
    """The answer itself, for those that refuse a request before it reaches the app."""
    spec = error.error
    status = spec.status or HTTPStatus.INTERNAL_SERVER_ERROR
    language = preferred_language(request.headers.get("accept-language"))
    _log_answer(request, error, spec, status)
    problem = Problem(
        type=f"urn:pyoco:{spec.err_id}",
        title=spec.text(language),
        status=status,
        detail=_sentences(error.sentence(language), spec.cure(language)),
        instance=request.scope["path"],
        err_id=spec.err_id,
        msg_id=spec.msg_id,
        errors=_field_errors(error.problems),
    )
    if (word := error.word or word_on(route_path(request.scope), error)) is not None:
        problem.success, problem.error = False, word
        problem.message = error.detail or "; ".join(map(str, error.problems)) or problem.title
    return _answer(problem, language, error.headers)


async def _on_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [_from_pydantic(item) for item in error.errors()]
    return await _on_pyoco_error(request, InvalidRequest(problems=problems))


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """What the framework refuses by itself: an unknown path, a wrong method."""
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    # Starlette's own detail only repeats the phrase.
    said = "" if error.detail == phrase else error.detail
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(allowed_methods(route_path(request.scope)))
    return _framework_answer(request, error.status_code, said, headers)


async def no_such_endpoint(request: Request) -> Response:
    """The same answer for a path, or a method of a path, that the app is not even asked for."""
    known = allowed_methods(route_path(request.scope))
    status = HTTPStatus.METHOD_NOT_ALLOWED if known else HTTPStatus.NOT_FOUND
    return await _on_http_exception(request, HTTPException(status))


async def _on_client_gone(request: Request, error: Exception) -> Response:
    return client_gone(request)


def client_gone(request: Request) -> Response:
    """The sender hung up while its body was being read; nobody is there to read this answer."""
    log.info("the client left in the middle of %s %s", request.method, request.scope["path"])
    return Response(status_code=HTTPStatus.BAD_REQUEST)


async def _on_unexpected(request: Request, error: Exception) -> Response:
    log.error("unexpected error on %s %s", request.method, request.scope["path"], exc_info=error)
    # Answered outside of everything that goes around the app.
    return _framework_answer(request, HTTPStatus.INTERNAL_SERVER_ERROR, headers=security_headers.ALWAYS)


def _framework_answer(request: Request, status: int, said: str = "", headers: Any = None) -> Response:
    """A problem that has no id in our table, in the reader's language all the same."""
    language = preferred_language(request.headers.get("accept-language"))
    phrase = HTTPStatus(status).phrase
    path = request.scope["path"]
    title = _PHRASES_JA.get(status, phrase) if language == "ja" else phrase
    problem = Problem(
        type="about:blank",
        title=title,
        status=status,
        detail=f"{request.method} {path}: {said or _WHAT_NOW.get((status, language), title)}",
        instance=path,
    )
    return _answer(problem, language, headers)


def _answer(problem: Problem, language: str, headers: Any = None) -> Response:
    answer_headers = {**(headers or {}), "Content-Language": language, "Vary": "Accept-Language"}
    if problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        answer_headers.setdefault("Retry-After", _RETRY_AFTER_SEC)
    return Response(msgspec.json.encode(problem), problem.status, answer_headers, PROBLEM_TYPE)


def _sentences(what: str, cure: str) -> str:
    if what.endswith((".", "?", "。")):
        return f"{what} {cure}"
    # A Japanese text without a detail ends in Japanese; details are English.
    return f"{what}. {cure}" if what[-1:].isascii() else f"{what}。{cure}"


def _field_errors(problems: Sequence[FieldProblem]) -> list[FieldError]:
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


def _from_pydantic(item: dict[str, Any]) -> FieldProblem:
    # The first element of `loc` is where the value came from: "query", "path", ...
    _, first, *rest = item["loc"]
    path = str(first) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest)
    value = None if "input" not in item else shortened(item["input"])
    return FieldProblem(path, item["msg"], value=value)


def _log_answer(request: Request, error: PyocoError, spec: ErrorSpec, status: int) -> None:
    """A log line without the request's values: a flow.yaml's defaults are params, and may be secret."""
    fields = ", ".join(problem.field for problem in error.problems)
    context: dict[str, object] = {"exc_type": type(error).__name__, "reason": fields or None}
    if run_id := request.path_params.get("run_id"):
        context["run_id"] = run_id
    if isinstance(error, NatsUnavailable):
        context["exc_message"] = error.detail
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        context["exc_traceback"] = "".join(traceback.format_tb(error.__traceback__))
    log.log(
        _level_of(status),
        "%d %s on %s %s",
        status,
        spec.en,
        request.method,
        request.scope["path"],
        extra=spec.log_fields(**context),
    )


def _level_of(status: int) -> int:
    """An error is what the gateway did wrong; that NATS is away is told by many lines of few words."""
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return logging.ERROR
    return logging.WARNING if status > HTTPStatus.INTERNAL_SERVER_ERROR else logging.INFO
