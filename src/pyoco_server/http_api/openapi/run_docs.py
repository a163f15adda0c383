"""What the document says about single runs: submitting, reading, cancelling, repeating, their logs."""

from typing import Final

from pyoco_server.errors.error_table import Err
from pyoco_server.http_api.openapi.parts import (
    Answers,
    Paths,
    add_idempotency,
    events,
    form_with_file,
    json_body,
)
from pyoco_server.http_api.routes.cancel_routes import CancelRequest
from pyoco_server.http_api.routes.rerun_routes import RerunAccepted, RerunRequest
from pyoco_server.http_api.routes.run_log_routes import LogEnd, LogsView
from pyoco_server.http_api.routes.run_routes import RunView, TasksView
from pyoco_server.http_api.routes.submit_routes import RunAccepted, RunSubmitRequest, RunSubmitYamlFields
from pyoco_server.records.models import RunSnapshot

RECORDS: Final[tuple[type, ...]] = (
    CancelRequest,
    LogEnd,
    LogsView,
    RerunAccepted,
    RerunRequest,
    RunAccepted,
    RunSnapshot,
    RunSubmitRequest,
    RunView,
    TasksView,
)

_SUBMIT_ERRORS = (
    Err.INVALID_REQUEST,
    Err.IDEMPOTENCY_CONFLICT,
    Err.WORKFLOW_TOO_LARGE,
    Err.NATS_UNAVAILABLE,
)
_RUN_ERRORS = (Err.RUN_NOT_FOUND, Err.INVALID_REQUEST, Err.NATS_UNAVAILABLE)
ANSWERS: Final[Answers] = {
    ("/runs", "post"): (RunAccepted, _SUBMIT_ERRORS),
    ("/runs/yaml", "post"): (RunAccepted, _SUBMIT_ERRORS),
    ("/runs/{run_id}", "get"): (RunView, _RUN_ERRORS),
    ("/runs/{run_id}/cancel", "post"): (RunSnapshot, _RUN_ERRORS),
    ("/runs/{run_id}/logs", "get"): (LogsView, _RUN_ERRORS),
    ("/runs/{run_id}/rerun", "post"): (
        RerunAccepted,
        (*_RUN_ERRORS, Err.RUN_CONFLICT, Err.IDEMPOTENCY_CONFLICT, Err.WORKFLOW_TOO_LARGE),
    ),
    ("/runs/{run_id}/tasks", "get"): (TasksView, (Err.RUN_NOT_FOUND, Err.NATS_UNAVAILABLE)),
}


def add_plain_routes(paths: Paths) -> None:
    """The submits are no routes of FastAPI's."""
    paths.setdefault("/runs", {})["post"] = {
        "summary": "Submit a run of a flow that the workers know",
        "operationId": "submit_run",
        "requestBody": json_body(RunSubmitRequest, required=True),
    }
    paths["/runs/yaml"] = {
        "post": {
            "summary": "Submit a flow.yaml as a run",
            "operationId": "submit_run_yaml",
            "requestBody": form_with_file(RunSubmitYamlFields, "workflow", "A flow.yaml."),
        }
    }


def add(paths: Paths) -> None:
    for path in ("/runs", "/runs/yaml", "/runs/{run_id}/rerun"):
        add_idempotency(paths[path]["post"], "run")
    paths["/runs/{run_id}/cancel"]["post"]["requestBody"] = json_body(CancelRequest, required=False)
    paths["/runs/{run_id}/rerun"]["post"]["requestBody"] = json_body(RerunRequest, required=False)
    paths["/runs/{run_id}/logs"]["get"]["responses"]["200"]["content"] |= events(
        "Each printed line as an event `line` whose data is one of the `lines` and whose id is the line's; "
        f"at the run's end an event `end` whose data is a `{LogEnd.__name__}`."
    )
