"""The OpenAPI document: our records as msgspec describes them, and what FastAPI cannot see of the routes."""

from types import ModuleType
from typing import Any, Final

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.openapi import access_docs as access
from pyoco_server.http_api.openapi import list_docs as lists
from pyoco_server.http_api.openapi import operation_docs as operations
from pyoco_server.http_api.openapi import overview_docs as overview
from pyoco_server.http_api.openapi import run_docs as runs
from pyoco_server.http_api.openapi import wait_docs as waits
from pyoco_server.http_api.openapi import watch_docs as watches
from pyoco_server.http_api.openapi import wheel_docs as wheels
from pyoco_server.http_api.openapi import worker_docs as workers
from pyoco_server.http_api.openapi.parts import REF, Paths, content
from pyoco_server.http_api.responses.http_problems import PROBLEM_TYPE, Problem

# Each has RECORDS, ANSWERS, and `add`, which says the rest about its endpoints.
_ROOMS: Final[tuple[ModuleType, ...]] = (runs, lists, watches, waits, operations, workers, wheels, overview)


def describe(app: FastAPI, config: NatsBackendConfig) -> None:
    """Have `/openapi.json` tell every endpoint with its answers and errors."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, config)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI, config: NatsBackendConfig) -> dict[str, Any]:
    document = get_openapi(title=app.title, version=app.version, routes=app.routes)
    paths: Paths = document["paths"]
    runs.add_plain_routes(paths)
    for room in _ROOMS:
        _add_answers(paths, room)
        room.add(paths)
    records = [Problem, *(record for room in _ROOMS for record in room.RECORDS)]
    _, schemas = msgspec.json.schema_components(records, ref_template=REF + "{name}")
    document["components"] = {"schemas": schemas}
    access.add(document, config.http_api_key_header, required=config.http_auth_mode == "api_key")
    return document


def _add_answers(paths: Paths, room: ModuleType) -> None:
    for (path, method), (record, errors) in room.ANSWERS.items():
        responses: dict[str, Any] = {
            "200": {"description": "OK", "content": content("application/json", record)}
        }
        for status in sorted({spec.status or 500 for spec in errors}):
            told = [f"{spec.err_id}: {spec.en}" for spec in errors if spec.status == status]
            responses[str(status)] = {
                "description": "; ".join(told),
                "content": content(PROBLEM_TYPE, Problem),
            }
        paths[path][method]["responses"] = responses
