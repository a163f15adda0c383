"""Serving the built dashboard, without a browser."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.routes import dashboard_routes as dashboard
from tests.support.running.gateway import RunningGateway, running_gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = '<!doctype html>\n<html lang="en">\n<script src="/static/assets/app-1a2b.js"></script></html>'


@pytest.fixture
def dashboard_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A minimal built dashboard."""
    folder = tmp_path / "built"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "assets" / "app-1a2b.js").write_text("let it = 1")
    (folder / "assets" / "app-1a2b.js.gz").write_bytes(b"small")
    (folder / "icon.svg").write_text("<svg/>")
    (tmp_path / "secret.txt").write_text("not for everybody")
    monkeypatch.setattr(dashboard, "FOLDER", folder)
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def module_gateway(shared_config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    async with running_gateway(shared_config) as running:
        yield running


@pytest.fixture
def gateway(module_gateway: RunningGateway, dashboard_folder: Path) -> RunningGateway:
    return module_gateway


async def test_the_page_is_revalidated_and_its_assets_are_cached(gateway: RunningGateway) -> None:
    page = await gateway.http.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    again = await gateway.http.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert again.status_code == 304
    script = await gateway.http.get("/static/assets/app-1a2b.js", headers={"Accept-Encoding": "identity"})
    assert script.text == "let it = 1"
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    icon = await gateway.http.get("/static/icon.svg")
    assert (icon.headers["content-type"], icon.headers["cache-control"]) == ("image/svg+xml", "no-cache")


async def test_a_compressed_file_is_served_when_accepted(gateway: RunningGateway) -> None:
    request = gateway.http.build_request("GET", "/static/assets/app-1a2b.js")
    answer = await gateway.http.send(request, stream=True)
    sent = b"".join([piece async for piece in answer.aiter_raw()])
    assert (answer.headers["content-encoding"], sent) == ("gzip", b"small")
    await answer.aclose()


async def test_no_other_file_is_served(gateway: RunningGateway) -> None:
    for path in ("nothing.js", "..%2fsecret.txt", "../secret.txt", "assets", "assets/app-1a2b.js.gz", ""):
        answer = await gateway.http.get(f"/static/{path}")
        assert answer.status_code == 404, path
        assert "not for everybody" not in answer.text, path


async def test_the_docs_are_a_screen_of_the_dashboard(gateway: RunningGateway) -> None:
    answer = await gateway.http.get("/docs")
    assert (answer.status_code, answer.headers["location"]) == (307, "./#/api")
    assert "script-src" not in answer.headers["content-security-policy"]


async def test_pages_do_not_shadow_the_api(gateway: RunningGateway) -> None:
    answer = await gateway.http.get("/runs", headers={"Accept": "text/html"})
    assert answer.json() == []


@pytest.mark.parametrize(
    ("setting", "environment", "language"),
    [
        ("ja", "C.UTF-8", "ja"),
        ("en", "ja_JP.UTF-8", "en"),
        ("auto", "ja_JP.UTF-8", "ja"),
        ("auto", "C", "en"),
    ],
)
async def test_without_accept_language_the_page_has_the_language_of_the_server(
    config: NatsBackendConfig,
    dashboard_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    environment: str,
    language: str,
) -> None:
    monkeypatch.setenv("LC_ALL", environment)
    async with running_gateway(replace(config, dashboard_lang=setting), ready=False) as gateway:
        assert f'<html lang="{language}" ' in (await gateway.http.get("/")).text


@pytest.mark.parametrize(
    ("accepted", "language"),
    [("ja", "ja"), ("ja-JP,ja;q=0.9,en;q=0.8", "ja"), ("en-US,en;q=0.9,ja;q=0.8", "en"), ("fr,de", "en")],
)
async def test_the_page_has_the_language_of_the_browser(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, accepted: str, language: str
) -> None:
    monkeypatch.setenv("LC_ALL", "C" if language == "ja" else "ja_JP.UTF-8")
    page = await gateway.http.get("/", headers={"Accept-Language": accepted})
    assert f'<html lang="{language}" ' in page.text
    assert "Accept-Language" in page.headers["Vary"]


async def test_the_page_names_the_header_of_the_key(
    config: NatsBackendConfig, dashboard_folder: Path
) -> None:
    keyed = replace(config, http_auth_mode="api_key", http_api_key_header="X-Team-Key")
    async with running_gateway(keyed, ready=False) as gateway:
        page = (await gateway.http.get("/")).text
    assert 'data-auth="api_key" data-api-key-header="X-Team-Key"' in page


async def test_without_a_built_dashboard_the_cure_is_reported(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dashboard, "FOLDER", tmp_path / "nowhere")
    answer = await gateway.http.get("/", headers={"Accept-Language": "ja"})
    assert answer.status_code == 404
    assert "`make ui`" in answer.json()["detail"]
    assert "ダッシュボード" in answer.json()["detail"]
