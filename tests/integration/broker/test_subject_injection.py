"""What a caller sends never becomes a part of a NATS subject that it should not be: not a dot, not a star."""

from typing import Any
from urllib.parse import quote

import pytest

from pyoco_server.broker.client.direct_client import DirectClient
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from tests.support.running.gateway import RunningGateway

HOSTILE = (
    *(
        "x.y",
        "*",
        ">",
        "x.>",
        "x *",
        "..",
        "../x",
        "x/y",
        "$KV.pyoco_auth.key.x",
        "x\r\nPUB y 0\r\n",
        "x\ty",
        "x\x00",
    ),
    *("%2e", "%2E%2E%2F", "é.é", "x" * 2000, " "),
)
QUERIES = ("tag", "flow", "cursor", "wheel_name", "worker_id", "status", "tenant", "id", "reason", "run_id")


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The subjects that anything was published to, and the requests to the JetStream API."""
    subjects: list[str] = []
    publish = DirectClient.try_publish

    def noting(self: DirectClient, subject: str, payload: bytes, *arguments: Any) -> bool:
        subjects.append(subject)
        if subject.startswith("$JS.API."):
            subjects.append(payload.decode())
        return publish(self, subject, payload, *arguments)

    monkeypatch.setattr(DirectClient, "try_publish", noting)
    return subjects


def operations() -> list[tuple[str, str]]:
    document = create_app(NatsBackendConfig(load_dotenv=False)).openapi()
    return [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_a_path_parameter(gateway: RunningGateway, published: list[str], hostile: str) -> None:
    for method, template in operations():
        if "{" not in template:
            continue
        parts = [quote(hostile, safe="") if part.startswith("{") else part for part in template.split("/")]
        answer = await gateway.http.request(method, "/".join(parts))
        if answer.url.path == "/":
            # The client has gone up the path itself, to the dashboard.
            continue
        assert 400 <= answer.status_code < 500, (method, template, answer.text)
    assert [subject for subject in published if names(subject, hostile)] == []


@pytest.mark.parametrize("hostile", [text for text in HOSTILE if text.strip()])
async def test_a_query_parameter_and_a_field(
    gateway: RunningGateway, published: list[str], hostile: str
) -> None:
    for path in ("/runs", "/dlq", "/workers", "/wheels/history", "/bulk", "/metrics"):
        for name in QUERIES:
            answer = await gateway.http.get(path, params={name: hostile})
            assert answer.status_code < 500, (path, name, answer.text)
    assert (await gateway.http.get("/dlq", params={"tag": hostile})).status_code == 422
    for body in (
        {"flow_name": "noop", "tag": hostile},
        {"flow_name": "noop", "tags": [hostile], "tag": hostile},
    ):
        assert (await gateway.http.post("/runs", json=body)).status_code == 422
    assert [subject for subject in published if names(subject, hostile)] == []


@pytest.mark.parametrize("key", ["x.y", "*", ">", "$KV.pyoco_auth.key.x", "%2e"])
async def test_an_idempotency_key(gateway: RunningGateway, published: list[str], key: str) -> None:
    answer = await gateway.http.post("/runs", json={"flow_name": "noop"}, headers={"Idempotency-Key": key})
    assert answer.status_code in (200, 422)
    assert [subject for subject in published if names(subject, key)] == []


def names(subject: str, hostile: str) -> bool:
    """Whether the text stands in the subject; stars and spaces by themselves also stand in our own."""
    return len(hostile) > 1 and hostile in subject
