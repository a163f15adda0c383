"""Requests to the URL of a tenant: only to public addresses, and to networks that the operator allows.

A host name is resolved once, and the request goes to the address that was checked: a name that is resolved
to another address meanwhile does not help an attacker.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

import httpx

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

SETTING: Final = "PYOCO_ALERT_NETWORKS"
# IPv6 addresses that contain an IPv4 address, to which a gateway of the network translates.
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
# All IPv6 addresses that are public are of it; others contain an IPv4 address, or are of a site.
_PUBLIC_IPV6: Final = ipaddress.IPv6Network("2000::/3")


class AddressRefused(httpx.TransportError):
    """The address is not public, and not allowed."""


def allowed_networks(text: str) -> list[Network]:
    """Of the setting."""
    return [ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip()]


def literal_address(host: str) -> Address | None:
    """The address that a URL names itself; None: it has a host name."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def refusal_of(address: Address, allowed: Sequence[Network]) -> str | None:
    """Why no request goes to this address; None: it may."""
    address = _plain(address)
    if any(address.version == network.version and address in network for network in allowed):
        return None
    if _is_public(address):
        return None
    # Without the address: a tenant must not find out how names are resolved inside.
    return f"the host has no public address; an operator can allow its network with {SETTING}"


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address not in _PUBLIC_IPV6:
        return False
    return address.is_global and not address.is_multicast


def _plain(address: Address) -> Address:
    """The IPv4 address in an IPv6 one."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _TRANSLATED:
            return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


class PublicTransport(httpx.AsyncBaseTransport):
    """Sends each request to an address that was checked."""

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = allowed
        # A connection is used once: two names of one address must not share it.
        self._inner = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.raw_host.decode("ascii")
        address = await self._checked(host)
        request.extensions = {**request.extensions, "sni_hostname": host.strip("[]")}
        request.url = request.url.copy_with(host=str(address))
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _checked(self, host: str) -> Address:
        """OSError if the name is unknown, AddressRefused if all of its addresses are refused."""
        literal = literal_address(host)
        if literal is None:
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses = [ipaddress.ip_address(place[0]) for *_, place in found]
        else:
            addresses = [literal]
        refusals = [refusal_of(address, self._allowed) for address in addresses]
        accepted = [each for each, why in zip(addresses, refusals, strict=True) if why is None]
        if not accepted:
            raise AddressRefused(next(filter(None, refusals), "the host has no address"))
        return accepted[0]
