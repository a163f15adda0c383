"""Error responses of the gateway, as a test checks them."""

from typing import Any

import httpx


def assert_problem(response: httpx.Response, status: int, number: int) -> dict[str, Any]:
    """The answer has our one shape and the ids of the given error."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert {"type", "title", "status", "detail", "instance", "err_id", "msg_id", "errors"} == set(problem)
    assert problem["status"] == status
    assert problem["err_id"] == f"ERR-PYOCO-{number:04d}"
    assert problem["msg_id"] == f"MSG-PYOCO-{number:04d}"
    assert problem["detail"].startswith(problem["title"])
    assert problem["detail"].endswith((".", "。"))
    return problem


def assert_field_problem(
    response: httpx.Response, field: str, says: str, *, status: int = 422, number: int = 2
) -> dict[str, Any]:
    """The answer names this field first, and what was expected."""
    problem = assert_problem(response, status, number)
    error: dict[str, Any] = problem["errors"][0]
    assert error["field"] == field
    assert says in error["message"]
    return error
