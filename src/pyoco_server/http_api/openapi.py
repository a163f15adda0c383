"""The OpenAPI document: our records as msgspec describes them, and the plain routes FastAPI cannot see."""

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from pyoco_server.errors import Err, ErrorSpec
from pyoco_server.http_api.health import Health
from pyoco_server.http_api.idempotency_header import HEADER, PATTERN, REPLAYED_HEADER
from pyoco_server.http_api.problems import PROBLEM_TYPE, Problem
from pyoco_server.http_api.reruns import RerunAccepted, RerunRequest
from pyoco_server.http_api.run_actions import CancelRequest
from pyoco_server.http_api.run_logs import LogEnd, LogsView
from pyoco_server.http_api.run_reads import RunView, TasksView
from pyoco_server.http_api.sse import MEDIA_TYPE
from pyoco_server.http_api.submissions import RunAccepted, RunSubmitRequest, RunSubmitYamlFields
from pyoco_server.models import RunSnapshot

_RECORDS = (
    CancelRequest,
    RunSnapshot,
    Health,
    LogEnd,
    LogsView,
    Problem,
    RerunAccepted,
    RerunRequest,
    RunAccepted,
    RunSubmitRequest,
    RunSubmitYamlFields,
    RunView,
    TasksView,
)
_REF = "#/components/schemas/"

_SUBMIT_ERRORS = (
    Err.INVALID_REQUEST,
    Err.IDEMPOTENCY_CONFLICT,
    Err.WORKFLOW_TOO_LARGE,
    Err.NATS_UNAVAILABLE,
)
_ANSWERS: dict[tuple[str, str], tuple[type, tuple[ErrorSpec, ...]]] = {
    ("/health", "get"): (Health, ()),
    ("/runs", "post"): (RunAccepted, _SUBMIT_ERRORS),
    ("/runs/yaml", "post"): (RunAccepted, _SUBMIT_ERRORS),
    ("/runs/{run_id}", "get"): (RunView, (Err.RUN_NOT_FOUND, Err.INVALID_REQUEST, Err.NATS_UNAVAILABLE)),
    ("/runs/{run_id}/cancel", "post"): (
        RunSnapshot,
        (Err.RUN_NOT_FOUND, Err.INVALID_REQUEST, Err.NATS_UNAVAILABLE),
    ),
    ("/runs/{run_id}/logs", "get"): (
        LogsView,
        (Err.RUN_NOT_FOUND, Err.INVALID_REQUEST, Err.NATS_UNAVAILABLE),
    ),
    ("/runs/{run_id}/rerun", "post"): (
        RerunAccepted,
        (
            Err.RUN_NOT_FOUND,
            Err.RUN_CONFLICT,
            Err.INVALID_REQUEST,
            Err.WORKFLOW_TOO_LARGE,
            Err.NATS_UNAVAILABLE,
        ),
    ),
    ("/runs/{run_id}/tasks", "get"): (TasksView, (Err.RUN_NOT_FOUND, Err.NATS_UNAVAILABLE)),
}


def describe(app: FastAPI) -> None:
    """Have `/openapi.json` tell every endpoint with its answers and errors."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, routes=app.routes)
            _add_submissions(document["paths"])
            _add_body(document["paths"], "cancel", CancelRequest)
            _add_body(document["paths"], "rerun", RerunRequest)
            _add_answers(document["paths"])
            _add_idempotency(document["paths"])
            _add_followed_logs(document["paths"])
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


def _add_body(paths: dict[str, Any], action: str, record: type) -> None:
    body = _content("application/json", record.__name__)
    paths[f"/runs/{{run_id}}/{action}"]["post"]["requestBody"] = {"required": False, "content": body}


def _add_idempotency(paths: dict[str, Any]) -> None:
    key = {
        "name": HEADER,
        "in": "header",
        "required": False,
        "description": "Repeating the request with this key answers with the run of the first one.",
        "schema": {"type": "string", "pattern": f"^{PATTERN}$"},
    }
    replayed = {
        "description": "`true` when the run was submitted by an earlier request with this key.",
        "schema": {"type": "string"},
    }
    for path in ("/runs", "/runs/yaml"):
        paths[path]["post"]["parameters"] = [key]
        paths[path]["post"]["responses"]["200"]["headers"] = {REPLAYED_HEADER: replayed}


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


def _add_followed_logs(paths: dict[str, Any]) -> None:
    events = (
        "Each printed line as an event `line` whose data is one of the `lines` and whose id is the line's; "
        f"at the run's end an event `end` whose data is a `{LogEnd.__name__}`."
    )
    content = paths["/runs/{run_id}/logs"]["get"]["responses"]["200"]["content"]
    content[MEDIA_TYPE] = {"schema": {"type": "string", "description": events}}


def _content(media_type: str, record: str) -> dict[str, Any]:
    return {media_type: {"schema": {"$ref": f"{_REF}{record}"}}}
