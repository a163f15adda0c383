"""Web pages of other sites cannot use a gateway without API keys."""

import socket
from dataclasses import replace

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.middleware.origin_check import TrustedHosts
from tests.support.running.api_keys import new_key
from tests.support.running.gateway import RunningGateway, running_gateway

JSON = '{"flow_name": "noop"}'
ATTACKER = "https://attacker.example"


def problem_of(response: httpx.Response, header: str, value: str) -> str:
    """The message of a refusal, which must name the header and its value."""
    assert response.status_code == 403, response.text
    body = response.json()
    assert body["err_id"] == "ERR-PYOCO-0033"
    (problem,) = body["errors"]
    assert (problem["field"], problem["value"]) == (header, repr(value))
    assert "PYOCO_HTTP_ALLOWED_HOSTS" in body["detail"]
    message: str = problem["message"]
    return message


def own_origin(gateway: RunningGateway) -> str:
    return str(gateway.http.base_url).rstrip("/")


async def runs_of(gateway: RunningGateway) -> int:
    return len((await gateway.http.get("/runs")).json())


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "application/json"]
)
async def test_a_page_of_another_site_submits_nothing(gateway: RunningGateway, content_type: str) -> None:
    headers = {"Origin": ATTACKER, "Content-Type": content_type, "Sec-Fetch-Site": "cross-site"}
    response = await gateway.http.post("/runs", content=JSON, headers=headers)
    assert "another site" in problem_of(response, "Origin", ATTACKER)
    assert await runs_of(gateway) == 0


@pytest.mark.parametrize("origin", ["null", "http://127.0.0.1:1", "http://localhost", "file://", "", "x"])
async def test_another_port_and_a_page_without_a_site_are_other_sites(
    gateway: RunningGateway, origin: str
) -> None:
    response = await gateway.http.post("/runs", content=JSON, headers={"Origin": origin})
    problem_of(response, "Origin", origin)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/runs/yaml"), ("POST", "/runs/x/cancel"), ("PATCH", "/workers/x"), ("DELETE", "/wheels/x")],
)
async def test_every_request_that_changes_something_is_checked(
    gateway: RunningGateway, method: str, path: str
) -> None:
    response = await gateway.http.request(method, path, headers={"Origin": ATTACKER})
    problem_of(response, "Origin", ATTACKER)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_sec_fetch_site_is_used_without_origin(gateway: RunningGateway, site: str) -> None:
    response = await gateway.http.post("/runs", content=JSON, headers={"Sec-Fetch-Site": site})
    problem_of(response, "Sec-Fetch-Site", site)


async def test_the_dashboard_and_a_typed_address_are_accepted(gateway: RunningGateway) -> None:
    for headers in (
        {"Origin": own_origin(gateway), "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ):
        assert (await gateway.http.post("/runs", content=JSON, headers=headers)).status_code == 200


@pytest.mark.parametrize("content_type", [None, "application/x-www-form-urlencoded", "text/plain"])
async def test_curl_needs_no_header(gateway: RunningGateway, content_type: str | None) -> None:
    """`curl -d '{...}'` calls its body a form, and says nothing of an origin."""
    headers = {"Content-Type": content_type} if content_type else {}
    assert (await gateway.http.post("/runs", content=JSON.encode(), headers=headers)).status_code == 200


@pytest.mark.parametrize("path", ["/runs", "/workers", "/metrics", "/health", "/", "/openapi.json", "/none"])
async def test_dns_rebinding_is_rejected(gateway: RunningGateway, path: str) -> None:
    """DNS rebinding: for the browser, the attacker's page and this gateway are one site."""
    response = await gateway.http.get(path, headers={"Host": "rebound.attacker.example:8000"})
    assert "is not a name of this gateway" in problem_of(response, "Host", "rebound.attacker.example:8000")


async def test_dns_rebinding_cannot_change_anything(gateway: RunningGateway) -> None:
    headers = {"Host": "rebound.example", "Origin": "http://rebound.example", "Sec-Fetch-Site": "same-origin"}
    problem_of(await gateway.http.post("/runs", content=JSON, headers=headers), "Host", "rebound.example")
    assert await runs_of(gateway) == 0


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000", "10.0.0.5", "dash.localhost", "localhost.",
     socket.gethostname()],
)  # fmt: skip
async def test_addresses_and_the_machine_s_own_names_are_accepted(gateway: RunningGateway, host: str) -> None:
    for _ in range(2):  # the second time from memory
        assert (await gateway.http.get("/runs", headers={"Host": host})).status_code == 200


def test_lookalike_hosts_are_rejected() -> None:
    trusted = TrustedHosts("gateway.example.com, *.inner.example")
    for host in (
        "127.0.0.1.attacker.example", "[::1].attacker.example", "localhost.attacker.example", "[localhost",
        "gateway.example.com.attacker.example", "inner.example", "evilinner.example", "", ":8000",
        "a@localhost/",
    ):  # fmt: skip
        assert not trusted.is_own(host), host
    for host in ("gateway.example.com", "GATEWAY.example.com:443", "a.inner.example", "a.b.inner.example:80"):
        assert trusted.is_own(host), host


async def test_an_allowed_name_is_accepted_as_host_and_as_origin(config: NatsBackendConfig) -> None:
    """A proxy calls us by another name than the browser calls the proxy."""
    async with running_gateway(replace(config, http_allowed_hosts="pyoco.example.com")) as gateway:
        for headers in (
            {"Host": "pyoco.example.com", "Origin": "https://pyoco.example.com"},
            {"Origin": "https://pyoco.example.com", "Sec-Fetch-Site": "same-origin"},
        ):
            response = await gateway.http.post("/runs", content=JSON, headers=headers)
            assert response.status_code == 200, response.text
        response = await gateway.http.get("/runs", headers={"Host": "other.example.com"})
        problem_of(response, "Host", "other.example.com")


async def test_a_star_takes_every_host_but_no_other_site(config: NatsBackendConfig) -> None:
    async with running_gateway(replace(config, http_allowed_hosts="*")) as gateway:
        assert (await gateway.http.get("/runs", headers={"Host": "any.example"})).status_code == 200
        response = await gateway.http.post("/runs", content=JSON, headers={"Origin": ATTACKER})
        problem_of(response, "Origin", ATTACKER)


async def test_with_keys_the_origin_is_not_checked(config: NatsBackendConfig) -> None:
    key = await new_key(config)
    async with running_gateway(replace(config, http_auth_mode="api_key")) as gateway:
        headers = {"Host": "any.example", "Origin": ATTACKER}
        assert (await gateway.http.post("/runs", content=JSON, headers=headers)).status_code == 401
        response = await gateway.http.post("/runs", content=JSON, headers={**headers, **key.header})
        assert response.status_code == 200


async def test_rejected_requests_are_counted(gateway: RunningGateway) -> None:
    await gateway.http.post("/runs", content=JSON, headers={"Origin": ATTACKER})
    page = (await gateway.http.get("/metrics")).text
    assert 'method="POST",route="none",status="403"' in page
