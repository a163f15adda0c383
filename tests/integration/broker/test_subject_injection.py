"""What a caller sends never becomes a part of a NATS subject that it should not be: not a dot, not a star."""

from typing import Any
from urllib.parse import quote

import pytest

from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.broker.client.direct_client import DirectClient
from tests.support.running.gateway import RunningGateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

DOTS_AND_WILDCARDS = ("x.y", "*", ">", "x.>", "x *", "..", "../x", "x/y", "$KV.pyoco_auth.key.x")
CONTROL_CHARACTERS = ("x\r\nPUB y 0\r\n", "x\ty", "x\x00")
OTHERS = ("%2e", "%2E%2E%2F", "é.é", "x" * 2000, " ")
HOSTILE = (*DOTS_AND_WILDCARDS, *CONTROL_CHARACTERS, *OTHERS)
# The parameters that take a text.
QUERIES = {
    "/runs": ("flow", "tag", "worker", "origin", "workflow_yaml_sha256", "q", "cursor", "status"),
    "/waits": ("run_id", "flow", "tag", "task", "assignee", "cursor", "state"),
    "/dlq": ("reason", "tag", "flow", "run_id", "worker", "q", "cursor"),
    "/workers": ("state",),
    "/wheels/history": ("wheel_name",),
}


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


async def test_a_path_parameter(shared_gateway: RunningGateway, published: list[str]) -> None:
    with_parameters = [each.route.split() for each in ENDPOINTS if "{" in each.route and each.in_schema]
    for hostile in HOSTILE:
        for method, template in with_parameters:
            parts = [
                quote(hostile, safe="") if part.startswith("{") else part for part in template.split("/")
            ]
            answer = await shared_gateway.http.request(method, "/".join(parts))
            if answer.url.path == "/":
                # The client has gone up the path itself, to the dashboard.
                continue
            assert 400 <= answer.status_code < 500, (hostile, method, template, answer.text)
    assert injected(published, HOSTILE) == []


async def test_a_query_parameter_and_a_field(shared_gateway: RunningGateway, published: list[str]) -> None:
    for hostile in filter(str.strip, HOSTILE):
        for path, names in QUERIES.items():
            for name in names:
                answer = await shared_gateway.http.get(path, params={name: hostile})
                assert answer.status_code < 500, (path, name, hostile, answer.text)
        assert (await shared_gateway.http.get("/dlq", params={"tag": hostile})).status_code == 422
        for body in (
            {"flow_name": "noop", "tag": hostile},
            {"flow_name": "noop", "tags": [hostile], "tag": hostile},
        ):
            assert (await shared_gateway.http.post("/runs", json=body)).status_code == 422
    assert injected(published, HOSTILE) == []


async def test_an_idempotency_key(shared_gateway: RunningGateway, published: list[str]) -> None:
    keys = ("x.y", "*", ">", "$KV.pyoco_auth.key.x", "%2e")
    for key in keys:
        headers = {"Idempotency-Key": key}
        answer = await shared_gateway.http.post("/runs", json={"flow_name": "noop"}, headers=headers)
        assert answer.status_code in (200, 422)
    assert injected(published, keys) == []


def injected(subjects: list[str], texts: tuple[str, ...]) -> list[str]:
    """The subjects with one of these texts in them; a star or a space by itself is also in our own."""
    return [subject for subject in subjects if any(len(text) > 1 and text in subject for text in texts)]
