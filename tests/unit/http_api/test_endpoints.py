"""The table of endpoints, and what follows from it: routes, scopes, 405, and the OpenAPI document."""

import re
from typing import Any

import pytest
from starlette.routing import Route, WebSocketRoute

from pyoco_server.api.endpoints.agent.request_endpoints import RESUME_REQUEST
from pyoco_server.api.endpoints.endpoint import TAGS, Endpoint
from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.api.endpoints.system_endpoints import HEALTH
from pyoco_server.api.endpoints.waits.wait_endpoints import LIST_WAITS, RESPOND, RESUME
from pyoco_server.api.endpoints.workers.worker_endpoints import PATCH_WORKER
from pyoco_server.auth.scopes import ALL_SCOPES, Scope
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.http_api.openapi import openapi_document
from pyoco_server.http_api.routing import allowed_methods, find_endpoint

PUBLIC = {"/", "/docs", "/health", "/hooks/{hook_id}", "/openapi.json", "/static/{path:path}"}
RUN_ID = "00000000-0000-4000-8000-000000000000"


def document(**settings: Any) -> dict[str, Any]:
    return openapi_document(NatsBackendConfig(load_dotenv=False, **settings))


def filled(endpoint: Endpoint) -> str:
    return re.sub(r"\{\w+(:path)?\}", lambda found: "a/b.js" if found[1] else RUN_ID, endpoint.routed_path)


def test_every_route_is_an_endpoint_of_the_table() -> None:
    app = create_app(NatsBackendConfig(load_dotenv=False))
    routes = [route for route in app.routes if isinstance(route, Route)]
    sockets = [route.path for route in app.routes if isinstance(route, WebSocketRoute)]
    assert len(routes) + len(sockets) == len(app.routes)
    assert sockets == [each.path for each in ENDPOINTS if each.websocket]
    assert {(method, route.path) for route in routes for method in route.methods or ()} == {
        (method, each.routed_path)
        for each in ENDPOINTS
        for method in (each.method, *(["HEAD"] if each.head else []))
    }


def test_the_public_endpoints() -> None:
    assert {endpoint.path for endpoint in ENDPOINTS if endpoint.public} == PUBLIC


def test_every_endpoint_is_in_a_group_of_the_reference() -> None:
    described = document()
    used = {
        tag for methods in described["paths"].values() for each in methods.values() for tag in each["tags"]
    }
    assert used == {tag["name"] for tag in described["tags"]} == set(TAGS)


@pytest.mark.parametrize("mode", ["none", "api_key"])
def test_the_document_has_every_endpoint_with_its_scopes(mode: str) -> None:
    described = document(http_auth_mode=mode, http_api_key_header="X-Team-Key")
    assert described["components"]["securitySchemes"]["ApiKey"]["name"] == "X-Team-Key"
    operations = {
        (method.upper(), path): operation
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }
    assert set(operations) == {(each.method, each.path) for each in ENDPOINTS if each.in_schema}
    for endpoint in ENDPOINTS:
        if not endpoint.in_schema:
            continue
        operation = operations[endpoint.method, endpoint.path]
        ways = operation.get("security", [])
        assert [scope for each in ways if each for scope in each["ApiKey"]] == endpoint.scope_names
        # `{}`: a gateway that does not require keys accepts requests without.
        assert ({} in ways) == (mode == "none" and not endpoint.public)
        assert endpoint.public or {"401", "403", "503"} <= set(operation["responses"])


def test_operation_ids_are_unique() -> None:
    operations = [each for methods in document()["paths"].values() for each in methods.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.route)
def test_an_endpoint_is_found_by_its_path(endpoint: Endpoint) -> None:
    assert find_endpoint(endpoint.method, filled(endpoint)) is endpoint
    assert endpoint.method in allowed_methods(filled(endpoint))


def test_other_paths_and_methods() -> None:
    assert find_endpoint("HEAD", "/health") is HEALTH
    assert find_endpoint("GET", f"/runs/{RUN_ID}/more/of/it") is None
    assert find_endpoint("GET", f"/runs/{RUN_ID}/tasks\n") is None
    assert find_endpoint("PUT", "/runs") is None
    assert allowed_methods("/health") == ["GET", "HEAD"]
    assert allowed_methods("/runs") == ["GET", "POST"]
    assert allowed_methods("/runs/yaml") == ["POST"]
    assert allowed_methods("/nothing") == []


def allowed_scopes(endpoint: Endpoint) -> list[str]:
    return [scope for scope in Scope if endpoint.allows(frozenset({scope}))]


def test_scopes_of_a_key() -> None:
    assert allowed_scopes(LIST_WAITS) == ["read", "answer", "operate", "admin"]
    assert LIST_WAITS.allows(ALL_SCOPES)
    assert not LIST_WAITS.allows(frozenset())
    assert HEALTH.allows(frozenset())


def test_an_approver_may_read_and_answer_waits_and_nothing_else() -> None:
    allowed = {each.route for each in ENDPOINTS if not each.public and each.allows(frozenset({Scope.ANSWER}))}
    assert allowed == {
        "GET /key",
        "POST /mcp",
        "GET /waits",
        "GET /waits/watch",
        "GET /waits/{wait_id}",
        "POST /waits/{wait_id}/respond",
        "POST /resume",
        "POST /api/v1/requests/{request_id}/resume",
    }


def test_who_runs_and_repairs_flows_cannot_answer_for_people() -> None:
    agent = frozenset({Scope.SUBMIT, Scope.READ, Scope.OPERATE})
    for endpoint in (RESPOND, RESUME, RESUME_REQUEST):
        assert allowed_scopes(endpoint) == ["answer", "admin"]
        assert not endpoint.allows(agent)


def test_only_the_scope_of_workers_changes_workers() -> None:
    assert allowed_scopes(PATCH_WORKER) == ["workers", "admin"]
    allowed = {
        each.route for each in ENDPOINTS if not each.public and each.allows(frozenset({Scope.WORKERS}))
    }
    assert allowed == {
        "GET /key",
        "POST /mcp",
        "GET /workers",
        "GET /workers/{worker_id}",
        "PATCH /workers/{worker_id}",
        "GET /worker-setup",
    }
