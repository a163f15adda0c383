"""Keeps web pages of others away from a gateway that asks for no key.

Whoever opens a page in a browser lends that page their network: it can send requests to addresses that
only this browser reaches, such as a gateway on the same machine. Two headers that a page cannot forge tell:

- `Origin` (or, where there is none, `Sec-Fetch-Site`) names the site that a request to change something
  comes from. Only our own pages may send one.
- `Host` is the name that the browser believes to talk to. A site that has its own name point at our address
  (DNS rebinding) is "same origin" for the browser, so that it could read every answer. It cannot choose the
  name we are called by: addresses, `localhost` and our own names are taken, others are not.

Programs such as curl send neither `Origin` nor `Sec-Fetch-Site`, and need nothing. With API keys all this is
not needed: no page has the key.
"""

import ipaddress
import re
import socket
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.errors import FieldProblem, OriginRefused, shortened
from pyoco_server.http_api.responses.http_problems import problem_answer

_CHANGES_NOTHING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OTHER_SITES: Final = frozenset({b"cross-site", b"same-site"})
_AUTHORITY: Final = re.compile(
    r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^\[\]:/@\\?#\s]+))(?::\d*)?", re.ASCII
)
_EVERY_NAME: Final = "*"
# The names that were let in are remembered; a caller can make up as many as it likes.
_MOST_KNOWN: Final = 1000
_HOW_TO_ALLOW: Final = "add it to PYOCO_HTTP_ALLOWED_HOSTS if it is this gateway's"


class TrustedHosts:
    """By which names this gateway may be called."""

    def __init__(self, allowed: str) -> None:
        named = {part.strip().lower() for part in allowed.split(",") if part.strip()}
        self._any = _EVERY_NAME in named
        self._endings = tuple(name[1:] for name in named if name.startswith("*."))
        self._listed = named
        self._own = {"localhost", socket.gethostname().lower()}

    def is_own(self, host: str) -> bool:
        """Whether a Host header may say this."""
        name = _name_in(host)
        return self._any or name in self._own or self.lists(host) or _is_address(name)

    def lists(self, host: str) -> bool:
        """Whether the setting names it, with its port or without."""
        name = _name_in(host)
        return name in self._listed or host.lower() in self._listed or name.endswith(self._endings)


class CheckOrigin:
    """The middleware. For a program it costs one look at the headers."""

    def __init__(self, app: ASGIApp, *, allowed_hosts: str) -> None:
        self._app = app
        self._trusted = TrustedHosts(allowed_hosts)
        self._known: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(scope)
            except OriginRefused as refusal:
                await problem_answer(Request(scope, receive), refusal)(scope, receive, send)
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
        if scope["method"] not in _CHANGES_NOTHING:
            self._check_site(host or b"", origin, site)

    def _check_host(self, host: bytes) -> None:
        text = host.decode("latin-1")
        if not self._trusted.is_own(text):
            raise _refused("Host", text, f"this gateway does not go by that name; {_HOW_TO_ALLOW}")
        if len(self._known) < _MOST_KNOWN:
            self._known.add(host)

    def _check_site(self, host: bytes, origin: bytes | None, site: bytes | None) -> None:
        if origin is None:
            if site in _OTHER_SITES:
                raise _refused(
                    "Sec-Fetch-Site", str(site, "latin-1"), "a page of another site sent this request"
                )
            return
        text = origin.decode("latin-1")
        # The scheme is not compared: a proxy may speak HTTPS in our place.
        authority = text.partition("://")[2]
        if authority.lower() != host.decode("latin-1").lower() and not self._trusted.lists(authority):
            raise _refused("Origin", text, f"a page of another site sent this request; {_HOW_TO_ALLOW}")


def _refused(header: str, value: str, why: str) -> OriginRefused:
    return OriginRefused(problems=[FieldProblem(header, why, value=shortened(value))])


def _name_in(host: str) -> str:
    """The name without its port; an IPv6 address without its brackets; empty when it is no such thing."""
    found = _AUTHORITY.fullmatch(host)
    return "" if found is None else (found["address"] or found["name"]).lower().removesuffix(".")


def _is_address(name: str) -> bool:
    """An address is not looked up, and so cannot be pointed elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.endswith(".localhost")
    return True
