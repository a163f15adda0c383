"""Every endpoint of the OpenAPI document, asked by one tenant about what another has: it learns nothing.

The requests are made from the document: an endpoint that is added is tested without anybody thinking of it.
One that needs more than its path to be asked fails here until it is in one of the small tables below.
"""

import re
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import pytest_asyncio
from msgspec import structs

from pyoco_server.api.endpoints.endpoint import is_agent_path
from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.broker.client.direct_client import DirectClient
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.stores.runs.run_object_store import RunObjects
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors.error_table import Err
from pyoco_server.http_api.middleware import authentication
from pyoco_server.http_api.openapi import openapi_document
from pyoco_server.http_api.responses import not_found_delay
from pyoco_server.records.runs.artifact_models import object_name
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.schedules.schedule_models import StartedRun, schedule_key
from pyoco_server.schedules.schedule_transitions import with_backfill
from pyoco_server.triggers.secret_keys import new_key
from tests.support.agent.repository import AgentRepository
from tests.support.agent.served_repository import served_config
from tests.support.broker.stored_runs import ended, write
from tests.support.broker.stored_waits import a_wait
from tests.support.broker.worker_records import a_record, put_record
from tests.support.running.tenants import Tenant, having_tenants
from tests.support.samples.wheel_uploads import upload
from tests.support.samples.wheels import wheel_bytes
from tests.support.waiting import NEVER_SEC, eventually

# In all that acme has and rival must not see.
MARK = "acmes-secret"
YAML = "version: 1\nflow: {graph: hello}\ntasks:\n  hello: {callable: 'greetings:hello'}\n"


@dataclass
class World:
    acme: Tenant
    rival: Tenant
    # Where a list is watched from: before there was anything.
    beginning: str = ""
    # What acme has, by the parameter that names it.
    owned: dict[str, str] = field(default_factory=dict)
    run_ids: list[str] = field(default_factory=list)

    @property
    def secrets(self) -> list[str]:
        """What must not be in an answer to rival."""
        return [MARK, "acme", self.acme.api_key_id, self.owned["bulk_id"], *self.run_ids]

    def leaks(self, response: httpx.Response) -> list[str]:
        reported = response.text + str(response.headers)
        return [secret for secret in self.secrets if secret in reported]

    async def written(self) -> list[tuple[int, int]]:
        """All that is stored for tenants: if nothing is written or removed, nothing has changed."""
        connection = self.acme.inside.connection
        config = connection.config
        streams = [
            *(
                f"KV_{bucket}"
                for bucket in (
                    config.runs_kv_bucket,
                    config.bulk_kv_bucket,
                    config.waits_kv_bucket,
                    config.schedules_kv_bucket,
                    config.signals_kv_bucket,
                    config.triggers_kv_bucket,
                    config.receipts_kv_bucket,
                    config.event_retries_kv_bucket,
                    config.requests_kv_bucket,
                    config.views_kv_bucket,
                    config.alerts_kv_bucket,
                )
            ),
            *(config.work_stream, config.dlq_stream, config.journal_stream, config.run_log_stream),
            *(config.wait_event_stream, config.run_object_stream),
        ]
        states = [await stream_state(connection, stream) for stream in streams]
        return [(state.last_sequence, state.messages) for state in states]


# Objects that belong to a tenant, with an unknown id; `_fill` creates one of acme.
OWNED = {
    "run_id": "00000000-0000-4000-8000-000000000000",
    "seq": "987654",
    "bulk_id": "00000000-0000-4000-8000-000000000001",
    "wait_id": "00000000-0000-4000-8000-000000000000.0123456789abcdef",
    "schedule_id": "unknown",
    "hook_id": "unknown",
    "template_id": "unknown",
    "key": "unknown",
    "request_id": "unknown",
    "view_name": "unknown",
    "alert_id": "unknown",
}
# The proof is the sender's own, and no key of a tenant (tests/integration/triggers/test_hooks.py).
FOR_SENDERS = {("POST", "/hooks/{hook_id}")}
# Headers that differ between any two responses.
VARYING = {"date", "content-length", "x-request-id"}
# What a PUT creates.
CREATED = {"key": "own", "view_name": "own", "alert_id": "own"}
# Where it is named in the body.
NAMED_IN_BODY = {("POST", "/resume"): ("runId", "run_id")}
# Shared by all tenants, without anything of acme.
SHARED = {
    "name": "go",
    "task": "noop",
    "delivery_id": "1",
    "worker_id": "w1",
    "flow_name": "served-flow",
    "wheel_name": "greetings-0.1.0-py3-none-any.whl",
    "backfill_id": "0123456789abcdef",
    "run_number": "001",
}
# Parameters with which an endpoint returns as much as possible, and ends.
QUERIES: dict[tuple[str, str], Callable[[World], dict[str, str]]] = {
    ("GET", "/runs"): lambda world: {"include": "full", "total": "true"},
    ("GET", "/runs/watch"): lambda world: {"after": world.beginning, "timeout_sec": "1"},
    ("GET", "/runs/{run_id}/watch"): lambda world: {"timeout_sec": "1"},
    ("GET", "/waits/watch"): lambda world: {"timeout_sec": "1"},
    ("GET", "/api/workflow-events/summary"): lambda world: {"ym": "2026-01"},
    # What was refused to rival names what rival has asked for.
    ("GET", "/audit"): lambda world: {"outcome": "accepted", "limit": "200"},
}
# The run is found, and has not ended.
WITHOUT_RESULT = {"/runs/{run_id}/result", "/runs/{run_id}/tasks/{task}/output"}
# Valid requests that are refused for another reason: there is no webhook.
REFUSED = {("POST", "/api/workflow-events/notification-settings/test"): 400}
_EVERYTHING: dict[str, Any] = {"json": {"expected_count": 1000}}
# Not due while the tests run, at whatever time of the day that is.
_NIGHTLY: dict[str, Any] = {"cron": [f"0 {(datetime.now(UTC).hour + 12) % 24} * * *"]}
# At an address that is refused.
_CHANNELS: dict[str, Any] = {"channels": [{"name": "ops", "kind": "slack", "url": "http://localhost:9/x"}]}
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/runs"): {"json": {"flow_name": "noop"}, "headers": {"Idempotency-Key": "nightly"}},
    ("POST", "/runs/yaml"): {
        "files": {"workflow": ("flow.yaml", YAML)},
        "data": {"flow_name": "noop"},
        "headers": {"Idempotency-Key": "nightly-yaml"},
    },
    ("POST", "/waits/{wait_id}/respond"): {"json": {"payload": 1}},
    ("POST", "/waits/{wait_id}/withdraw"): {"json": {"reason": "no"}},
    ("POST", "/waits/{wait_id}/extend"): {"json": {"deadline_at": 4e9}},
    ("POST", "/waits/{wait_id}/reassign"): {"json": {"assignees": ["bob"]}},
    ("POST", "/resume"): {"json": {"payload": 1}},
    ("POST", "/schedules"): {"json": {"schedule_id": "own", "flow_name": "noop", "spec": _NIGHTLY}},
    ("POST", "/schedules/preview"): {"json": {"spec": _NIGHTLY}},
    ("PATCH", "/schedules/{schedule_id}"): {"json": {"note": "changed"}},
    ("POST", "/schedules/{schedule_id}/backfill"): {"json": {"from": "2026-01-01", "to": "2026-01-02"}},
    ("POST", "/runs/{run_id}/signals/{name}"): {"json": {"of": MARK}},
    ("POST", "/events"): {"json": {"name": "go", "data": 1}},
    ("POST", "/api/workflow-events"): {"json": {"template_id": "own", "year": 2026, "month": 1}},
    ("POST", "/api/workflow-events/notification-settings"): {"json": {"webhook_url": ""}},
    ("POST", "/api/workflow-templates"): {"json": {"name": "Another", "steps": [{"action": "a"}]}},
    ("PUT", "/api/workflow-actions/{key}"): {"json": {"flow_name": "noop"}},
    ("PUT", "/views/{view_name}"): {"json": {"filter": {"flow": "noop"}}},
    ("POST", "/hooks"): {"json": {"hook_id": "own", "kind": "token", "flow_name": "noop"}},
    ("PATCH", "/hooks/{hook_id}"): {"json": {"note": "changed"}},
    ("POST", "/hooks/{hook_id}/test"): {"json": {"body": {}}},
    ("PUT", "/alerts/{alert_id}"): {"json": {"condition": "run_failed", "flow_name": "noop", **_CHANNELS}},
    ("POST", "/alerts/check"): {"json": {"condition": "run_failed", "flow_name": "noop"}},
    ("POST", "/api/v1/requests"): {"json": {"title": "Another"}},
    ("PATCH", "/api/v1/requests/{request_id}"): {"json": {"title": "changed"}},
    ("POST", "/api/v1/requests/{request_id}/resume"): {"json": {"answer": {"text": "yes"}}},
    ("POST", "/bulk/cancel"): _EVERYTHING,
    ("POST", "/bulk/rerun"): _EVERYTHING,
    ("POST", "/dlq/replay"): _EVERYTHING,
    ("POST", "/dlq/delete"): _EVERYTHING,
    ("POST", "/wheels"): {
        "files": {"wheel": ("others-0.1.0-py3-none-any.whl", wheel_bytes("others", "0.1.0"))}
    },
    ("PATCH", "/workers/{worker_id}"): {"json": {"hidden": False}},
    ("POST", "/mcp"): {
        "json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_runs"}},
        "headers": {"Accept": "application/json"},
    },
}
# Where acme itself sees its objects: otherwise the test would prove nothing.
TELLING = {
    ("GET", "/runs"),
    ("GET", "/runs/watch"),
    ("GET", "/waits"),
    ("GET", "/waits/watch"),
    ("GET", "/schedules"),
    ("GET", "/hooks"),
    ("GET", "/alerts"),
    ("GET", "/api/workflow-events/summary"),
    ("GET", "/api/workflow-templates"),
    ("GET", "/api/workflow-actions"),
    ("GET", "/views"),
    ("GET", "/dlq"),
    ("GET", "/bulk"),
    ("GET", "/metrics"),
    ("GET", "/overview"),
    ("GET", "/workers"),
    ("GET", "/workers/{worker_id}"),
    ("GET", "/wheels/history"),
    ("POST", "/mcp"),
}


def operations() -> list[tuple[str, str]]:
    document = openapi_document(NatsBackendConfig(load_dotenv=False))
    return [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]


def parameters(path: str) -> list[str]:
    return re.findall(r"\{(\w+)", path)


def names_in(method: str, path: str) -> list[str]:
    """What the request names: in its path, or in its body."""
    _, in_body = NAMED_IN_BODY.get((method, path), (None, None))
    return parameters(path) if in_body is None else [in_body]


def _removes_last(operation: tuple[str, str]) -> tuple[int, int]:
    """Requests that read come first, and those that delete come last: an object after what it has."""
    method, path = operation
    return ("GET", "POST", "PUT", "PATCH", "DELETE").index(method), -path.count("/")


OK = {(each.method, each.path): each.status for each in ENDPOINTS}
OPERATORS_ONLY = {(each.method, each.path) for each in ENDPOINTS if each.operators_only}
OPERATIONS = sorted((each for each in operations() if each not in FOR_SENDERS), key=_removes_last)
# Of the repository that the gateway serves, which belongs to acme.
OF_REPOSITORY = [each for each in OPERATIONS if is_agent_path(each[1])]
OF_OTHERS = [each for each in OPERATIONS if each not in OF_REPOSITORY]
OF_TENANTS = [each for each in OF_OTHERS if set(names_in(*each)) & set(OWNED) and each[0] != "PUT"]
OF_ALL = [each for each in OF_OTHERS if each not in OF_TENANTS]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(
    shared_config: NatsBackendConfig, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    repository = AgentRepository(tmp_path_factory.mktemp("repository"))
    config = served_config(shared_config, repository, agent_tenant="acme", secrets_keys=new_key())
    async with having_tenants(config, "acme", "rival") as (acme, rival):
        world = World(acme, rival)
        # Its test writes to idle streams would count as writes of a request.
        world.acme.inside.storage._idle_sec = NEVER_SEC
        world.beginning = (await acme.http.get("/runs")).headers["X-Pyoco-Revision"]
        await _fill(world)
        yield world


async def _fill(world: World) -> None:
    """Acme has everything that a tenant can have; what all share has served acme last."""
    acme, inside = world.acme, world.acme.inside
    fields: dict[str, Any] = {"flow_name": f"{MARK}-flow", "params": {"of": f"{MARK}-param"}}
    opened: list[str] = []
    for key in ("nightly", "nightly-yaml"):
        run = {**fields, "tag": f"{MARK}-tag"}
        response = await acme.http.post("/runs", json=run, headers={"Idempotency-Key": key})
        opened.append(response.json()["run_id"])
    open_run = opened[0]
    failed = ended(RunStatus.FAILED, tenant_id="acme", api_key_id=acme.api_key_id, **fields)
    world.run_ids = [*opened, *await write(inside.runs.store, failed)]
    await inside.runs.logs.publish(open_run, [LogLine(ts=1.0, stream="stdout", text=f"{MARK}-line")])
    objects, content = RunObjects(inside.connection), _blocks(MARK.encode())
    await objects.put(f"{MARK}-tag", open_run, object_name(SHARED["name"]), content)
    letter = DeadLetter(
        timestamp=1.0, reason="timeout", error=MARK, run_id=failed.run_id, flow_name=MARK, tenant_id="acme"
    )
    await inside.dead_letters.publish(letter, tag="default")
    bulk = await acme.http.post(
        "/bulk/cancel", params={"q": f"{MARK}-nothing"}, json={"expected_count": 0, "reason": MARK}
    )
    bulk_id = bulk.json()["operation"]["bulk_id"]

    async def bulk_is_done() -> bool:
        return bool((await acme.json(f"/bulk/{bulk_id}"))["state"] == "COMPLETED")

    await eventually(bulk_is_done, describe="the bulk operation has ended")
    wait = a_wait(open_run, f"{MARK}-wait", tenant_id="acme", flow_name=MARK, message=MARK)
    await inside.waits.store.create(wait)
    schedule = {"schedule_id": f"{MARK}-nightly", **fields, "spec": _NIGHTLY, "note": MARK}
    assert (await acme.http.post("/schedules", json=schedule)).status_code == 201
    await _add_backfill(world, schedule["schedule_id"], open_run)
    hook = {"hook_id": f"{MARK}-hook", "kind": "token", **fields, "note": MARK}
    await _fill_hook(world, hook)
    await _fill_workflow_events(world)
    view = f"{MARK}-view"
    assert (await acme.http.put(f"/views/{view}", json={"filter": {"q": MARK}})).status_code == 200
    alert = {"condition": "run_failed", "flow_name": MARK, "note": MARK, **_CHANNELS}
    assert (await acme.http.put(f"/alerts/{MARK}-alert", json=alert)).status_code == 200
    request = {"title": MARK, "id": f"{MARK}-request", "want": {"text": MARK}}
    if inside.agent_requests is not None:
        assert (await acme.http.post("/api/v1/requests", json=request)).status_code == 201
    world.owned = {
        "request_id": f"{MARK}-request",
        "view_name": view,
        "alert_id": f"{MARK}-alert",
        "template_id": f"{MARK}-template",
        "key": f"{MARK}-action",
        "schedule_id": schedule["schedule_id"],
        "hook_id": hook["hook_id"],
        "run_id": open_run,
        "seq": "1",
        "bulk_id": bulk_id,
        "wait_id": wait.wait_id,
    }
    record = a_record(
        SHARED["worker_id"],
        seen_at=4e9,
        current_run_id=open_run,
        current_run_ids=[open_run],
        last_run_id=failed.run_id,
        flows=[SHARED["flow_name"]],
    )
    await put_record(inside.connection, record)
    assert (await upload(acme)).status_code == 200


async def _blocks(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def _add_backfill(world: World, schedule_id: str, open_run: str) -> None:
    """With the id that the requests name; it waits for the open run, and starts nothing meanwhile."""
    store = world.acme.inside.schedules.store
    stored = await store.get_from_leader(schedule_key("acme", schedule_id))
    assert stored is not None
    record = structs.replace(stored.record, running=[StartedRun(run_id=open_run, scheduled_for=1.0)])
    now = record.created_at
    added = with_backfill(
        record, now=now, backfill_id=SHARED["backfill_id"], from_at=now - 7 * 86_400, to_at=now
    )
    await store.replace(added, revision=stored.revision)


async def _fill_hook(world: World, hook: dict[str, Any]) -> None:
    """Acme has a hook with one delivery."""
    http, path = world.acme.http, f"/hooks/{hook['hook_id']}"
    created = await http.post("/hooks", json=hook)
    assert created.status_code == 201
    sent = await http.post(path, json={"of": MARK}, headers={"X-Hook-Token": created.json()["secret"]})
    assert sent.status_code == 202
    world.run_ids.append(sent.json()["run_id"])

    async def is_kept() -> bool:
        return bool((await http.get(f"{path}/deliveries")).json()["items"])

    await eventually(is_kept, describe="the delivery is kept")


async def _fill_workflow_events(world: World) -> None:
    """Acme has had an event; rival has a template and an action of its own."""
    for tenant, name, action in (
        (world.acme, f"{MARK}-template", f"{MARK}-action"),
        (world.rival, "own", "own"),
    ):
        http = tenant.http
        binding = {"flow_name": "noop", "params": {"of": name}}
        assert (await http.put(f"/api/workflow-actions/{action}", json=binding)).status_code == 200
        step = {"action": action, "trigger_kind": "external_event"}
        template = {"id": name, "name": name, "steps": [step]}
        assert (await http.post("/api/workflow-templates", json=template)).status_code == 200
    event = {"template_id": f"{MARK}-template", "year": 2026, "month": 1, "idempotency_key": "acme-1"}
    answer = await world.acme.http.post("/api/workflow-events", json=event)
    assert answer.status_code == 200
    world.run_ids.append(answer.json()["run_id"])


async def ask(tenant: Tenant, world: World, method: str, path: str, names: dict[str, str]) -> httpx.Response:
    query = QUERIES[method, path](world) if (method, path) in QUERIES else {}
    filled = path.format_map({**SHARED, **CREATED, **names})
    body = BODIES.get((method, path), {})
    if (method, path) in NAMED_IN_BODY:
        field, name = NAMED_IN_BODY[method, path]
        body = {"json": {**body["json"], field: names[name]}}
    return await tenant.http.request(method, filled, params=query, **body)


def test_every_path_parameter_is_described() -> None:
    """A tenant's own or something that all share: put it into OWNED, with an object in `_fill`, or SHARED."""
    named = {name for _, path in operations() for name in parameters(path)}
    assert named == {*OWNED, *SHARED}


def test_the_tables_have_no_endpoint_that_does_not_exist() -> None:
    assert {*QUERIES, *BODIES, *TELLING, *NAMED_IN_BODY} <= set(operations())


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("method", "path"), OF_TENANTS)
async def test_objects_of_another_tenant_are_404(
    method: str, path: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, waits = _noted_requests(monkeypatch), _noted_waits(monkeypatch)
    [name] = (each for each in names_in(method, path) if each in OWNED)
    before = await world.written()
    foreign = await ask(world.rival, world, method, path, world.owned)
    of_foreign = _about_it(asked, world.owned[name])
    asked.clear()
    unknown = await ask(world.rival, world, method, path, OWNED)
    of_unknown = _about_it(asked, OWNED[name])
    assert foreign.status_code == unknown.status_code == 404
    assert of_foreign == of_unknown != []
    assert len(waits) == 2
    assert foreign.text.replace(world.owned[name], "?") == unknown.text.replace(OWNED[name], "?")
    assert _told_beside(foreign) == _told_beside(unknown)
    assert await world.written() == before


@pytest.mark.asyncio(loop_scope="module")
async def test_artifacts_are_those_of_their_tenant(world: World) -> None:
    path = f"/runs/{world.owned['run_id']}/artifacts"
    assert [each["name"] for each in (await world.acme.json(path))["artifacts"]] == [SHARED["name"]]
    assert (await world.acme.http.get(f"{path}/{SHARED['name']}")).text == MARK


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("method", "path"), OF_REPOSITORY)
async def test_repository_of_another_tenant_does_not_exist(method: str, path: str, world: World) -> None:
    before = (await world.acme.http.get("/api/v1/requests")).json(), await world.written()
    foreign = await ask(world.rival, world, method, path, world.owned)
    unknown = await ask(world.rival, world, method, path, OWNED)
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.json()["error"]["code"] == "NO_REPOSITORY"
    assert foreign.text == unknown.text
    assert _told_beside(foreign) == _told_beside(unknown)
    assert world.leaks(foreign) == []
    assert ((await world.acme.http.get("/api/v1/requests")).json(), await world.written()) == before
    own = await world.acme.http.get(f"/api/v1/requests/{world.owned['request_id']}")
    assert MARK in own.text


@pytest.mark.asyncio(loop_scope="module")
async def test_deleted_objects_of_another_tenant_are_404(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deleted run leaves a marker in the bucket, which must not be visible."""
    asked = _noted_requests(monkeypatch)
    runs = world.acme.inside.runs.store
    [run_id] = await write(runs, ended(RunStatus.FAILED, tenant_id="acme"))
    stored = await runs.get_from_leader(run_id)
    assert stored is not None
    await runs.delete(run_id, revision=stored.revision)
    method, path = "GET", "/runs/{run_id}"
    removed = await ask(world.rival, world, method, path, {"run_id": run_id})
    of_removed = _about_it(asked, run_id)
    asked.clear()
    unknown = await ask(world.rival, world, method, path, OWNED)
    assert removed.status_code == unknown.status_code == 404
    assert of_removed == _about_it(asked, OWNED["run_id"]) != []


def _noted_requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes]]:
    """Subjects and payloads of all requests to NATS that one HTTP request causes."""
    noted: list[tuple[str, bytes]] = []
    # Tasks that a request starts inherit it.
    of_request = ContextVar("of_request", default=False)
    arrive, publish = not_found_delay.note_arrival, DirectClient.try_publish

    def marking(scope: Any) -> None:
        of_request.set(True)
        arrive(scope)

    def noting(client: DirectClient, subject: str, payload: bytes, *args: Any) -> bool:
        if of_request.get():
            noted.append((subject, payload))
        return publish(client, subject, payload, *args)

    monkeypatch.setattr(authentication, "note_arrival", marking)
    monkeypatch.setattr(DirectClient, "try_publish", noting)
    return noted


def _about_it(requests: list[tuple[str, bytes]], it: str) -> list[tuple[str, bytes]]:
    """The same, whatever it was that they asked for.

    Without entries of the audit log: they are the caller's own, and have ids of their own.
    """
    return [
        (subject.replace(it, "?"), payload.replace(it.encode(), b"?"))
        for subject, payload in requests
        if not subject.startswith("pyoco.audit_log.rival.")
    ]


def _noted_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The moments that answers were held back to."""
    noted: list[float] = []
    sleep_until = not_found_delay._sleep_until

    def noting(due: float) -> None:
        noted.append(due)
        sleep_until(due)

    monkeypatch.setattr(not_found_delay, "_sleep_until", noting)
    return noted


def _told_beside(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name not in VARYING}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("method", "path"), OF_ALL)
async def test_nothing_of_another_tenant_is_shown_or_changed(method: str, path: str, world: World) -> None:
    before = await _what_acme_sees(world)
    response = await ask(world.rival, world, method, path, {})
    # What all tenants use is changed by the operator tenant only.
    expected = 403 if (method, path) in OPERATORS_ONLY else REFUSED.get((method, path), OK[method, path])
    assert response.status_code == expected, response.text
    assert world.leaks(response) == []
    assert await _what_acme_sees(world) == before
    if (method, path) in TELLING:
        assert world.leaks(await ask(world.acme, world, method, path, {})) != []


async def _what_acme_sees(world: World) -> list[Any]:
    owned = world.owned
    paths = [f"/runs/{run_id}" for run_id in world.run_ids]
    paths += [f"/bulk/{owned['bulk_id']}", f"/dlq/{owned['seq']}", "/runs", "/dlq", "/bulk"]
    paths += [f"/waits/{owned['wait_id']}", "/waits"]
    paths += [f"/schedules/{owned['schedule_id']}", "/schedules"]
    paths += [f"/api/workflow-templates/{owned['template_id']}", f"/api/workflow-actions/{owned['key']}"]
    paths += ["/api/workflow-templates", "/api/workflow-actions", "/api/workflow-events/summary?ym=2026-01"]
    return [(await world.acme.http.get(path)).json() for path in paths]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_tenant_reaches_its_own_objects(config: NatsBackendConfig) -> None:
    """Otherwise the tests above would prove nothing."""
    keyed = replace(config, secrets_keys=new_key())
    async with having_tenants(keyed, "acme", "rival") as (acme, rival):
        world = World(acme, rival)
        await _fill(world)
        for method, path in OF_TENANTS:
            own = await ask(acme, world, method, path, world.owned)
            if path in WITHOUT_RESULT:
                assert own.json()["err_id"] == Err.RESULT_NOT_FOUND.err_id, f"{method} {path}: {own.text}"
            else:
                assert own.status_code not in (404, 422), f"{method} {path}: {own.text}"
