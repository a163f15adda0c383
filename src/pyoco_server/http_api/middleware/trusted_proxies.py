"""The address of a client behind proxies, for rate limits and the audit log (`PYOCO_HTTP_TRUSTED_PROXIES`).

Everybody can send X-Forwarded-For, and every proxy appends the address that it saw. So the header is read
from its right end, and only as far as trusted proxies have written it: the first address that is not one of
them is the client. What is further left may be invented.
"""

import ipaddress
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxiesMiddleware:
    """Wraps every middleware that reads the address of the client."""

    def __init__(self, app: ASGIApp, *, trusted: str) -> None:
        self._app = app
        self._trusted = networks_in(trusted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and scope.get("client"):
            peer = scope["client"][0]
            client = client_behind(peer, _forwarded_for(scope), self._trusted)
            if client != peer:
                scope = {**scope, "client": (client, 0)}
        await self._app(scope, receive, send)


def networks_in(text: str) -> list[Network]:
    """The networks of a comma-separated list; ValueError for anything else."""
    return [ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip()]


def client_behind(peer: str, forwarded_for: Sequence[str], trusted: Sequence[Network]) -> str:
    """The right-most address that is not a trusted proxy; the left-most one if all are."""
    client = peer
    for forwarded in reversed(forwarded_for):
        if not _is_in(client, trusted):
            return client
        address = _address(forwarded)
        if address is None:
            # A trusted proxy does not say who is behind it.
            return client
        client = str(address)
    return client


def _is_in(client: str, networks: Sequence[Network]) -> bool:
    address = _address(client)
    return address is not None and any(address in network for network in networks)


def _address(text: str) -> Address | None:
    """An address as in the header, perhaps with a port; IPv4 within IPv6 is IPv4."""
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


def _forwarded_for(scope: Scope) -> list[str]:
    values = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    return ",".join(values).split(",") if values else []
