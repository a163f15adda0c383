"""In whose name a request is answered: the tenant and the key that authentication has found."""

from starlette.requests import Request

from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.principal import principal_of
from pyoco_server.runs.tenancy import ANYBODY, Caller


def caller_of(request: Request) -> Caller:
    principal = principal_of(request)
    if principal is None:
        return ANYBODY
    operator = gateway_of(request).config.http_operator_tenant
    return Caller(principal.tenant_id, principal.api_key_id, sees_all=principal.tenant_id == operator)
