"""What the key of a request may do."""

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.api.endpoints.system_endpoints import GET_KEY
from pyoco_server.api.health_types import KeyAccess
from pyoco_server.auth.scopes import ALL_SCOPES, Scope
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import caller_of, principal_of
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routing import handles


@handles(GET_KEY)
async def get_key(request: Request) -> Response:
    grant, caller = principal_of(request), caller_of(request)
    scopes = ALL_SCOPES if grant is None or Scope.ADMIN in grant.scopes else grant.scopes
    is_operator = caller.sees_all or not gateway_of(request).config.http_operator_tenant
    access = KeyAccess(
        key_id=caller.api_key_id,
        tenant_id=caller.tenant_id,
        name=None if grant is None else grant.name,
        scopes=[scope.value for scope in Scope if scope in scopes],
        groups=sorted(caller.groups),
        sees_all_tenants=caller.sees_all,
        endpoints=[
            each.route
            for each in ENDPOINTS
            if each.in_schema and each.allows(scopes) and (is_operator or not each.operators_only)
        ],
    )
    return json_response(access)
