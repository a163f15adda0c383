"""Who asks: what authentication found out about a request, for the routes behind it.

That is the grant itself of the key that it came with: nothing is made anew for each request.
"""

import asyncio

from starlette.requests import HTTPConnection
from starlette.types import Scope as ConnectionScope

from pyoco_server.auth.api_key_cache import Grant

# A key of the connection's scope, which every part of the app that sees the request shares.
_PRINCIPAL = "pyoco.principal"


def remember_principal(scope: ConnectionScope, grant: Grant) -> None:
    scope[_PRINCIPAL] = grant


def access_over(scope: ConnectionScope) -> asyncio.Event | None:
    """Set once the key is revoked or has expired; None: authentication is off."""
    grant = _remembered(scope)
    return None if grant is None else grant.ended


def principal_of(request: HTTPConnection) -> Grant | None:
    """None: authentication is off (PYOCO_HTTP_AUTH_MODE=none)."""
    return _remembered(request.scope)


def _remembered(scope: ConnectionScope) -> Grant | None:
    grant = scope.get(_PRINCIPAL)
    assert grant is None or isinstance(grant, Grant)
    return grant
