"""Protects a gateway without API keys against web pages of other sites.

A page in a browser can send requests to addresses that only this browser reaches, such as a gateway on the
same machine. Two headers that a page cannot forge reveal this:

- `Origin` (or `Sec-Fetch-Site`) is the site that sends a request. Only the dashboard may change something.
- `Host` is the name that the browser connects to. With DNS rebinding, another site is "same origin" for the
  browser and could read every response; but then `Host` is the name of that site. Addresses, `localhost` and
  configured names are accepted.

Programs such as curl send neither `Origin` nor `Sec-Fetch-Site`.

The probe of an orchestrator asks for `/health` by a name that the gateway does not know, such as that of a
container: it gets the states only, as callers without a key do.
"""

import ipaddress
import re
import socket
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.api.endpoints import HEALTH
from pyoco_server.errors import FieldProblem, OriginRefused, shortened
from pyoco_server.http_api.responses.http_problems import problem_response
from pyoco_server.http_api.routing import find_endpoint, route_path

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OTHER_SITES: Final = frozenset({b"cross-site", b"same-site"})
_AUTHORITY: Final = re.compile(
    r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^\[\]:/@\\?#\s]+))(?::\d*)?", re.ASCII
)
_ANY_NAME: Final = "*"
# Accepted names are cached.
_MAX_CACHED: Final = 1000
# In the scope of a request for the health by an unknown name.
_UNKNOWN_HOST: Final = "pyoco.unknown_host"


class _UnknownHost(OriginRefused):
    """The `Host` is not a name of this gateway."""


def is_from_unknown_host(request: Request) -> bool:
    return _UNKNOWN_HOST in request.scope


class TrustedHosts:
    """The names of this gateway."""

    def __init__(self, allowed: str) -> None:
        named = {part.strip().lower() for part in allowed.split(",") if part.strip()}
        self._any = _ANY_NAME in named
        self._endings = tuple(name[1:] for name in named if name.startswith("*."))
        self._listed = named
        self._own = {"localhost", socket.gethostname().lower()}

    def is_own(self, host: str) -> bool:
        """Whether it is accepted as `Host`."""
        name = _name_in(host)
        return self._any or name in self._own or self.lists(host) or _is_address(name)

    def lists(self, host: str) -> bool:
        """Whether it is configured, with its port or without."""
        name = _name_in(host)
        return name in self._listed or host.lower() in self._listed or name.endswith(self._endings)


class OriginMiddleware:
    def __init__(self, app: ASGIApp, *, allowed_hosts: str) -> None:
        self._app = app
        self._trusted = TrustedHosts(allowed_hosts)
        self._known: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(scope)
            except _UnknownHost as error:
                if _is_probe(scope):
                    scope[_UNKNOWN_HOST] = True
                    await self._app(scope, receive, send)
                else:
                    await problem_response(Request(scope, receive), error)(scope, receive, send)
                return
            except OriginRefused as error:
                await problem_response(Request(scope, receive), error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        host = origin = site = None
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name == b"origin":
                origin = value
            elif name == b"sec-fetch-site":
                site = value
        if host is not None and host not in self._known:
            self._check_host(host)
        if origin is None and site is None:
            return
        if scope["method"] not in _SAFE_METHODS:
            self._check_site(host or b"", origin, site)

    def _check_host(self, host: bytes) -> None:
        text = host.decode("latin-1")
        if not self._trusted.is_own(text):
            why = f"this is not a name of this gateway; {_how_to_allow(text)}"
            raise _UnknownHost(problems=[FieldProblem("Host", why, value=shortened(text))])
        if len(self._known) < _MAX_CACHED:
            self._known.add(host)

    def _check_site(self, host: bytes, origin: bytes | None, site: bytes | None) -> None:
        if origin is None:
            if site in _OTHER_SITES:
                raise _rejected(
                    "Sec-Fetch-Site", str(site, "latin-1"), "a page of another site sent this request"
                )
            return
        text = origin.decode("latin-1")
        # The scheme is not compared: a proxy may terminate TLS.
        authority = text.partition("://")[2]
        if authority.lower() != host.decode("latin-1").lower() and not self._trusted.lists(authority):
            raise _rejected(
                "Origin", text, f"a page of another site sent this request; {_how_to_allow(authority)}"
            )


def _rejected(header: str, value: str, why: str) -> OriginRefused:
    return OriginRefused(problems=[FieldProblem(header, why, value=shortened(value))])


def _is_probe(scope: Scope) -> bool:
    return find_endpoint(scope["method"], route_path(scope)) is HEALTH


def _how_to_allow(host: str) -> str:
    name = _name_in(host)
    if not name:
        return "if it is this gateway's, add its name to PYOCO_HTTP_ALLOWED_HOSTS"
    return f"if it is, add {shortened(name)} to the setting PYOCO_HTTP_ALLOWED_HOSTS of the gateway"


def _name_in(host: str) -> str:
    """The name without port or brackets; empty when it is invalid."""
    found = _AUTHORITY.fullmatch(host)
    return "" if found is None else (found["address"] or found["name"]).lower().removesuffix(".")


def _is_address(name: str) -> bool:
    """Addresses and `*.localhost` are not looked up in DNS."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.endswith(".localhost")
    return True
