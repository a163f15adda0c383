"""X-Forwarded-For: the client behind trusted proxies, and nobody that a client invents."""

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError
from pyoco_server.http_api.middleware.trusted_proxies import client_behind, networks_in
from tests.support.offline_gateway import offline_gateway

TRUSTED = networks_in("10.0.0.0/8, 192.0.2.7,fd00::/8")


@pytest.mark.parametrize(
    ("peer", "header", "client"),
    [
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.1, 192.0.2.7", "198.51.100.1"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "1.1.1.1, unknown", "10.0.0.1"),
        ("10.0.0.1", "1.1.1.1, unknown, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
        ("fd00::1", "[2001:db8::5]:80", "2001:db8::5"),
        ("::ffff:10.0.0.1", "::ffff:198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", " , ", "10.0.0.1"),
    ],
)
def test_the_right_most_untrusted_address_is_the_client(peer: str, header: str, client: str) -> None:
    assert client_behind(peer, header.split(",") if header else [], TRUSTED) == client


async def _statuses(http: httpx.AsyncClient, *addresses: str) -> list[int]:
    return [
        (await http.get("/nowhere", headers={"X-Forwarded-For": address})).status_code
        for address in addresses
    ]


async def test_clients_behind_a_trusted_proxy_have_rate_limits_of_their_own() -> None:
    limits = {"http_rate_limit": 0.1, "http_rate_limit_burst": 1}
    untrusted = offline_gateway(**limits)
    assert await _statuses(untrusted, "1.1.1.1", "2.2.2.2") == [404, 429]
    trusted = offline_gateway(**limits, http_trusted_proxies="127.0.0.0/8")
    assert await _statuses(trusted, "1.1.1.1", "2.2.2.2", "1.1.1.1") == [404, 404, 429]
    # An address in front of the real one changes nothing.
    assert await _statuses(trusted, "9.9.9.9, 2.2.2.2") == [429]


@pytest.mark.parametrize("value", ["10.0.0.0/33", "proxy.example.com", "10.0.0.1/8", ","])
def test_anything_but_networks_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="PYOCO_HTTP_TRUSTED_PROXIES"):
        NatsBackendConfig(load_dotenv=False, http_trusted_proxies=value)
