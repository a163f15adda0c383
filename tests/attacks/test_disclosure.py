"""What a gateway reveals: keys that were sent in the wrong place, and its NATS server."""

import io
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.auth.tokens import new_token
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.run_models import RunStatus, encode
from pyoco_server.telemetry.logging_config import configure_logging
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.stored_runs import ended, write
from tests.support.offline_gateway import offline_gateway
from tests.support.running.api_keys import new_key
from tests.support.running.gateway import running_gateway
from tests.support.running.tenants import Tenant, having_tenants
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEAKED = new_token()
KEY = LEAKED.text()
SHOWN = f"pyoco_{LEAKED.key_id}_[redacted]"


def leaks(text: str) -> bool:
    """Also a part of the secret that would be enough to guess the rest."""
    return LEAKED.secret[:12] in text


@contextmanager
def logged(config: NatsBackendConfig, form: str) -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level, stream = root.handlers[:], root.level, io.StringIO()
    settings = replace(config, log_level="DEBUG", log_format=form)
    configure_logging(service="test", config=settings, stream=stream)
    try:
        yield stream
    finally:
        root.handlers[:] = before
        root.setLevel(level)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenants(shared_config: NatsBackendConfig) -> AsyncIterator[tuple[Tenant, Tenant]]:
    async with having_tenants(shared_config, "acme", "ops", operator="ops") as (acme, ops):
        yield acme, ops


# Keys in the wrong place


@pytest.mark.parametrize("form", ["json", "text"])
async def test_a_key_in_a_path_or_a_value_is_shown_by_its_id_only(
    tenants: tuple[Tenant, Tenant], form: str
) -> None:
    http, inside = tenants[1].http, tenants[1].inside
    with logged(inside.config, form) as stream:
        for endpoint in ENDPOINTS:
            path = endpoint.path.replace("{path:path}", KEY)
            for name in ("run_id", "wait_id", "worker_id", "seq", "bulk_id", "wheel_name"):
                path = path.replace(f"{{{name}}}", KEY)
            if KEY in path:
                response = await http.request(endpoint.method, path, json={})
                assert response.status_code >= 400
                assert not leaks(response.text + str(response.headers)), endpoint.route
        for path, query in (("/runs", {"status": KEY}), ("/workers", {"state": KEY}), (f"/{KEY}", {})):
            response = await http.get(path, params=query)
            assert response.status_code >= 400
            assert not leaks(response.text), path
        logging.getLogger("any").error("failed with %s", KEY, exc_info=ValueError(KEY), extra={"reason": KEY})
    text = stream.getvalue()
    assert SHOWN in text
    assert not leaks(text)


async def test_a_key_is_no_name_of_a_flow(tenants: tuple[Tenant, Tenant]) -> None:
    acme = tenants[0]
    requests: list[dict[str, Any]] = [
        {"url": "/runs", "json": {"flow_name": KEY}},
        {"url": "/runs", "json": {"flow_name": f"nightly {KEY}!"}},
        {
            "url": "/runs/yaml",
            "data": {"flow_name": KEY},
            "files": {"workflow": ("flow.yaml", b"version: 1")},
        },
    ]
    for request in requests:
        response = await acme.http.post(**request)
        assert response.status_code == 422, response.text
        [problem] = response.json()["errors"]
        assert problem["field"] == "flow_name"
        assert "without an API key" in problem["message"]
        assert not leaks(response.text)
    assert (await acme.http.post("/runs", json={"flow_name": "pyoco_0123456789abcdef"})).status_code == 200


async def test_a_stored_key_is_not_shown_in_dead_letters_and_metrics(tenants: tuple[Tenant, Tenant]) -> None:
    """Of an earlier version, or of a job that did not come from a gateway."""
    ops, inside = tenants[1], tenants[1].inside
    await eventually(lambda: inside.listing.index.ready, describe="runs are counted")
    await write(inside.runs.store, ended(RunStatus.FAILED, flow_name=KEY, tenant_id="acme"))
    letter = DeadLetter(timestamp=1.0, reason="invalid_job", error=f"bad {KEY}", flow_name=KEY)
    await inside.dead_letters.publish(letter, tag="default")
    await publish_acked(inside.connection, f"{inside.config.dlq_subject_prefix}.default", encode(letter))

    async def counted() -> str:
        page = (await ops.http.get("/metrics")).text
        return page if LEAKED.key_id in page else ""

    assert not leaks(await eventually(counted, describe="the run is counted"))
    listed = await ops.http.get("/dlq")
    assert [item["flow_name"] for item in listed.json()["items"]] == [SHOWN, SHOWN]
    assert not leaks(listed.text)
    one = await ops.http.get(f"/dlq/{listed.json()['items'][0]['seq']}")
    assert one.json()["error"] == f"bad {SHOWN}"


# Health


async def test_health_without_a_key_has_states_only(tenants: tuple[Tenant, Tenant]) -> None:
    acme = tenants[0]
    states = {
        "status": "ok",
        "nats": {"status": "connected", "ready": True},
        "storage": {"ready": True},
        "index": {"ready": True},
    }
    await eventually(lambda: acme.inside.listing.index.ready, describe="the index is ready")
    for key in ("", "wrong", KEY):
        response = await acme.http.get("/health", headers={"X-API-Key": key})
        assert (response.status_code, response.json()) == (200, states)
        assert (await acme.http.get("/health?ready=1", headers={"X-API-Key": key})).status_code == 200
    of_tenant, of_operator = [(await each.http.get("/health")).json() for each in tenants]
    assert "version" in of_tenant
    assert "detail" in of_tenant["nats"]
    assert "runs" not in of_tenant["index"]
    assert "runs" in of_operator["index"]


# The address of NATS


def names_nats(text: str, server: NatsServer) -> bool:
    port = server.url.rpartition(":")[2]
    return port in text or "127.0.0.1" in text or "nats://" in text


async def test_no_response_names_the_address_of_nats(
    config: NatsBackendConfig, own_nats: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    keyed = replace(config, nats_url=own_nats.url, http_auth_mode="api_key", http_operator_tenant="ops")
    async with running_gateway(keyed) as gateway:
        key = await new_key(gateway.inside.connection, "ops")
        await gateway.inside.authentication.keys.confirm()
        own_nats.stop()

        async def unavailable() -> bool:
            return (await gateway.http.get("/workers", headers=key.header)).status_code == 503

        await eventually(unavailable, describe="NATS is away")
        answered = [
            (await gateway.http.get(path, headers=key.header)).text for path in ("/workers", "/health")
        ]
        answered += [
            (await gateway.http.get(path)).text for path in ("/workers", "/health", "/openapi.json", "/")
        ]
        assert "NATS" in answered[0]
        for text in answered:
            assert not names_nats(text.replace(str(gateway.http.base_url), ""), own_nats)
        own_nats.start()
    assert own_nats.url in caplog.text


async def test_no_endpoint_names_it_without_keys() -> None:
    run_id = "00000000-0000-4000-8000-000000000000"
    async with offline_gateway(nats_url="nats://broker.internal:4222") as http:
        for path in (
            *("/runs", "/workers", "/dlq", "/bulk", "/metrics", "/overview", "/waits", "/wheels", "/health"),
            *(f"/runs/{run_id}", f"/runs/{run_id}/logs", f"/runs/{run_id}/explain", f"/runs/{run_id}/watch"),
        ):
            response = await http.get(path)
            assert response.status_code in (200, 503), path
            assert "broker.internal" not in response.text
            assert "4222" not in response.text
        submitted = await http.post("/runs", json={"flow_name": "f"})
        assert submitted.status_code == 503
        assert "broker.internal" not in submitted.text


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ("nats://a:4222: it is away", "it is away"),
        (
            "nats://a:4222,tls://b.example:4222: nothing answers on $JS.API.INFO",
            "nothing answers on $JS.API.INFO",
        ),
        ("[Errno 111] Connect call failed ('127.0.0.1', 4222)", "[Errno 111] Connect call failed the server"),
        ("failed ('::1', 4222, 0, 0), again", "failed the server, again"),
        ("lost [::1]:4222 and 10.0.0.7:4222", "lost the server and the server"),
        ("no route to nats.internal:4222.", "no route to the server."),
        ("refused by nats://user@broker:4222, twice", "refused by the server, twice"),
        ("no answer within 1.5 s on $KV.pyoco_runs.a", "no answer within 1.5 s on $KV.pyoco_runs.a"),
    ],
)
async def test_addresses_are_removed_from_texts(detail: str, shown: str) -> None:
    error = NatsUnavailable(detail)
    assert error.public_detail == shown
    assert detail in str(error)
    assert shown in error.sentence(public=True)
