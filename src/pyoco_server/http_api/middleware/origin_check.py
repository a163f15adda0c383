"""Protects a gateway without API keys against web pages of other sites.

A page in a browser can send requests to addresses that only this browser reaches, such as a gateway on the
same machine. Two headers that a page cannot forge reveal this:

- `Origin` (or `Sec-Fetch-Site`) is the site that sends a request. Only the dashboard may change something, or
  open a WebSocket.
- `Host` is the name that the browser connects to. With DNS rebinding, another site is "same origin" for the
  browser and could read every response; but then `Host` is the name of that site. Addresses, `localhost` and
  configured names are accepted.

Programs such as curl send neither `Origin` nor `Sec-Fetch-Site`.

Senders of hooks and workflow events know the gateway by a public name. Under the names of PYOCO_HOOK_HOSTS
they reach only the endpoints that are for them, which check a token or a signature: workflow events without a
configured token are refused there.

The probe of an orchestrator asks for `/health` by a name that the gateway does not know, such as that of a
container: it gets the states only, as callers without a key do.
"""

import ipaddress
import re
import socket
from dataclasses import replace
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.api.endpoints.system_endpoints import HEALTH
from pyoco_server.api.endpoints.triggers.workflow_event_endpoints import SEND_WORKFLOW_EVENT
from pyoco_server.errors import FieldProblem, OriginRefused, shortened
from pyoco_server.errors.error_table import Err
from pyoco_server.http_api.responses.refusals import refuse
from pyoco_server.http_api.routing import find_endpoint, method_of, route_path

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OTHER_SITES: Final = frozenset({b"cross-site", b"same-site"})
_AUTHORITY: Final = re.compile(
    r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^\[\]:/@\\?#\s]+))(?::\d*)?", re.ASCII
)
_ANY_NAME: Final = "*"
_SETTING: Final = "PYOCO_HTTP_ALLOWED_HOSTS"
_SENDERS_SETTING: Final = "PYOCO_HOOK_HOSTS"
# Accepted names are cached.
_MAX_CACHED: Final = 1000
# In the scope of a request for the health by an unknown name.
_UNKNOWN_HOST: Final = "pyoco.unknown_host"


class _UnknownHost(OriginRefused):
    """The `Host` is not a name of this gateway."""


class _UnknownSenderHost(_UnknownHost):
    """The same, of a delivery: the public name of hooks must not open everything else."""

    error = replace(
        Err.ORIGIN_REFUSED,
        cure_en="If senders of hooks or workflow events know this gateway by that name, add it to "
        "PYOCO_HOOK_HOSTS.",
        cure_ja="フックやワークフローイベントの送信元がこの名前で接続する場合は、PYOCO_HOOK_HOSTS に"
        "追加してください。",
    )


class _ForSendersOnly(_UnknownHost):
    """The name is one of PYOCO_HOOK_HOSTS, and the request is not one of a sender."""

    error = replace(
        Err.ORIGIN_REFUSED,
        cure_en="Use another name or the address of the gateway: under this one, which is public, only "
        "deliveries and workflow events with a token are served.",
        cure_ja="ゲートウェイの別の名前またはアドレスを使ってください。この名前は公開用で、フックへの配信と"
        "トークン付きのワークフローイベントだけを受け付けます。",
    )


class _TokenNotConfigured(_UnknownHost):
    """A workflow event under a public name, while no token is configured."""

    error = replace(
        Err.ORIGIN_REFUSED,
        cure_en="Set AX_WORKFLOW_EVENT_TOKEN for every gateway, and give it to the senders.",
        cure_ja="すべてのゲートウェイに AX_WORKFLOW_EVENT_TOKEN を設定し、送信元にも設定してください。",
    )


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
        return name in self._own or self.allows(host) or _is_address(name)

    def allows(self, host: str) -> bool:
        """Whether it is configured, or any name is."""
        return self._any or self.lists(host)

    def lists(self, host: str) -> bool:
        """Whether it is configured, with its port or without."""
        name = _name_in(host)
        return name in self._listed or host.lower() in self._listed or name.endswith(self._endings)


class OriginMiddleware:
    def __init__(
        self, app: ASGIApp, *, allowed_hosts: str, hook_hosts: str = "", has_event_token: bool = False
    ) -> None:
        self._app = app
        self._has_event_token = has_event_token
        self._trusted = TrustedHosts(allowed_hosts)
        self._for_senders = TrustedHosts(hook_hosts)
        self._known: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            try:
                self._check(scope)
            except _UnknownHost as error:
                if _is_probe(scope):
                    scope[_UNKNOWN_HOST] = True
                    await self._app(scope, receive, send)
                else:
                    await refuse(error, scope, receive, send)
                return
            except OriginRefused as error:
                await refuse(error, scope, receive, send)
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
            self._check_host(host, scope)
        if origin is None and site is None:
            return
        # A browser lets a page of any site open a WebSocket and read what it gets.
        if scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS:
            self._check_site(host or b"", origin, site)

    def _check_host(self, host: bytes, scope: Scope) -> None:
        text = host.decode("latin-1")
        if not self._trusted.is_own(text):
            # Not cached: other endpoints stay closed.
            self._check_sender(text, scope)
            return
        if len(self._known) < _MAX_CACHED:
            self._known.add(host)

    def _check_sender(self, host: str, scope: Scope) -> None:
        endpoint = find_endpoint(method_of(scope), route_path(scope))
        is_for_senders = endpoint is not None and endpoint.for_senders
        is_public = self._for_senders.allows(host)
        if is_for_senders and is_public:
            if endpoint is SEND_WORKFLOW_EVENT and not self._has_event_token:
                why = "under this public name (PYOCO_HOOK_HOSTS), workflow events need a token"
                raise _unknown(_TokenNotConfigured, host, f"{why}; set AX_WORKFLOW_EVENT_TOKEN")
            return
        if is_for_senders:
            why = f"this is not a name of this gateway; {_how_to_allow(host, _SENDERS_SETTING)}"
            raise _unknown(_UnknownSenderHost, host, why)
        if is_public and self._for_senders.lists(host):
            why = "under this public name (PYOCO_HOOK_HOSTS), only deliveries and workflow events are served"
            raise _unknown(_ForSendersOnly, host, f"{why}; use another name of the gateway")
        why = f"this is not a name of this gateway; {_how_to_allow(host)}"
        raise _unknown(_UnknownHost, host, why)

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


def _unknown(refused: type[_UnknownHost], host: str, why: str) -> _UnknownHost:
    return refused(problems=[FieldProblem("Host", why, value=shortened(host))])


def _rejected(header: str, value: str, why: str) -> OriginRefused:
    return OriginRefused(problems=[FieldProblem(header, why, value=shortened(value))])


def _is_probe(scope: Scope) -> bool:
    return find_endpoint(method_of(scope), route_path(scope)) is HEALTH


def _how_to_allow(host: str, setting: str = _SETTING) -> str:
    name = _name_in(host)
    if not name:
        return f"if it is this gateway's, add its name to {setting}"
    return f"if it is, add {shortened(name)} to the setting {setting} of the gateway"


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
