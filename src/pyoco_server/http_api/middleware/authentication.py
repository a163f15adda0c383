"""Authentication by API key, before the body of a request is read.

Only endpoints of the table can be reached. Without a key, an unknown path is a 401 as well.
"""

from contextlib import suppress
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.api.endpoints.endpoint import Endpoint
from pyoco_server.auth.api_key_cache import ApiKeyCache, Grant
from pyoco_server.errors import ApiKeyInvalid, ApiKeyMissing, PyocoError, ScopeMissing
from pyoco_server.http_api.middleware.principal import set_principal
from pyoco_server.http_api.responses.http_problems import no_such_endpoint
from pyoco_server.http_api.responses.not_found_delay import note_arrival
from pyoco_server.http_api.responses.refusals import refuse, request_in, send_response
from pyoco_server.http_api.routing import find_endpoint, method_of, route_path

# A browser cannot send headers of its own with a WebSocket. It offers the key as a protocol, beside the one
# that is accepted: the key is not in a response, nor in an address that is logged.
KEY_PROTOCOL: Final = "pyoco-key."
SOCKET_PROTOCOL: Final = "pyoco-server"


class AuthenticationMiddleware:
    """The middleware. With fresh keys it takes some microseconds, and nothing is awaited."""

    def __init__(self, app: ASGIApp, *, header: str, operator_tenant: str) -> None:
        self._app = app
        self._operator_tenant = operator_tenant
        self._header = header
        self._header_bytes = header.lower().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        method = method_of(scope)
        endpoint = find_endpoint(method, route_path(scope))
        if endpoint is not None and self._needs_no_key(endpoint, scope):
            if endpoint.optional_key:
                self._note_key(scope)
            await self._app(scope, receive, send)
            return
        keys: ApiKeyCache = scope["app"].state.gateway.authentication.keys
        note_arrival(scope)
        try:
            text = self._key_in(scope)
            if not keys.fresh:
                await keys.confirm()
            if keys.needs_slow_check(text):
                await keys.check_slowly(text)
            grant = keys.check(text)
            # Also of a request that is refused: the audit log has who sent it.
            set_principal(scope, grant)
            _check_scopes(grant, endpoint, method)
            if endpoint is not None and endpoint.operators_only:
                _require_operator(grant, endpoint, self._operator_tenant)
        except PyocoError as error:
            if endpoint is not None:
                # For the count of requests: the router has not seen this one.
                scope["route"] = endpoint
            await refuse(error, scope, receive, send)
            return
        if endpoint is None:
            await send_response(await no_such_endpoint(request_in(scope, receive)), scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _note_key(self, scope: Scope) -> None:
        """Accept a key as it was last read: health is also shown while NATS is unreachable."""
        keys: ApiKeyCache = scope["app"].state.gateway.authentication.keys
        # Callers with a key may get a 404.
        note_arrival(scope)
        with suppress(ApiKeyMissing, ApiKeyInvalid):
            set_principal(scope, keys.check(self._key_in(scope)))

    def _needs_no_key(self, endpoint: Endpoint, scope: Scope) -> bool:
        if endpoint.public or not endpoint.event_token:
            return endpoint.public
        # The handler checks the token of workflow events, and requires a key where none is configured.
        return not any(name == self._header_bytes and value.strip(b" \t") for name, value in scope["headers"])

    def _key_in(self, scope: Scope) -> str:
        for name, value in scope["headers"]:
            # The parser does not strip trailing white space.
            if name == self._header_bytes and (text := str(value, "latin-1").strip(" \t")):
                return text
        for protocol in scope.get("subprotocols", ()):
            if protocol.startswith(KEY_PROTOCOL):
                return str(protocol.removeprefix(KEY_PROTOCOL))
        raise missing_key(self._header)


def missing_key(header: str) -> ApiKeyMissing:
    missing = ApiKeyMissing(f"the header {header} is missing")
    missing.headers["WWW-Authenticate"] = f'ApiKey realm="pyoco-server", header="{header}"'
    return missing


def _check_scopes(grant: Grant, endpoint: Endpoint | None, method: str) -> None:
    """ScopeMissing, unless the grant is enough for the endpoint."""
    if endpoint is None or endpoint.allows(grant.scopes):
        return
    needed = " or ".join(f"`{scope}`" for scope in endpoint.scope_names)
    raise ScopeMissing(
        f"{method} {endpoint.path} needs the scope {needed}, and the key {grant.key_id} has {_listed(grant)}"
    )


def _require_operator(grant: Grant, endpoint: Endpoint, operator_tenant: str) -> None:
    """Without an operator tenant the scope is enough."""
    if operator_tenant and grant.tenant_id != operator_tenant:
        raise ScopeMissing(
            f"{endpoint.route} changes what all tenants use: it needs a key of the operator tenant "
            f"(PYOCO_HTTP_OPERATOR_TENANT), and the key {grant.key_id} belongs to the tenant "
            f"{grant.tenant_id!r}"
        )


def _listed(grant: Grant) -> str:
    return ", ".join(f"`{scope}`" for scope in sorted(grant.scopes)) or "none that this version knows"
