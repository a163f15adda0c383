"""The OpenAPI document: our records as msgspec describes them, and the plain routes FastAPI cannot see."""

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from pyoco_server.errors import Err, ErrorSpec
from pyoco_server.http_api.health import Health
from pyoco_server.http_api.problems import PROBLEM_TYPE, Problem
from pyoco_server.http_api.run_actions import CancelRequest
from pyoco_server.http_api.run_reads import RunView, TasksView
from pyoco_server.http_api.submissions import RunAccepted, RunSubmitRequest, RunSubmitYamlFields
from pyoco_server.models import RunSnapshot

_RECORDS = (
    CancelRequest,
    RunSnapshot,
    Health,
    Problem,
    RunAccepted,
    RunSubmitRequest,
    RunSubmitYamlFields,
    RunView,
    TasksView,
)
_REF = "#/components/schemas/"

_ANSWERS: dict[tuple[str, str], tuple[type, tuple[ErrorSpec, ...]]] = {
    ("/health", "get"): (Health, ()),
    ("/runs", "post"): (RunAccepted, (Err.INVALID_REQUEST, Err.WORKFLOW_TOO_LARGE, Err.NATS_UNAVAILABLE)),
    ("/runs/yaml", "post"): (
        RunAccepted,
        (Err.INVALID_REQUEST, Err.WORKFLOW_TOO_LARGE, Err.NATS_UNAVAILABLE),
    ),
    ("/runs/{run_id}", "get"): (RunView, (Err.RUN_NOT_FOUND, Err.INVALID_REQUEST, Err.NATS_UNAVAILABLE)),
    ("/runs/{run_id}/cancel", "post"): (
        RunSnapshot,
        (Err.RUN_NOT_FOUND, Err.INVALID_REQUEST, Err.NATS_UNAVAILABLE),
    ),
    ("/runs/{run_id}/tasks", "get"): (TasksView, (Err.RUN_NOT_FOUND, Err.NATS_UNAVAILABLE)),
}


def describe(app: FastAPI) -> None:
    """Have `/openapi.json` tell every endpoint with its answers and errors."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, routes=app.routes)
            _add_submissions(document["paths"])
            _add_cancel(document["paths"])
            _add_answers(document["paths"])
            _, schemas = msgspec.json.schema_components(_RECORDS, ref_template=_REF + "{name}")
            document["components"] = {"schemas": schemas}
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _add_submissions(paths: dict[str, Any]) -> None:
    json_body = {"application/json": {"schema": {"$ref": f"{_REF}RunSubmitRequest"}}}
    file_schema = {"type": "string", "format": "binary", "description": "A flow.yaml."}
    form = {
        "allOf": [
            {"$ref": f"{_REF}RunSubmitYamlFields"},
            {"type": "object", "required": ["workflow"], "properties": {"workflow": file_schema}},
        ]
    }
    paths.setdefault("/runs", {})["post"] = {
        "summary": "Submit a run of a flow that the workers know",
        "operationId": "submit_run",
        "requestBody": {"required": True, "content": json_body},
    }
    paths["/runs/yaml"] = {
        "post": {
            "summary": "Submit a flow.yaml as a run",
            "operationId": "submit_run_yaml",
            "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": form}}},
        }
    }


def _add_cancel(paths: dict[str, Any]) -> None:
    body = {"application/json": {"schema": {"$ref": f"{_REF}CancelRequest"}}}
    paths["/runs/{run_id}/cancel"]["post"]["requestBody"] = {"required": False, "content": body}


def _add_answers(paths: dict[str, Any]) -> None:
    for (path, method), (record, errors) in _ANSWERS.items():
        responses: dict[str, Any] = {
            "200": {"description": "OK", "content": _content("application/json", record.__name__)}
        }
        for spec in errors:
            description = f"{spec.err_id}: {spec.en}"
            responses[str(spec.status)] = {
                "description": description,
                "content": _content(PROBLEM_TYPE, Problem.__name__),
            }
        paths[path][method]["responses"] = responses


def _content(media_type: str, record: str) -> dict[str, Any]:
    return {media_type: {"schema": {"$ref": f"{_REF}{record}"}}}
