"""Who asks: what authentication found out about a request, for the routes behind it."""

import asyncio
from dataclasses import dataclass

from starlette.requests import HTTPConnection
from starlette.types import Scope as ConnectionScope

from pyoco_server.auth.scopes import Scope

# A key of the connection's scope, which every part of the app that sees the request shares.
_PRINCIPAL = "pyoco.principal"
_OVER = "pyoco.access_over"


@dataclass(frozen=True, slots=True)
class Principal:
    """The key a request came with."""

    tenant_id: str
    api_key_id: str
    name: str
    scopes: frozenset[Scope]


def remember_principal(scope: ConnectionScope, principal: Principal, *, until: asyncio.Event) -> None:
    scope[_PRINCIPAL] = principal
    scope[_OVER] = until


def access_over(scope: ConnectionScope) -> asyncio.Event | None:
    """Set once the key is revoked or has expired; None: authentication is off."""
    over = scope.get(_OVER)
    assert over is None or isinstance(over, asyncio.Event)
    return over


def principal_of(request: HTTPConnection) -> Principal | None:
    """None: authentication is off (PYOCO_HTTP_AUTH_MODE=none)."""
    principal = request.scope.get(_PRINCIPAL)
    assert principal is None or isinstance(principal, Principal)
    return principal
