"""The principal of a request: the grant of its API key, and the caller that follows from it."""

import asyncio
from functools import lru_cache
from typing import Final

from starlette.requests import HTTPConnection
from starlette.types import Scope as ConnectionScope

from pyoco_server.auth.api_key_cache import Grant
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.records.waits.wait_models import Actor
from pyoco_server.runs.lifecycle.tenancy import ANYBODY, Caller

_PRINCIPAL: Final = "pyoco.principal"
_MAX_CACHED: Final = 1000
_USER_AGENT_CHARS: Final = 300


def set_principal(scope: ConnectionScope, grant: Grant) -> None:
    scope[_PRINCIPAL] = grant


def access_ended(scope: ConnectionScope) -> asyncio.Event | None:
    """Set once the key is revoked or has expired; None: authentication is off."""
    grant = _principal_in(scope)
    return None if grant is None else grant.ended


def principal_of(request: HTTPConnection) -> Grant | None:
    """None: authentication is off (PYOCO_HTTP_AUTH_MODE=none)."""
    return _principal_in(request.scope)


def caller_of(request: HTTPConnection) -> Caller:
    principal = principal_of(request)
    if principal is None:
        return ANYBODY
    operator = gateway_of(request).config.http_operator_tenant
    is_operator = principal.tenant_id == operator
    return _caller(principal.tenant_id, principal.key_id, is_operator, principal.groups)


@lru_cache(_MAX_CACHED)
def _caller(tenant_id: str, api_key_id: str, sees_all: bool, groups: frozenset[str]) -> Caller:
    return Caller(tenant_id, api_key_id, sees_all=sees_all, groups=groups)


def _principal_in(scope: ConnectionScope) -> Grant | None:
    grant = scope.get(_PRINCIPAL)
    assert grant is None or isinstance(grant, Grant)
    return grant


def actor_of(request: HTTPConnection, *, on_behalf_of: str | None = None) -> Actor:
    """Who sent the request, for the audit log."""
    principal = principal_of(request)
    agent = request.headers.get("user-agent")
    return Actor(
        tenant_id=None if principal is None else principal.tenant_id,
        api_key_id=None if principal is None else principal.key_id,
        name=None if principal is None else principal.name,
        ip=None if request.client is None else request.client.host,
        user_agent=None if agent is None else agent[:_USER_AGENT_CHARS],
        on_behalf_of=on_behalf_of,
    )
