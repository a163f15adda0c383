"""What a client raises, and which failures are worth a retry."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import httpx

from pyoco_server.errors import FieldProblem, PyocoError
from pyoco_server.errors.error_table import Err
from pyoco_server.http_client.call_types import object_in
from pyoco_server.http_client.response_types import Run


class GatewayUnreachable(PyocoError):
    """The gateway does not respond: it is not running, or not at this address."""

    error = Err.GATEWAY_UNREACHABLE


class NoEventStream(GatewayUnreachable):
    """The response is not a stream of events."""


class PyocoHttpError(httpx.HTTPStatusError):
    """The gateway responded with an error; the attributes are the members of that response."""

    def __init__(self, response: httpx.Response) -> None:
        problem = _problem_of(response)
        status = f"{response.status_code} {response.reason_phrase}"
        self.title: str = problem.get("title") or status
        self.detail: str = problem.get("detail") or response.text.strip()[:500] or status
        self.err_id: str | None = problem.get("err_id")
        self.msg_id: str | None = problem.get("msg_id")
        # A stable code: of an error about a wait such as `already_decided`, about an agent request such as
        # `WORKTREE_DIRTY`.
        self.word: str | None = problem.get("error")
        self.errors: list[FieldProblem] = [_field_problem(item) for item in problem.get("errors") or []]
        # The id, or the code of an error of agent requests, which has none.
        self.code: str | None = self.err_id or (self.word if self.word and self.word.isupper() else None)
        ids = f"{self.code} " if self.code else ""
        super().__init__(f"{ids}({status}) {self.detail}", request=response.request, response=response)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.response.status_code


class RunFailed(PyocoError):
    """A run that was to return a value has failed, or was cancelled."""

    error = Err.EXECUTION_FAILED

    def __init__(self, run: Run) -> None:
        self.run_id = run["run_id"]
        # FAILED or CANCELLED.
        self.status = run["status"]
        # Why it failed, as in `get_run`.
        self.reason = run["reason"]
        why = run["error"] or run["cancel_reason"]
        super().__init__(f"run {self.run_id} is {self.status}{f': {why}' if why else ''}")


Failure = GatewayUnreachable | PyocoHttpError


def is_transient(failure: Failure) -> bool:
    """Whether the same request may succeed a moment later."""
    return not isinstance(failure, PyocoHttpError) or failure.status == HTTPStatus.SERVICE_UNAVAILABLE


def refuses_events(failure: Failure) -> bool:
    """Whether an older gateway or a proxy has no streams, rather than the request being refused."""
    if isinstance(failure, PyocoHttpError):
        return failure.err_id is None and failure.status != HTTPStatus.SERVICE_UNAVAILABLE
    return isinstance(failure, NoEventStream)


def _problem_of(response: httpx.Response) -> dict[str, Any]:
    """The members of the error response; none when a proxy made it."""
    media_type = response.headers.get("content-type", "")
    if media_type.startswith("application/problem+json"):
        return object_in(response) or {}
    if media_type.startswith("application/json"):
        return _agent_problem(object_in(response) or {})
    return {}


def _agent_problem(content: Mapping[str, Any]) -> dict[str, Any]:
    """An error of agent requests in the same members."""
    error = content.get("error")
    if not isinstance(error, Mapping):
        return {}
    details = error.get("details")
    details = details if isinstance(details, Mapping) else {}
    texts = [error.get("message"), details.get("hint")]
    return {
        "error": error.get("code"),
        "title": error.get("message"),
        "detail": " ".join(text for text in texts if isinstance(text, str)),
        "errors": details.get("errors") or [],
    }


def _field_problem(item: Mapping[str, Any]) -> FieldProblem:
    known = {name: item.get(name) for name in ("value", "line", "column")}
    return FieldProblem(str(item.get("field", "")), str(item.get("message", "")), **known)
