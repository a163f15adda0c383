"""The fast path of `POST /runs` behaves like the routing of the framework."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from pyoco_server.api.endpoints.runs.run_endpoints import SUBMIT_RUN
from pyoco_server.errors import NatsUnavailable
from pyoco_server.http_api.middleware.submit_fast_path import SubmitFastPath

Handler = Callable[[Request], Awaitable[Response]]


async def around(scope: Any, receive: Any, send: Any) -> None:
    await Response(b"the long way")(scope, receive, send)


async def answer_of(handler: Handler, *, method: str = "POST", path: str = "/runs") -> tuple[int, bytes]:
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [],
        "app": Starlette(),
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    short = SubmitFastPath(around, handler=handler)
    await short(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


async def accept(request: Request) -> Response:
    assert request.scope["route"] is SUBMIT_RUN
    return Response(b"accepted")


async def test_the_endpoint_is_called_at_once() -> None:
    assert await answer_of(accept) == (200, b"accepted")


@pytest.mark.parametrize(("method", "path"), [("GET", "/runs"), ("POST", "/runs/"), ("POST", "/runs/yaml")])
async def test_other_requests_use_the_router(method: str, path: str) -> None:
    assert await answer_of(accept, method=method, path=path) == (200, b"the long way")


async def test_an_error_is_a_problem_response() -> None:
    async def fail(request: Request) -> Response:
        raise NatsUnavailable("it is away")

    status, body = await answer_of(fail)
    assert status == 503
    assert msgspec.json.decode(body)["err_id"] == NatsUnavailable.error.err_id


async def test_a_client_disconnect_is_no_error() -> None:
    async def read(request: Request) -> Response:
        await request.body()
        raise AssertionError("there is no body")

    assert (await answer_of(read))[0] == 400


async def test_other_errors_reach_the_error_handler() -> None:
    async def fail(request: Request) -> Response:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await answer_of(fail)
