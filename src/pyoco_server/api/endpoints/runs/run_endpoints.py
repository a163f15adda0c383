"""Endpoints of runs."""

from typing import Final

from pyoco_server.api import run_types as runs
from pyoco_server.api import wait_types as waits
from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.api.endpoints.endpoint import BYTES, LAST_EVENT_ID, Body, Endpoint, Events
from pyoco_server.api.endpoints.endpoint_errors import (
    LIST_ERRORS,
    NATS,
    RANGE_HEADERS,
    RANGE_NOT_SATISFIABLE,
    RUN_ERRORS,
    UNREADABLE,
)
from pyoco_server.api.endpoints.endpoint_scopes import OPERATE, READ, SUBMIT
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.run_models import RunSnapshot
from pyoco_server.runs.index.run_summary import RunItem

REVISION_HEADER: Final = "X-Pyoco-Revision"
_SUBMIT_ERRORS = (Err.INVALID_REQUEST, Err.IDEMPOTENCY_CONFLICT, UNREADABLE, Err.WORKFLOW_TOO_LARGE, NATS)
_VALUE_ERRORS = (*RUN_ERRORS, Err.RESULT_NOT_FOUND, RANGE_NOT_SATISFIABLE)

SUBMIT_RUN = Endpoint(
    "POST /runs",
    SUBMIT,
    "Submit a run of a flow on the workers",
    runs.RunAccepted,
    (*_SUBMIT_ERRORS, Err.FLOW_NOT_FOUND),
    Body(runs.RunSubmitRequest),
    runs.SubmitQuery,
    creates="run",
    not_audited="The run has who submitted it.",
)
SUBMIT_RUN_YAML = Endpoint(
    "POST /runs/yaml",
    SUBMIT,
    "Submit a flow.yaml as a run",
    runs.RunAccepted,
    _SUBMIT_ERRORS,
    Body(runs.RunSubmitYamlFields, file="workflow", file_text="A flow.yaml."),
    creates="run",
    not_audited="The run has who submitted it.",
)
LIST_RUNS = Endpoint(
    "GET /runs",
    READ,
    "The runs that match, an array; with `cursor`, `updated_after`, `paged` or `total` an object.",
    (list[RunItem], runs.RunPage, list[RunSnapshot], runs.SnapshotPage),
    LIST_ERRORS,
    query=runs.RunListQuery,
    ok_text="The runs. An object with `cursor`, `updated_after`, `paged=true` or `total=true`, else an "
    "array; whole snapshots with `include`.",
    response_headers={REVISION_HEADER: "As of when this is: the `after` of `GET /runs/watch`."},
)
WATCH_RUNS = Endpoint(
    "GET /runs/watch",
    READ,
    "Changes of a list of runs, as server-sent events, with the filters of the list.",
    errors=LIST_ERRORS,
    query=runs.RunListWatchQuery,
    request_headers={LAST_EVENT_ID: "Continue after this event; wins over `after`."},
    events=Events(
        "Events `snapshot`, whose data is a `ListedRun`, and `removed`, an `UnlistedRun`; `heartbeat` and, "
        "last of all, `reset`: a `ListNote`. Their ids are positions; `reset` has none.",
        (runs.ListedRun, runs.UnlistedRun, runs.ListNote),
    ),
)
WATCH_RUN = Endpoint(
    "GET /runs/{run_id}/watch",
    READ,
    "The run's snapshots as server-sent events: the newest one at once, then each change, to its end.",
    errors=RUN_ERRORS,
    query=runs.RunWatchQuery,
    request_headers={LAST_EVENT_ID: "Leave out a first snapshot that was this."},
    events=Events(
        "Events `snapshot`, whose data is a `WatchedRun` and whose id is its revision; the last one has a "
        "terminal status. Events `heartbeat` in between, and `removed` at the end of a run that was "
        "deleted: a `RunNote`.",
        (runs.WatchedRun, runs.RunNote),
    ),
)
GET_RUN = Endpoint(
    "GET /runs/{run_id}",
    READ,
    "The latest snapshot of a run. `include=records` adds `task_records`.",
    runs.RunView,
    RUN_ERRORS,
    query=runs.RunQuery,
)
GET_TASKS = Endpoint(
    "GET /runs/{run_id}/tasks",
    READ,
    "The state of each task, and its record where it was kept.",
    runs.TasksView,
    RUN_ERRORS,
)
GET_RESULT = Endpoint(
    "GET /runs/{run_id}/result",
    READ,
    "What a completed run returned: JSON, or bytes as they are; or the requested range of it.",
    {},
    _VALUE_ERRORS,
    ok_text="The value, `application/json`; `application/octet-stream` if the task returned bytes.",
    also={206: "The requested range"},
    request_headers=RANGE_HEADERS,
    response_headers={"ETag": "The SHA-256 of the value, in quotes."},
    head=True,
    also_bytes=True,
)
GET_TASK_OUTPUT = Endpoint(
    "GET /runs/{run_id}/tasks/{task}/output",
    READ,
    "What a task of the run returned, as `GET /runs/{run_id}/result` returns the result.",
    {},
    _VALUE_ERRORS,
    ok_text="The value, `application/json`; `application/octet-stream` if the task returned bytes.",
    also={206: "The requested range"},
    request_headers=RANGE_HEADERS,
    response_headers={"ETag": "The SHA-256 of the value, in quotes."},
    head=True,
    also_bytes=True,
)
GET_LOGS = Endpoint(
    "GET /runs/{run_id}/logs",
    READ,
    "The output of a run, from a line on; with `Accept: text/event-stream`, followed to its end.",
    runs.LogsView,
    RUN_ERRORS,
    query=runs.LogQuery,
    request_headers={LAST_EVENT_ID: "For following, instead of `after`."},
    events=Events(
        "Each printed line as an event `line` whose data is one of the `lines` and whose id is the line's; "
        "at the run's end an event `end` whose data is a `LogEnd`.",
        (runs.LineView, runs.LogEnd),
    ),
)
CANCEL_RUN = Endpoint(
    "POST /runs/{run_id}/cancel",
    OPERATE,
    "Cancel a run. An ended run is returned unchanged; repeating the request changes nothing.",
    RunSnapshot,
    (*RUN_ERRORS, Err.RUN_CONFLICT),
    Body(runs.CancelRequest, required=False),
    repeatable=True,
    audit=AuditRule("run.cancel", ("run_id",), ("flow_name",), request=("reason",)),
)
RERUN = Endpoint(
    "POST /runs/{run_id}/rerun",
    OPERATE,
    "Rerun an ended run as a new run: from the start, from what failed, or from a task.",
    runs.RerunAccepted,
    (
        *(*RUN_ERRORS, Err.RUN_CONFLICT, Err.UNVERIFIED_RUN, Err.IDEMPOTENCY_CONFLICT),
        *(Err.WORKFLOW_TOO_LARGE, Err.FLOW_NOT_FOUND),
    ),
    Body(runs.RerunRequest, required=False),
    runs.SubmitQuery,
    creates="run",
    audit=AuditRule(
        "run.rerun",
        ("run_id",),
        request=("mode", "task", "keep_answers"),
        response=("run_id", "params_changed"),
    ),
)
EXPLAIN_RUN = Endpoint(
    "GET /runs/{run_id}/explain",
    READ,
    "Why the run is in its state, and what can be done.",
    runs.Explanation,
    (Err.RUN_NOT_FOUND, UNREADABLE, Err.INVALID_REQUEST),
)
LIST_ARTIFACTS = Endpoint(
    "GET /runs/{run_id}/artifacts",
    READ,
    "The files that the run has written, and which of them were left out.",
    runs.ArtifactsView,
    (*RUN_ERRORS, Err.ARTIFACT_NOT_FOUND),
)
GET_ARTIFACT = Endpoint(
    "GET /runs/{run_id}/artifacts/{name}",
    READ,
    "A file of the run, or the requested range of it. Its name may contain slashes.",
    {"type": "string", "format": "binary"},
    (*RUN_ERRORS, Err.ARTIFACT_NOT_FOUND, RANGE_NOT_SATISFIABLE),
    query=runs.ArtifactQuery,
    media_type=BYTES,
    also={206: "The requested range", 304: "`If-None-Match` names this content"},
    request_headers=RANGE_HEADERS,
    response_headers={"ETag": "The SHA-256 of the content."},
    head=True,
    with_slashes="name",
)
RETRY_RUN = Endpoint(
    "POST /runs/{run_id}/retry",
    OPERATE,
    "Ask an expired or withdrawn question again; finished tasks are not executed again.",
    RunSnapshot,
    (Err.RUN_NOT_FOUND, Err.WAIT_CONFLICT, UNREADABLE, Err.UNVERIFIED_RUN, Err.INVALID_REQUEST, NATS),
    Body(waits.RetryRequest, required=False),
    repeatable=True,
    audit=AuditRule("run.retry", ("run_id",), ("flow_name",)),
)
