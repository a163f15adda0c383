"""Errors of submitting and reading a run: status, ids, field and cure."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.requests import bodies
from tests.support.broker.nats_server import NatsServer
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.settings import for_hanging_nats
from tests.support.waiting import LIMIT_SEC, eventually

GOOD_YAML = """version: 1
flow:
  graph: load
  defaults: {x: 1}
tasks:
  load: {callable: 'tests.flows.basics:load'}
"""
FILE_PART = b'--x\r\nContent-Disposition: form-data; name="workflow"; filename="f"\r\n\r\n'


def assert_problem(response: httpx.Response, status: int, number: int) -> dict[str, Any]:
    """The answer has our one shape and the ids of the given error."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert {"type", "title", "status", "detail", "instance", "err_id", "msg_id", "errors"} == set(problem)
    assert problem["status"] == status
    assert problem["err_id"] == f"ERR-PYOCO-{number:04d}"
    assert problem["msg_id"] == f"MSG-PYOCO-{number:04d}"
    assert problem["detail"].startswith(problem["title"])
    assert problem["detail"].endswith((".", "。"))
    return problem


async def no_run_exists(gateway: RunningGateway) -> bool:
    context = gateway.inside.connection.client.jetstream()
    runs = await context.stream_info(f"KV_{gateway.inside.config.runs_kv_bucket}")
    jobs = await context.stream_info(gateway.inside.config.work_stream)
    return runs.state.messages == 0 and jobs.state.messages == 0


async def test_health_reports_the_gateway_and_nats(gateway: RunningGateway) -> None:
    response = await gateway.http.get("/health")
    assert response.status_code == 200
    assert response.json()["status"] == "ok"
    assert response.json()["nats"]["status"] == "connected"
    assert response.json()["nats"]["ready"] is True


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        ({}, "flow_name", "missing"),
        ({"flow_name": 5}, "flow_name", "str"),
        ({"flow_name": ""}, "flow_name", "expected"),
        ({"flow_name": "a\nb"}, "flow_name", "expected"),
        ({"flow_name": "x" * 201}, "flow_name", "expected"),
        ({"flow_name": "f", "params": [1]}, "params", "object"),
        ({"flow_name": "f", "tag": "has.dot"}, "tag", "expected"),
        ({"flow_name": "f", "tag": "*"}, "tag", "expected"),
        ({"flow_name": "f", "tag": "f\n"}, "tag", "expected"),
        ({"flow_name": "f", "tags": "one"}, "tags", "array"),
        ({"flow_name": "f", "tags": [1]}, "tags[0]", "str"),
        ({"flow_name": "f", "tags": [""]}, "tags[0]", "length"),
        ({"flow_name": "f", "parms": {}}, "parms", "unknown"),
        ([], "", "object"),
    ],
)
async def test_an_invalid_submit_names_the_field_and_changes_nothing(
    gateway: RunningGateway, body: object, field: str, says: str
) -> None:
    problem = assert_problem(await gateway.http.post("/runs", json=body), 422, 2)
    assert problem["errors"][0]["field"] == field
    assert says in problem["errors"][0]["message"]
    assert says in problem["detail"]
    assert await no_run_exists(gateway)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"flow_name": "\xff"}',
        b'{"flow_name": "f", "params": ' + b"[" * 100_000,
        b'{"flow_name": "f", "params": {"deep": ' + b"[" * 500 + b"]" * 500 + b"}}",
        b'{"flow_name": "f", "params": {"deep": ' + b"[" * 963 + b"]" * 963 + b"}}",
    ],
)
async def test_a_body_that_is_not_json_is_rejected(gateway: RunningGateway, body: bytes) -> None:
    assert_problem(await gateway.http.post("/runs", content=body), 422, 2)
    assert await no_run_exists(gateway)


async def test_a_json_body_is_not_read_further_than_it_may_be_long(gateway: RunningGateway) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"flow_name": "f", "params": {"blob": "'
        while sent < 200 * 1024 * 1024:
            sent += 65536
            yield b"x" * 65536

    try:
        response = await gateway.http.post("/runs", content=endless())
    except (httpx.WriteError, httpx.ReadError):
        assert sent < 200 * 1024 * 1024
    else:
        assert assert_problem(response, 422, 2)["errors"][0]["field"] == "params"
    assert await no_run_exists(gateway)


async def test_a_form_field_in_a_charset_that_yields_no_unicode_is_rejected(gateway: RunningGateway) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
    body = (
        part % (b"workflow", b'; filename="f"', GOOD_YAML.encode())
        + part % (b"flow_name", b"", b"\\ud800")
        + b"--x--\r\n"
    )
    headers = {"content-type": "multipart/form-data; boundary=x; charset=unicode_escape"}
    problem = assert_problem(await gateway.http.post("/runs/yaml", content=body, headers=headers), 422, 2)
    assert problem["errors"][0]["field"] == "flow_name"


async def test_a_path_with_a_final_slash_is_unknown_and_not_redirected(gateway: RunningGateway) -> None:
    assert (await gateway.http.get("/runs/")).status_code == 404


@pytest.mark.parametrize("size", [200_000, 300_000], ids=["beside its tasks", "at all"])
async def test_params_that_would_not_fit_a_snapshot_are_rejected(gateway: RunningGateway, size: int) -> None:
    response = await gateway.http.post("/runs", json={"flow_name": "f", "params": {"blob": "x" * size}})
    problem = assert_problem(response, 422, 2)
    assert problem["errors"][0]["field"] == "params"
    assert "PYOCO_MAX_RUN_SNAPSHOT_BYTES" in problem["errors"][0]["message"]
    assert await no_run_exists(gateway)


async def test_a_job_that_the_nats_server_would_not_take_is_413_and_no_503(config: NatsBackendConfig) -> None:
    generous = replace(config, max_run_snapshot_bytes=16 * 1024**2, workflow_yaml_max_bytes=16 * 1024**2)
    async with running_gateway(generous) as gateway:
        large = "x" * 2_000_000
        for response in (
            await gateway.submit_yaml(f"{GOOD_YAML}# {large}"),
            await gateway.http.post("/runs", json={"flow_name": "f", "params": {"blob": large}}),
        ):
            detail = assert_problem(response, 413, 16)["detail"]
            assert "shorten the params or the flow.yaml, or raise max_payload" in detail
        assert await no_run_exists(gateway)


@pytest.mark.parametrize(
    "run_id", ["00000000-0000-4000-8000-000000000000", "nope", "a.b", "*", ">", "a b", "%2E%2E", "é"]
)
async def test_an_unknown_run_is_404_whatever_its_id_looks_like(gateway: RunningGateway, run_id: str) -> None:
    for path in (f"/runs/{run_id}", f"/runs/{run_id}/tasks"):
        assert_problem(await gateway.http.get(path), 404, 5)


async def test_an_unknown_include_is_rejected_with_the_known_ones(gateway: RunningGateway) -> None:
    run_id = await gateway.submit("f")
    problem = assert_problem(await gateway.http.get(f"/runs/{run_id}?include=everything"), 422, 2)
    assert problem["errors"][0]["field"] == "include[0]"
    assert problem["errors"][0]["value"] == "'everything'"
    assert "records" in problem["errors"][0]["message"]


async def test_404_and_405_are_problems(gateway: RunningGateway) -> None:
    for response, status in (
        (await gateway.http.get("/nowhere"), 404),
        (await gateway.http.delete("/runs/yaml"), 405),
    ):
        assert response.status_code == status
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["status"] == status
        assert response.json()["err_id"] is None
        assert "/openapi.json" in response.json()["detail"]


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/runs", "GET, POST"), ("/runs/yaml", "POST"), ("/workers/w1", "GET, PATCH"), ("/health", "GET, HEAD")],
)
async def test_a_405_lists_the_methods_of_the_path(gateway: RunningGateway, path: str, methods: str) -> None:
    """Also where several routes share the path."""
    response = await gateway.http.request("OPTIONS", path)
    assert (response.status_code, response.headers["allow"]) == (405, methods)


@pytest.mark.parametrize(
    ("method", "path", "title"),
    [
        ("GET", "/nowhere", "見つかりません"),
        ("DELETE", "/runs/yaml", "このメソッドは使えません"),
    ],
)
async def test_framework_errors_are_in_japanese_too(
    gateway: RunningGateway, method: str, path: str, title: str
) -> None:
    response = await gateway.http.request(method, path, headers={"Accept-Language": "ja"})
    assert response.json()["title"] == title
    assert response.headers["content-language"] == "ja"


@pytest.mark.parametrize(
    ("accept", "language"),
    [
        ("ja", "ja"),
        ("ja-JP,ja;q=0.9,en;q=0.5", "ja"),
        ("en-US,en;q=0.9,ja;q=0.8", "en"),
        ("fr", "en"),
        ("ja;q=0", "en"),
        ("ja;q=nonsense", "en"),
        ("", "en"),
    ],
)
async def test_the_language_follows_the_reader(gateway: RunningGateway, accept: str, language: str) -> None:
    response = await gateway.http.get("/runs/nope", headers={"Accept-Language": accept})
    problem = assert_problem(response, 404, 5)
    assert problem["title"] == ("runが見つかりません" if language == "ja" else "The run was not found")
    assert response.headers["content-language"] == language


async def test_a_yaml_run_is_stored_with_its_digest_and_without_its_body(gateway: RunningGateway) -> None:
    response = await gateway.submit_yaml(GOOD_YAML, tag="cpu")
    assert response.status_code == 200, response.text
    run = await gateway.get(response.json()["run_id"])
    assert run["flow_name"] == "from-yaml"
    assert run["tag"] == "cpu"
    assert run["params"] == {"x": 1}
    assert run["workflow_yaml_bytes"] == len(GOOD_YAML)
    assert len(run["workflow_yaml_sha256"]) == 64
    assert "graph" not in json.dumps(run)


@pytest.mark.parametrize(
    ("source", "field", "line"),
    [
        (GOOD_YAML.replace("graph: load", "graph: laod"), "flow.graph", 3),
        (GOOD_YAML.replace("graph: load", "graph: load >> >> load"), "flow.graph", 3),
        (GOOD_YAML + "discovery: {}\n", "discovery", 7),
        (GOOD_YAML + "flows: {}\n", "flows", 7),
        (GOOD_YAML + "surprise: 1\n", "surprise", 7),
        (GOOD_YAML.replace("callable:", "calable:"), "tasks.load", 6),
        ("version: [1\n", "", None),
    ],
)
async def test_an_invalid_flow_yaml_is_rejected_at_the_line(
    gateway: RunningGateway, source: str, field: str, line: int | None
) -> None:
    problem = assert_problem(await gateway.submit_yaml(source), 422, 2)
    assert problem["errors"][0]["field"].startswith(field)
    if line is not None:
        assert problem["errors"][0]["line"] == line
        assert problem["errors"][0]["column"] >= 1
    assert await no_run_exists(gateway)


async def test_a_form_that_lacks_something_names_it(gateway: RunningGateway) -> None:
    file = {"workflow": ("flow.yaml", GOOD_YAML)}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"files": file}, "flow_name"),
        ({"data": {"flow_name": "f"}, "files": {"wrong": ("flow.yaml", GOOD_YAML)}}, "wrong"),
        ({"data": {"flow_name": "f", "workflow": "text"}, "files": {"x": ("", b"")}}, "workflow"),
        ({"data": {"flow_name": "f", "tag": "a.b"}, "files": file}, "tag"),
        ({"data": {"flow_name": "f", "params": "{}"}, "files": file}, "params"),
        ({"json": {"flow_name": "f"}}, "multipart/form-data"),
        ({"content": b"junk", "headers": {"content-type": "multipart/form-data"}}, "multipart"),
        ({"content": b"junk", "headers": {"content-type": "multipart/form-data; boundary=x"}}, ""),
    ]
    for request, says in cases:
        problem = assert_problem(await gateway.http.post("/runs/yaml", **request), 422, 2)
        assert says in problem["detail"]
    assert await no_run_exists(gateway)


async def test_a_flow_yaml_over_the_limit_is_413_while_it_is_being_read(config: NatsBackendConfig) -> None:
    async with running_gateway(replace(config, workflow_yaml_max_bytes=2000)) as gateway:
        just_over = GOOD_YAML + "#" * 2000
        assert_problem(await gateway.submit_yaml(just_over), 413, 16)
        sent = 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal sent
            yield FILE_PART
            while sent < 200 * 1024 * 1024:
                sent += 65536
                yield b"#" * 65536

        headers = {"content-type": "multipart/form-data; boundary=x"}
        try:
            response = await gateway.http.post("/runs/yaml", content=endless(), headers=headers)
        except (httpx.WriteError, httpx.ReadError):
            assert sent < 200 * 1024 * 1024
        else:
            assert_problem(response, 413, 16)
        assert await no_run_exists(gateway)


@pytest.mark.parametrize(
    ("path", "content_type", "beginning", "status"),
    [
        ("/runs", "application/json", b'{"flow_name": "f", "params": {"blob": "', 422),
        ("/runs/yaml", "multipart/form-data; boundary=x", FILE_PART, 413),
    ],
    ids=["json", "form"],
)
async def test_a_body_that_is_too_long_is_rejected_before_all_of_it_has_come(
    gateway: RunningGateway,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    content_type: str,
    beginning: bytes,
    status: int,
) -> None:
    """The rest is never sent: who reads all of a body before it is measured has no answer."""
    monkeypatch.setattr(bodies, "_DISCARD_SEC", 0.1)
    url = gateway.http.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {10**9}\r\n\r\n"
    )
    writer.write(head.encode() + beginning + b"x" * 1_000_000)
    try:
        async with asyncio.timeout(LIMIT_SEC):
            assert (await reader.readline()).startswith(f"HTTP/1.1 {status} ".encode())
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_nats_down_is_503_and_the_gateway_recovers(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        run_id = await gateway.submit("f")
        own_nats.kill()
        for request in (
            gateway.http.build_request("POST", "/runs", json={"flow_name": "f"}),
            gateway.http.build_request("GET", f"/runs/{run_id}"),
            gateway.http.build_request("GET", f"/runs/{run_id}/tasks"),
        ):
            response = await gateway.http.send(request)
            assert_problem(response, 503, 3)
            assert response.headers["retry-after"] == "1"
        health = (await gateway.http.get("/health")).json()
        assert (health["status"], health["nats"]["ready"]) == ("ok", False)

        own_nats.start()

        async def back() -> bool:
            return (await gateway.http.post("/runs", json={"flow_name": "f"})).status_code == 200

        await eventually(back, describe="the gateway accepts runs again")
        assert (await gateway.get(run_id))["status"] == "PENDING"


async def test_an_outage_of_nats_is_one_warning(
    config: NatsBackendConfig, own_nats: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
        own_nats.kill()
        assert_problem(await gateway.http.post("/runs", json={"flow_name": "f"}), 503, 3)
    [line] = [record for record in caplog.records if record.getMessage().startswith("503 ")]
    assert (line.levelname, getattr(line, "err_id", "")) == ("WARNING", "ERR-PYOCO-0003")
    assert not hasattr(line, "exc_traceback")


async def test_nats_that_hangs_is_503(config: NatsBackendConfig, own_nats: NatsServer) -> None:
    async with running_gateway(for_hanging_nats(config, own_nats.url)) as gateway:
        with own_nats.paused():
            response = await gateway.http.post("/runs", json={"flow_name": "f"})
            assert_problem(response, 503, 3)


async def test_a_gateway_starts_without_nats_and_uses_it_when_it_comes(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    own_nats.kill()
    async with running_gateway(replace(config, nats_url=own_nats.url), ready=False) as gateway:
        assert_problem(await gateway.http.post("/runs", json={"flow_name": "f"}), 503, 3)
        own_nats.start()
        await gateway.inside.connection.wait_ready(LIMIT_SEC)
        await gateway.submit("f")


async def test_a_nats_without_jetstream_is_503_with_the_cure(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    own_nats.stop()
    own_nats.start(jetstream=False)
    async with running_gateway(replace(config, nats_url=own_nats.url), ready=False) as gateway:

        async def explained() -> bool:
            problem = assert_problem(await gateway.http.post("/runs", json={"flow_name": "f"}), 503, 3)
            return "JetStream" in problem["detail"]

        await eventually(explained, describe="the answer speaks of JetStream")


async def test_the_openapi_document_has_every_endpoint(gateway: RunningGateway) -> None:
    document = (await gateway.http.get("/openapi.json")).json()
    reported = {
        f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods
    }
    assert reported >= {
        "GET /health",
        "GET /metrics",
        "GET /runs",
        "POST /runs",
        "POST /runs/yaml",
        "GET /runs/{run_id}",
        "POST /runs/{run_id}/cancel",
        "GET /runs/{run_id}/tasks",
        "GET /runs/{run_id}/watch",
        "GET /wheels",
        "POST /wheels",
        "GET /wheels/history",
        "GET /wheels/{wheel_name}",
        "DELETE /wheels/{wheel_name}",
        "GET /workers",
        "PATCH /workers/{worker_id}",
    }
    responses = set(document["paths"]["/runs"]["post"]["responses"])
    assert responses >= {"200", "401", "403", "409", "413", "422", "503"}
    schemas = document["components"]["schemas"]
    assert "err_id" in schemas["Problem"]["properties"]
    text = json.dumps(document)
    for reference in set(part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]):
        assert reference in schemas
