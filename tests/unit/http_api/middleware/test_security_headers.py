"""Security headers of every response."""

import httpx
import pytest

ALWAYS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/health", 200),
        ("/runs", 503),
        ("/openapi.json", 200),
        ("/metrics", 503),
        ("/runs/none", 404),
        ("/no", 404),
    ],
)
async def test_an_answer_of_the_api_may_do_nothing_in_a_browser(
    http: httpx.AsyncClient, path: str, status: int
) -> None:
    response = await http.get(path)
    assert response.status_code == status
    assert ALWAYS.items() <= dict(response.headers).items()
    assert response.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
    assert "script-src" not in response.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/static/app.js"])
async def test_a_page_loads_nothing_from_elsewhere_and_has_no_inline_script(
    http: httpx.AsyncClient, path: str
) -> None:
    policy = (await http.get(path)).headers["content-security-policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    for kind in ("script-src", "style-src", "connect-src", "font-src"):
        assert rules[kind] == "'self'"
    assert "unsafe" not in policy
    assert {rules[name] for name in ("frame-ancestors", "base-uri", "form-action")} == {"'none'"}


async def test_a_rejection_has_them_too(http: httpx.AsyncClient) -> None:
    response = await http.get("/runs", headers={"Host": "elsewhere.example"})
    assert response.status_code == 403
    assert ALWAYS.items() <= dict(response.headers).items()


async def test_internal_errors_have_them_too(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("broken for this test")

    monkeypatch.setattr("pyoco_server.http_api.routes.health_routes.gateway_of", broken)
    response = await http.get("/health")
    assert response.status_code == 500
    assert "broken for this test" not in response.text
    assert ALWAYS.items() <= dict(response.headers).items()
