"""Who may open the WebSocket of a run: the site of a page, API keys, tenants."""

from collections.abc import AsyncIterator

import pytest
import websockets

from pyoco_server.config import NatsBackendConfig
from tests.support.agent.repository import AgentRepository
from tests.support.agent.served_repository import ServedRepository, read_events, refusal, served_config
from tests.support.running.api_keys import new_key, without_background_refreshes
from tests.support.running.tenants import Tenant, a_key, having_tenants

PATHS = ["/ws/requests/one/runs/001", "/api/v1/ws/requests/one/runs/001"]
LOG = (
    "[RUN] started run_id=001\n[PHASE] planning\n<script>alert(1)</script>\n| [PHASE] done\n[PHASE] testing\n"
)


def with_run(repository: AgentRepository) -> None:
    """A request with a run that has ended, as its files say."""
    repository.request(request_id="one")
    folder = repository.repo / "runs" / "one" / "001"
    folder.mkdir(parents=True)
    (folder / "runner.log").write_text(LOG)


@pytest.mark.parametrize("path", PATHS)
async def test_page_of_another_site_is_refused(served: ServedRepository, path: str) -> None:
    with_run(served.repository)
    url = served.socket_url(path)
    for origin in ("https://evil.example", "http://127.0.0.1:1", "null"):
        assert await refusal(url, origin=origin) == (403, "ORIGIN_REFUSED")
    own = str(served.http.base_url).rstrip("/")
    lines = [event.get("line") for event in await read_events(url, origin=own)]
    assert list(filter(None, lines)) == LOG.splitlines()
    assert (await read_events(url))[-1]["type"] == "DONE"


async def test_log_of_a_removed_run_is_that_of_its_folder(served: ServedRepository) -> None:
    """Retention removes a run with its log; runner.log is complete, and stays."""
    await served.create("one")
    await served.act("one", "enqueue")
    run_id = await served.has_run("one")
    await served.act("one", "stop")
    folder = served.repository.repo / "runs" / "one" / "001"
    folder.mkdir(parents=True)
    (folder / "runner.log").write_text(LOG)
    runs = served.gateway.inside.runs.store
    stored = await runs.get_from_leader(run_id)
    assert stored is not None
    await runs.delete(run_id, revision=stored.revision)
    events = await served.events("one")
    assert [event["line"] for event in events if event["type"] == "LOG"] == LOG.splitlines()
    # What a program prints is no phase.
    assert [event["phase"] for event in events if event["type"] == "PHASE"] == ["planning", "testing"]
    assert [event["type"] for event in events][-2:] == ["STATUS", "DONE"]


async def test_name_of_another_site_is_refused(served: ServedRepository) -> None:
    """DNS rebinding: the browser takes the page and the gateway for one site."""
    with_run(served.repository)
    url = served.socket_url(PATHS[0])
    assert await refusal(url, Host="evil.example:80") == (403, "ORIGIN_REFUSED")


async def test_unknown_run_is_refused_before_the_socket_opens(served: ServedRepository) -> None:
    with_run(served.repository)
    for path, code in (
        ("/ws/requests/nope/runs/001", "REQUEST_NOT_FOUND"),
        ("/ws/requests/one/runs/002", "RUN_NOT_FOUND"),
        ("/ws/requests/one/runs/..", "RUN_NOT_FOUND"),
        ("/ws/requests/ONE/runs/001", "REQUEST_NOT_FOUND"),
    ):
        assert await refusal(served.socket_url(path)) == (404, code)


@pytest.mark.parametrize("path", PATHS)
async def test_request_that_is_no_handshake_is_told_so(served: ServedRepository, path: str) -> None:
    with_run(served.repository)
    response = await served.http.get(path)
    assert (response.status_code, response.json()["error"]["code"]) == (426, "UPGRADE_REQUIRED")
    assert response.headers["Upgrade"] == "websocket"


@pytest.fixture
async def acme(config: NatsBackendConfig, repository: AgentRepository) -> AsyncIterator[list[Tenant]]:
    """Keys of the tenant that has the repository, and of another one."""
    with_run(repository)
    keyed = served_config(config, repository, agent_tenant="acme")
    async with having_tenants(keyed, "acme", "rival") as tenants:
        yield tenants


def url_of(tenant: Tenant, path: str = PATHS[0]) -> str:
    return str(tenant.http.base_url).replace("http", "ws", 1).rstrip("/") + path


def key_of(tenant: Tenant) -> str:
    return str(tenant.http.headers["X-API-Key"])


@pytest.mark.parametrize("path", PATHS)
async def test_socket_requires_a_key(acme: list[Tenant], path: str) -> None:
    owner, rival = acme
    url = url_of(owner, path)
    assert await refusal(url) == (401, "API_KEY_MISSING")
    assert await refusal(url, X_API_Key="pyoco_0123456789abcdef_bogus") == (403, "API_KEY_INVALID")
    assert await refusal(url, protocols=["pyoco-server", "pyoco-key.bogus"]) == (403, "API_KEY_INVALID")
    assert await refusal(url, X_API_Key=key_of(rival)) == (404, "NO_REPOSITORY")
    events = await read_events(url, additional_headers={"X-API-Key": key_of(owner)})
    assert events[-1]["type"] == "DONE"


async def test_browser_offers_the_key_as_a_protocol(acme: list[Tenant]) -> None:
    owner, _ = acme
    protocols = ["pyoco-server", f"pyoco-key.{key_of(owner)}"]
    async with websockets.connect(
        url_of(owner),
        subprotocols=protocols,  # type: ignore[arg-type]
        proxy=None,
    ) as socket:
        # The key is not in the response.
        assert socket.subprotocol == "pyoco-server"
        assert socket.response is not None
        assert key_of(owner) not in str(socket.response.headers)
        assert [message async for message in socket]


async def test_new_key_opens_a_socket_at_once(acme: list[Tenant], monkeypatch: pytest.MonkeyPatch) -> None:
    owner, _ = acme
    keys = owner.inside.authentication.keys
    without_background_refreshes(monkeypatch, keys)
    await keys.confirm()
    settings = owner.inside.config
    events = await read_events(url_of(owner), additional_headers=(await new_key(settings)).header)
    assert events[-1]["type"] == "DONE"
    protocols = ["pyoco-server", f"pyoco-key.{(await new_key(settings)).text}"]
    assert (await read_events(url_of(owner), subprotocols=protocols))[-1]["type"] == "DONE"


async def test_socket_requires_the_scope_to_read(acme: list[Tenant]) -> None:
    owner, _ = acme
    async with a_key(owner, "acme", scopes=frozenset({"wheels"})) as wheels:
        assert await refusal(url_of(owner), X_API_Key=key_of(wheels)) == (403, "SCOPE_MISSING")


async def test_other_tenants_find_no_repository(acme: list[Tenant]) -> None:
    owner, rival = acme
    assert (await owner.http.get("/api/v1/requests")).json()["items"][0]["id"] == "one"
    for path in ("/api/v1/requests", "/api/v1/requests/one", "/api/v1/requests/one/raw"):
        response = await rival.http.get(path)
        assert (response.status_code, response.json()["error"]["code"]) == (404, "NO_REPOSITORY")
        assert "one" not in response.text.replace("Start one that does", "")
    created = await rival.http.post("/api/v1/requests", json={"title": "x"})
    assert created.status_code == 404
