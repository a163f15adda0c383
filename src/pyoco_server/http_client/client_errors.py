"""What a client raises: the gateway answered with an error, or something else, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import httpx

from pyoco_server.errors import FieldProblem, PyocoError
from pyoco_server.errors.error_table import Err
from pyoco_server.http_client.call_types import object_in


class GatewayUnreachable(PyocoError):
    """The gateway does not answer: it is not running, or not at this address."""

    error = Err.GATEWAY_UNREACHABLE


class NoEventStream(GatewayUnreachable):
    """Somebody answered, but not with the events that were asked for."""


class PyocoHttpError(httpx.HTTPStatusError):
    """The gateway answered with an error; its members are those of the answer."""

    def __init__(self, response: httpx.Response) -> None:
        problem = _problem_of(response)
        status = f"{response.status_code} {response.reason_phrase}"
        self.title: str = problem.get("title") or status
        self.detail: str = problem.get("detail") or _beginning_of(response)
        self.err_id: str | None = problem.get("err_id")
        self.msg_id: str | None = problem.get("msg_id")
        # Of an answer that does not count: why, in a word such as `already_decided` or `expired`.
        self.word: str | None = problem.get("error")
        self.errors: list[FieldProblem] = [_field_problem(item) for item in problem.get("errors") or []]
        ids = f"{self.err_id} " if self.err_id else ""
        super().__init__(f"{ids}({status}) {self.detail}", request=response.request, response=response)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.response.status_code


Failure = GatewayUnreachable | PyocoHttpError


def passes(failure: Failure) -> bool:
    """Whether the same question may be answered a moment later."""
    return not isinstance(failure, PyocoHttpError) or failure.status == HTTPStatus.SERVICE_UNAVAILABLE


def refuses_events(failure: Failure) -> bool:
    """Whether a stream was refused by an older gateway, or by a proxy, rather than for what was asked."""
    if isinstance(failure, PyocoHttpError):
        return failure.err_id is None and failure.status != HTTPStatus.SERVICE_UNAVAILABLE
    return isinstance(failure, NoEventStream)


def _problem_of(response: httpx.Response) -> dict[str, Any]:
    """The members of the error answer; none when something else than the gateway made it, such as a proxy."""
    is_problem = response.headers.get("content-type", "").startswith("application/problem+json")
    return (object_in(response) or {}) if is_problem else {}


def _beginning_of(response: httpx.Response) -> str:
    return response.text.strip()[:500] or f"{response.status_code} {response.reason_phrase}"


def _field_problem(item: Mapping[str, Any]) -> FieldProblem:
    known = {name: item.get(name) for name in ("value", "line", "column")}
    return FieldProblem(str(item.get("field", "")), str(item.get("message", "")), **known)
