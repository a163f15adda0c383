"""In whose name a request is answered: the tenant and the key that authentication has found."""

from functools import lru_cache
from typing import Final

from starlette.requests import Request

from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import principal_of
from pyoco_server.runs.lifecycle.tenancy import ANYBODY, Caller

_MOST_KNOWN: Final = 1000


def caller_of(request: Request) -> Caller:
    principal = principal_of(request)
    if principal is None:
        return ANYBODY
    operator = gateway_of(request).config.http_operator_tenant
    return _caller(principal.tenant_id, principal.key_id, principal.tenant_id == operator)


@lru_cache(_MOST_KNOWN)
def _caller(tenant_id: str, api_key_id: str, sees_all: bool) -> Caller:
    """Made once for a key, not for each request."""
    return Caller(tenant_id, api_key_id, sees_all=sees_all)
