"""Authentication: every endpoint without a key, with an invalid key, and with each scope."""

import asyncio
import io
import json
import logging
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
import pytest_asyncio

from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.auth import api_key_cache
from pyoco_server.auth.scopes import Scope
from pyoco_server.auth.tokens import new_token
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors.error_table import Err
from pyoco_server.telemetry.logging_config import configure_logging
from tests.support.broker.nats_server import NatsServer
from tests.support.clocks import shifted_time
from tests.support.running.api_keys import Key, new_key, revoke
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.waiting import LIMIT_SEC, eventually

A_RUN = "00000000-0000-4000-8000-000000000000"

PROTECTED = {(each.method, each.path): each for each in ENDPOINTS if not each.public}


pytestmark = pytest.mark.asyncio(loop_scope="module")


def with_keys(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, http_auth_mode="api_key", http_operator_tenant="ops")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(shared_config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    async with running_gateway(with_keys(shared_config)) as running:
        yield running


async def accepted_key(gateway: RunningGateway, tenant: str = "acme", **fields: Any) -> Key:
    """A new key that the gateway has read."""
    key = await new_key(gateway.inside.connection, tenant, **fields)
    await gateway.inside.authentication.keys.confirm()
    return key


# Event streams.
ENDLESS = {"/runs/watch", "/waits/watch"}


def concrete(path: str) -> str:
    path = (
        path.replace("{run_id}", A_RUN).replace("{seq}", "1").replace("{wheel_name}", "a-1-py3-none-any.whl")
    )
    return re.sub(r"\{[a-z_]+\}", "some", path)


def problem_of(response: httpx.Response) -> tuple[str, str]:
    """Its error id and its text; those of agent requests have a form of their own."""
    body = response.json()
    if isinstance(body.get("error"), dict):
        return getattr(Err, body["error"]["code"]).err_id, body["error"]["details"]["hint"]
    return body["err_id"], body["detail"]


async def refusals(
    http: httpx.AsyncClient, headers: dict[str, str]
) -> dict[tuple[str, str], tuple[int, str]]:
    responses = {}
    for method, path in PROTECTED:
        response = await http.request(method, concrete(path), headers=headers)
        responses[method, path] = (response.status_code, problem_of(response)[0])
    return responses


async def test_every_endpoint_rejects_a_missing_an_unknown_and_a_revoked_key(gateway: RunningGateway) -> None:
    key = await accepted_key(gateway)
    assert (await gateway.http.get("/runs", headers=key.header)).status_code == 200
    await revoke(gateway.inside.connection, key)
    await refused(gateway, key)
    for headers, expected in (
        ({}, (401, "ERR-PYOCO-0014")),
        ({"X-API-Key": new_token().text()}, (403, "ERR-PYOCO-0015")),
        (key.header, (403, "ERR-PYOCO-0015")),
    ):
        assert set((await refusals(gateway.http, headers)).values()) == {expected}


async def refused(gateway: RunningGateway, key: Key) -> dict[str, Any]:
    """The problem, once the gateway refuses the key."""

    async def is_refused() -> dict[str, Any] | None:
        response = await gateway.http.get("/workers", headers=key.header)
        problem: dict[str, Any] = response.json() if response.status_code == 403 else {}
        return problem or None

    return await eventually(is_refused, describe=f"{key.key_id} is refused")


@pytest.mark.parametrize("scope", [*Scope, None])
async def test_a_key_opens_what_its_scope_is_for_and_nothing_else(
    gateway: RunningGateway, scope: Scope | None
) -> None:
    """A key without scopes opens everything."""
    # Workers are changed by keys of the operator tenant only.
    key = await accepted_key(gateway, "ops", scopes=[scope] if scope else [])
    for (method, path), endpoint in PROTECTED.items():
        if path in ENDLESS:
            continue
        response = await gateway.http.request(method, concrete(path), headers=key.header)
        if scope in endpoint.scopes or scope in (Scope.ADMIN, None):
            assert response.status_code not in (401, 403), f"{method} {path}: {response.text}"
        else:
            err_id, detail = problem_of(response)
            assert (response.status_code, err_id) == (403, "ERR-PYOCO-0032")
            assert all(f"`{expected}`" in detail for expected in endpoint.scope_names)
            assert f"has `{scope}`" in detail


async def test_a_rerun_with_params_needs_the_scope_submit_too(gateway: RunningGateway) -> None:
    """Whoever may repeat what was accepted may not run a flow with any params."""
    operator = await accepted_key(gateway, scopes=[Scope.OPERATE])
    url = f"/runs/{A_RUN}/rerun"
    response = await gateway.http.post(url, json={"params": {}}, headers=operator.header)
    problem = response.json()
    assert (response.status_code, problem["err_id"]) == (403, "ERR-PYOCO-0032")
    assert "a rerun with `params` needs the scope `submit` too" in problem["detail"]
    assert (await gateway.http.post(url, headers=operator.header)).status_code == 404
    for scopes in ([Scope.OPERATE, Scope.SUBMIT], [Scope.ADMIN], []):
        key = await accepted_key(gateway, scopes=scopes)
        assert (await gateway.http.post(url, json={"params": {}}, headers=key.header)).status_code == 404


async def test_only_keys_of_the_operator_tenant_change_workers(gateway: RunningGateway) -> None:
    """All tenants share them. Whatever its scopes: a key of another tenant may read them only."""
    for scopes in ([], [Scope.ADMIN], [Scope.WORKERS]):
        key = await accepted_key(gateway, "acme", scopes=scopes)
        for change in ({"paused": True}, {"drain": True}, {"hidden": True}):
            response = await gateway.http.patch("/workers/some", json=change, headers=key.header)
            problem = response.json()
            assert (response.status_code, problem["err_id"]) == (403, "ERR-PYOCO-0032")
            assert "needs a key of the operator tenant (PYOCO_HTTP_OPERATOR_TENANT)" in problem["detail"]
            assert f"the key {key.key_id} belongs to the tenant 'acme'" in problem["detail"]
            assert "ops" not in problem["detail"].replace("--scopes", "")
        assert (await gateway.http.get("/workers", headers=key.header)).status_code == 200
    operator = await accepted_key(gateway, "ops", scopes=[Scope.WORKERS])
    found = await gateway.http.patch("/workers/some", json={"paused": True}, headers=operator.header)
    assert found.status_code == 404


async def test_a_key_learns_what_it_may_do(gateway: RunningGateway) -> None:
    approver = await accepted_key(gateway, "acme", scopes=[Scope.ANSWER])
    access = (await gateway.http.get("/key", headers=approver.header)).json()
    assert (access["key_id"], access["tenant_id"], access["scopes"]) == (approver.key_id, "acme", ["answer"])
    assert "POST /resume" in access["endpoints"]
    assert "POST /runs/{run_id}/cancel" not in access["endpoints"]
    change = "PATCH /workers/{worker_id}"
    for tenant, scopes, allowed in (("acme", [], False), ("ops", [], True), ("ops", [Scope.OPERATE], False)):
        key = await accepted_key(gateway, tenant, scopes=scopes)
        access = (await gateway.http.get("/key", headers=key.header)).json()
        assert (change in access["endpoints"]) is allowed
        assert access["sees_all_tenants"] is (tenant == "ops")


async def test_without_an_operator_tenant_the_scope_is_enough_for_workers(config: NatsBackendConfig) -> None:
    async with running_gateway(replace(with_keys(config), http_operator_tenant="")) as gateway:
        for scopes, status in (([], 404), ([Scope.WORKERS], 404), ([Scope.OPERATE], 403)):
            key = await accepted_key(gateway, "acme", scopes=scopes)
            response = await gateway.http.patch("/workers/some", json={"paused": True}, headers=key.header)
            assert response.status_code == status, response.text


@pytest.mark.parametrize("path", ["/health", "/openapi.json"])
async def test_public_endpoints_need_no_key(gateway: RunningGateway, path: str) -> None:
    assert (await gateway.http.get(path)).status_code == 200
    assert (await gateway.http.get(path, headers={"X-API-Key": "wrong"})).status_code == 200


async def test_an_unknown_path_is_401_without_a_key_and_as_ever_with_one(
    gateway: RunningGateway,
) -> None:
    key = await accepted_key(gateway, scopes=[Scope.SUBMIT])
    assert (await gateway.http.get("/secrets")).status_code == 401
    assert (await gateway.http.put("/runs")).status_code == 401
    # A path that a route's `$` would let through is none of the table.
    assert (await gateway.http.get("/health%0A")).status_code == 401
    assert (await gateway.http.get("/secrets", headers=key.header)).status_code == 404
    put = await gateway.http.put("/runs", headers=key.header)
    assert (put.status_code, put.headers["allow"]) == (405, "GET, POST")


async def test_the_401_says_which_header_and_the_header_is_a_setting(config: NatsBackendConfig) -> None:
    async with running_gateway(replace(with_keys(config), http_api_key_header="X-Team-Key")) as gateway:
        response = await gateway.http.get("/runs")
        assert response.status_code == 401
        assert "X-Team-Key" in response.json()["detail"]
        assert 'header="X-Team-Key"' in response.headers["www-authenticate"]
        key = await accepted_key(gateway)
        response = await gateway.http.get("/runs", headers={"x-team-key": key.text})
        assert response.status_code == 200
        assert (await gateway.http.get("/runs", headers=key.header)).status_code == 401


async def test_a_key_in_the_query_is_no_key(gateway: RunningGateway) -> None:
    key = await accepted_key(gateway)
    for name in ("api_key", "X-API-Key", "key"):
        assert (await gateway.http.get("/workers", params={name: key.text})).status_code == 401


@pytest.mark.parametrize(
    "text",
    ["x", "pyoco_", "pyoco__", "Bearer x", "pyoco_0123456789abcdef_", "pyoco_*_" + "0" * 64, "é" * 200],
)
async def test_a_malformed_key_is_403(gateway: RunningGateway, text: str) -> None:
    response = await gateway.http.get("/runs", headers=[(b"X-API-Key", text.encode("latin-1"))])
    assert (response.status_code, response.json()["err_id"]) == (403, "ERR-PYOCO-0015")


async def test_white_space_around_a_key_is_not_part_of_it(gateway: RunningGateway) -> None:
    key = await accepted_key(gateway)
    url = gateway.http.base_url
    for given, status in ((f" \t {key.text} \t ", b"200"), (" \t ", b"401")):
        # Not by httpx, which sends no such header.
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(f"GET /runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key:{given}\r\n\r\n".encode())
        async with asyncio.timeout(LIMIT_SEC):
            assert (await reader.readline()).split()[1] == status
        writer.close()


async def test_a_wrong_secret_and_an_unknown_key_are_the_same_error(
    gateway: RunningGateway,
) -> None:
    key = await accepted_key(gateway)
    await revoke(gateway.inside.connection, key)
    await refused(gateway, key)
    wrong = await gateway.http.get("/runs", headers={"X-API-Key": new_token(key.key_id).text()})
    unknown = await gateway.http.get("/runs", headers={"X-API-Key": new_token().text()})
    assert wrong.json() == unknown.json()


async def test_a_request_is_rejected_before_its_body_is_read(gateway: RunningGateway) -> None:
    """A client that sends `Expect: 100-continue` gets the error and never sends the body."""
    url = gateway.http.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(
        b"POST /wheels HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000000\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\nExpect: 100-continue\r\n\r\n"
    )
    async with asyncio.timeout(LIMIT_SEC):
        assert (await reader.readline()).startswith(b"HTTP/1.1 401")
    writer.close()
    await writer.wait_closed()


async def test_a_rejected_upload_that_comes_anyway_gets_its_answer(gateway: RunningGateway) -> None:
    files = {"wheel": ("a-1-py3-none-any.whl", b"x" * 3_000_000)}
    assert (await gateway.http.post("/wheels", files=files)).status_code == 401
    assert (await gateway.http.get("/health")).status_code == 200


@pytest.mark.parametrize("path", ["/runs/watch", "/runs/{run_id}/watch", "/runs/{run_id}/logs?follow=true"])
async def test_a_stream_ends_when_its_key_is_revoked(gateway: RunningGateway, path: str) -> None:
    key, other = await accepted_key(gateway), await accepted_key(gateway)
    await eventually(lambda: gateway.inside.listing.index.ready, describe="lists can be watched")
    response = await gateway.http.post("/runs", json={"flow_name": "waits"}, headers=key.header)
    run_id = response.json()["run_id"]
    path = path.replace("{run_id}", run_id)
    async with open_stream(gateway, path, key) as watched, open_stream(gateway, path, other) as stays:
        await revoke(gateway.inside.connection, key)
        async with asyncio.timeout(LIMIT_SEC):
            async for _ in watched.aiter_bytes():
                pass
        # The stream of the other key continues.
        await gateway.http.post(f"/runs/{run_id}/cancel", headers=other.header)
        async with asyncio.timeout(LIMIT_SEC):
            await anext(text async for text in stays.aiter_text() if "CANCELLED" in text or "end" in text)


@asynccontextmanager
async def open_stream(gateway: RunningGateway, path: str, key: Key) -> AsyncIterator[httpx.Response]:
    async with gateway.http.stream("GET", path, headers=key.header) as response:
        assert response.status_code == 200
        yield response


async def test_a_stream_ends_when_its_key_expires(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = shifted_time(monkeypatch, api_key_cache)
    key = await accepted_key(gateway, expires_at=time.time() + 3600)
    await eventually(lambda: gateway.inside.listing.index.ready, describe="lists can be watched")
    await eventually(lambda: gateway.inside.waits.inbox.ready, describe="waits can be watched")
    async with (
        open_stream(gateway, "/runs/watch", key) as watched,
        open_stream(gateway, "/waits/watch", key) as inbox,
        asyncio.timeout(LIMIT_SEC),
    ):
        clock.by_sec = 3600
        for stream in (watched, inbox):
            async for _ in stream.aiter_bytes():
                pass
    assert "it has expired" in (await refused(gateway, key))["detail"]


async def test_while_nats_is_unreachable_keys_are_not_checked_but_503(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    async with running_gateway(replace(with_keys(config), nats_url=own_nats.url)) as gateway:
        key = await accepted_key(gateway)
        own_nats.stop()

        unknown = {"X-API-Key": new_token().text()}

        async def unavailable() -> bool:
            # The key may be valid.
            response = await gateway.http.get("/workers", headers=unknown)
            return response.status_code == 503 and response.json()["err_id"] == "ERR-PYOCO-0003"

        await eventually(unavailable, describe="keys cannot be checked")
        known = await gateway.http.get("/workers", headers=key.header)
        assert (known.status_code, "retry-after" in known.headers) == (503, True)
        assert (await gateway.http.get("/workers")).status_code == 401
        assert (await gateway.http.get("/health")).status_code == 200
        own_nats.start()

        async def back() -> bool:
            return (await gateway.http.get("/workers", headers=key.header)).status_code == 200

        await eventually(back, describe="the key is good again")


async def test_a_rejection_is_counted_under_its_endpoint(config: NatsBackendConfig) -> None:
    async with running_gateway(with_keys(config)) as gateway:
        await gateway.http.get(f"/runs/{A_RUN}")
        await gateway.http.get("/nowhere")
        key = await accepted_key(gateway, "ops")
        page = (await gateway.http.get("/metrics", headers=key.header)).text
    assert 'pyoco_http_requests_total{method="GET",route="/runs/{run_id}",status="401"} 1.0' in page
    assert 'pyoco_http_requests_total{method="GET",route="none",status="401"} 1.0' in page


async def test_no_key_reaches_a_log_line_or_an_answer(gateway: RunningGateway) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    logged = replace(gateway.inside.config, log_level="DEBUG")
    configure_logging(service="test", config=logged, stream=stream)
    try:
        gone, unknown = await accepted_key(gateway), Key("", new_token().text())
        await revoke(gateway.inside.connection, gone)
        good = await accepted_key(gateway, scopes=[Scope.SUBMIT])
        reported = []
        for key in (good, gone, unknown):
            for method, path in [*PROTECTED, ("GET", "/nowhere")]:
                response = await gateway.http.request(method, concrete(path), headers=key.header)
                reported.append(response.text + str(response.headers))
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    said = stream.getvalue() + "".join(reported)
    assert any(json.loads(line).get("err_id") == "ERR-PYOCO-0015" for line in stream.getvalue().splitlines())
    for key in (good, gone, unknown):
        assert key.text.rpartition("_")[2] not in said
