"""Tokens in queries: the app reads them, the access log of its server does not have them."""

from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.http_api.middleware.query_tokens import QueryTokenMiddleware, without_tokens


@pytest.mark.parametrize(
    ("query", "visible"),
    [
        (b"token=secret", b"token=[redacted]"),
        (b"ym=2026-11&token=secret&token=other", b"ym=2026-11&token=[redacted]&token=[redacted]"),
        (b"%74oken=secret", b"%74oken=[redacted]"),
        (b"+token=secret=x", b"+token=[redacted]"),
        (b"token", b"token"),
        (b"tokens=1&q=token%3Dx", b"tokens=1&q=token%3Dx"),
    ],
)
def test_values_of_tokens_are_hidden(query: bytes, visible: bytes) -> None:
    assert without_tokens(query) == visible


async def test_the_server_sees_no_token_and_the_app_does() -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def unused(*args: Any) -> Any:
        raise AssertionError(args)

    scope: Scope = {"type": "http", "path": "/hooks/orders", "query_string": b"token=secret"}
    await QueryTokenMiddleware(app)(scope, unused, unused)
    assert scope["query_string"] == b"token=[redacted]"
    assert seen[0]["query_string"] == b"token=secret"


def test_it_wraps_every_other_middleware() -> None:
    app = create_app(NatsBackendConfig(http_trusted_proxies="10.0.0.0/8"))
    outermost: object = app.user_middleware[0].cls
    assert outermost is QueryTokenMiddleware
