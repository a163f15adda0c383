"""Web pages of other sites cannot use a gateway without API keys."""

import socket

import httpx
import pytest

from pyoco_server.http_api.middleware.origin_check import TrustedHosts
from tests.support.offline_gateway import offline_gateway

JSON = '{"flow_name": "noop"}'
ATTACKER = "https://attacker.example"
# A valid submit that was not rejected: there is no NATS.
ACCEPTED = 503


def rejection(response: httpx.Response, header: str, value: str) -> str:
    """The message of a 403, which must name the header and its value."""
    assert response.status_code == 403, response.text
    body = response.json()
    assert body["err_id"] == "ERR-PYOCO-0033"
    (problem,) = body["errors"]
    assert (problem["field"], problem["value"]) == (header, repr(value))
    assert "PYOCO_HTTP_ALLOWED_HOSTS" in body["detail"]
    message: str = problem["message"]
    return message


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "application/json"]
)
async def test_a_page_of_another_site_submits_nothing(http: httpx.AsyncClient, content_type: str) -> None:
    headers = {"Origin": ATTACKER, "Content-Type": content_type, "Sec-Fetch-Site": "cross-site"}
    response = await http.post("/runs", content=JSON, headers=headers)
    assert "another site" in rejection(response, "Origin", ATTACKER)


@pytest.mark.parametrize("origin", ["null", "http://127.0.0.1:1", "http://localhost", "file://", "", "x"])
async def test_another_port_and_a_page_without_a_site_are_other_sites(
    http: httpx.AsyncClient, origin: str
) -> None:
    rejection(await http.post("/runs", content=JSON, headers={"Origin": origin}), "Origin", origin)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/runs/yaml"), ("POST", "/runs/x/cancel"), ("PATCH", "/workers/x"), ("DELETE", "/wheels/x")],
)
async def test_every_request_that_changes_something_is_checked(
    http: httpx.AsyncClient, method: str, path: str
) -> None:
    rejection(await http.request(method, path, headers={"Origin": ATTACKER}), "Origin", ATTACKER)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_sec_fetch_site_is_used_without_origin(http: httpx.AsyncClient, site: str) -> None:
    response = await http.post("/runs", content=JSON, headers={"Sec-Fetch-Site": site})
    rejection(response, "Sec-Fetch-Site", site)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        # `curl -d '{...}'` calls its body a form, and says nothing of an origin.
        {},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "text/plain"},
    ],
    ids=["dashboard", "typed address", "no header", "curl", "text"],
)
async def test_the_dashboard_and_programs_are_accepted(
    http: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    assert (await http.post("/runs", content=JSON, headers=headers)).status_code == ACCEPTED


@pytest.mark.parametrize("path", ["/runs", "/workers", "/metrics", "/health/", "/", "/openapi.json", "/none"])
async def test_dns_rebinding_is_rejected(http: httpx.AsyncClient, path: str) -> None:
    """For the browser, the attacker's page and this gateway are one site."""
    response = await http.get(path, headers={"Host": "rebound.attacker.example:8000"})
    assert "is not a name of this gateway" in rejection(response, "Host", "rebound.attacker.example:8000")


async def test_a_probe_by_an_unknown_name_gets_the_states_of_the_health(http: httpx.AsyncClient) -> None:
    """The name of a container, for one; a rebound page learns no more than whether the gateway is up."""
    response = await http.get("/health", headers={"Host": "gateway:8000"})
    assert response.status_code == 200
    known = (await http.get("/health")).json()
    assert known["version"]
    assert "version" not in response.json()
    assert response.json()["nats"].keys() < known["nats"].keys()
    rejection(await http.post("/health", headers={"Host": "gateway:8000"}), "Host", "gateway:8000")


async def test_a_rejected_name_comes_with_the_setting_and_the_value_to_add(http: httpx.AsyncClient) -> None:
    response = await http.get("/runs", headers={"Host": "gateway:8000"})
    message = rejection(response, "Host", "gateway:8000")
    assert message.endswith("if it is, add 'gateway' to the setting PYOCO_HTTP_ALLOWED_HOSTS of the gateway")
    assert "'gateway'" in response.json()["detail"]
    allowed = offline_gateway(http_allowed_hosts="gateway")
    assert (await allowed.get("/runs", headers={"Host": "gateway:8000"})).status_code == ACCEPTED


async def test_dns_rebinding_cannot_change_anything(http: httpx.AsyncClient) -> None:
    headers = {"Host": "rebound.example", "Origin": "http://rebound.example", "Sec-Fetch-Site": "same-origin"}
    rejection(await http.post("/runs", content=JSON, headers=headers), "Host", "rebound.example")


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000", "10.0.0.5", "dash.localhost", "localhost.",
     socket.gethostname()],
)  # fmt: skip
async def test_addresses_and_the_machine_s_own_names_are_accepted(http: httpx.AsyncClient, host: str) -> None:
    for _ in range(2):  # the second time from memory
        assert (await http.get("/health", headers={"Host": host})).status_code == 200


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


async def test_an_allowed_name_is_accepted_as_host_and_as_origin() -> None:
    """A proxy calls us by another name than the browser calls the proxy."""
    http = offline_gateway(http_allowed_hosts="pyoco.example.com")
    for headers in (
        {"Host": "pyoco.example.com", "Origin": "https://pyoco.example.com"},
        {"Origin": "https://pyoco.example.com", "Sec-Fetch-Site": "same-origin"},
    ):
        assert (await http.post("/runs", content=JSON, headers=headers)).status_code == ACCEPTED
    other = await http.get("/runs", headers={"Host": "other.example.com"})
    rejection(other, "Host", "other.example.com")


async def test_a_star_takes_every_host_but_no_other_site() -> None:
    http = offline_gateway(http_allowed_hosts="*")
    assert (await http.get("/health", headers={"Host": "any.example"})).status_code == 200
    rejection(await http.post("/runs", content=JSON, headers={"Origin": ATTACKER}), "Origin", ATTACKER)


async def test_the_public_name_of_hooks_is_refused_with_its_own_setting(http: httpx.AsyncClient) -> None:
    response = await http.post("/hooks/github", headers={"Host": "hooks.example.com"})
    assert (response.status_code, response.json()["err_id"]) == (403, "ERR-PYOCO-0033")
    [problem] = response.json()["errors"]
    assert problem["message"].endswith(
        "add 'hooks.example.com' to the setting PYOCO_HOOK_HOSTS of the gateway"
    )


@pytest.mark.parametrize("names", ["hooks.example.com", "*.example.com", "*"])
async def test_under_the_public_name_of_hooks_only_senders_are_served(names: str) -> None:
    http = offline_gateway(hook_hosts=names)
    host = {"Host": "hooks.example.com"}
    for _ in range(2):  # the second time from memory, if it were
        # There is no NATS to ask whether another gateway has just created it.
        assert (await http.post("/hooks/github", headers=host)).status_code == ACCEPTED
        for refused in (
            await http.get("/hooks", headers=host),
            await http.get("/hooks/github", headers=host),
            await http.post("/runs", content=JSON, headers=host),
            await http.get("/", headers=host),
        ):
            assert refused.status_code == 403
            # Adding a public name there would open everything.
            assert ("PYOCO_HTTP_ALLOWED_HOSTS" in refused.text) is (names == "*")
            assert ("under this public name" in refused.text) is (names != "*")


async def test_under_the_public_name_of_hooks_workflow_events_need_a_token() -> None:
    host = {"Host": "hooks.example.com"}
    without = offline_gateway(hook_hosts="hooks.example.com")
    refused = await without.post("/api/workflow-events", content="{}", headers=host)
    assert refused.status_code == 403
    assert "AX_WORKFLOW_EVENT_TOKEN" in refused.json()["detail"]
    # Under its own name it is as open as everything else.
    assert (await without.post("/api/workflow-events", content="{}")).status_code == ACCEPTED
    guarded = offline_gateway(hook_hosts="hooks.example.com", workflow_event_token="sesame")
    with_token = {**host, "x-workflow-event-token": "sesame"}
    assert (
        await guarded.post("/api/workflow-events", content="{}", headers=with_token)
    ).status_code == ACCEPTED
    other = await guarded.get("/api/workflow-events/summary?ym=2026-11", headers=with_token)
    assert other.status_code == 403


async def test_a_page_of_another_site_delivers_nothing() -> None:
    http = offline_gateway(hook_hosts="*")
    rejection(await http.post("/hooks/github", headers={"Origin": ATTACKER}), "Origin", ATTACKER)
