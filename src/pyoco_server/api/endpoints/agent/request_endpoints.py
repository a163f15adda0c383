"""Endpoints of agent requests, `/api/v1`: they serve one repository, and have an error form of their own."""

from typing import Final

from pyoco_server.agent.agent_errors import AgentCode as Code
from pyoco_server.api import agent_request_types as types
from pyoco_server.api.endpoints.audit_rule import AuditRule
from pyoco_server.api.endpoints.endpoint import CHANGES_NOTHING, Body, Endpoint, Events
from pyoco_server.api.endpoints.endpoint_scopes import ANSWER, READ_OR_OPERATE, SUBMIT, SUBMIT_OR_OPERATE

BASE: Final = "/api/v1"
_REQUEST: Final = f"{BASE}/requests/{{request_id}}"
_TEXT: Final = {"type": "string"}
_PREFLIGHT: Final = (
    Code.ALREADY_RUNNING,
    Code.WORKTREE_DIRTY,
    Code.BASE_BRANCH_NOT_FOUND,
    Code.REMOTE_ORIGIN_MISSING,
    Code.GIT_NOT_INSTALLED,
    Code.NOT_A_GIT_REPO,
    Code.GIT_CONFIG_UNTRUSTED,
    Code.AUTH_REQUIRED,
    Code.COMMAND_FAILED,
    Code.FILE_NOT_WRITABLE,
    Code.REQUEST_UNREADABLE,
    # Of a base or a branch that a person has written to the file.
    Code.INVALID_REQUEST,
)
_FOUND: Final = (Code.REQUEST_NOT_FOUND,)
_LOG_EVENTS: Final = Events(
    "Messages of the WebSocket, JSON objects: LOG for each line from the first on, PHASE, STATUS, and DONE "
    "at the end. Each connection gets all of them.",
    (types.LogEvent, types.PhaseEvent, types.StatusEvent, types.DoneEvent),
)

LIST_REQUESTS = Endpoint(
    f"GET {BASE}/requests",
    READ_OR_OPERATE,
    "The requests of the repository that match.",
    types.RequestList,
    codes=(Code.INVALID_STATUS, Code.INVALID_REQUEST),
    query=types.RequestListQuery,
)
CREATE_REQUEST = Endpoint(
    f"POST {BASE}/requests",
    SUBMIT,
    "Create a request. It is not executed before it is enqueued.",
    types.RequestResult,
    codes=(Code.INVALID_REQUEST, Code.INVALID_PRIORITY, Code.FILE_ALREADY_EXISTS, Code.FILE_NOT_WRITABLE),
    body=Body(types.NewRequestBody),
    status=201,
    ok_text="The file of the request is written.",
    audit=AuditRule("request.create", ("request.id",), ("request.title",)),
)
GET_REQUEST = Endpoint(
    f"GET {_REQUEST}",
    READ_OR_OPERATE,
    "One request with its text.",
    types.RequestDetail,
    codes=_FOUND,
)
PATCH_REQUEST = Endpoint(
    f"PATCH {_REQUEST}",
    SUBMIT,
    "Change title, priority, tags or want. The want stays as it is while the request is running.",
    types.RequestResult,
    codes=(
        *_FOUND,
        Code.INVALID_REQUEST,
        Code.INVALID_PRIORITY,
        Code.CANNOT_EDIT_WHILE_RUNNING,
        Code.REQUEST_UNREADABLE,
        Code.FILE_NOT_WRITABLE,
    ),
    body=Body(types.RequestPatch, min_fields=1),
    audit=AuditRule("request.update", ("request_id",), ("request.title",), changes=True),
)
DELETE_REQUEST = Endpoint(
    f"DELETE {_REQUEST}",
    SUBMIT,
    "Delete the file of a request that is queued, failed or done; the files of its runs stay.",
    codes=(*_FOUND, Code.ALREADY_RUNNING, Code.FILE_NOT_WRITABLE),
    status=204,
    ok_text="Deleted",
    audit=AuditRule("request.delete", ("request_id",)),
)
ENQUEUE_REQUEST = Endpoint(
    f"POST {_REQUEST}/enqueue",
    SUBMIT,
    "Execute a request as soon as it is its turn: one at a time, P0 first. Repeating this changes nothing.",
    types.RequestResult,
    codes=(*_FOUND, *_PREFLIGHT),
    body=Body(types.EnqueueBody, required=False),
    status=202,
    ok_text="It is in the queue.",
    repeatable=True,
    audit=AuditRule("request.enqueue", ("request_id",), ("request.title",)),
)
STOP_REQUEST = Endpoint(
    f"POST {_REQUEST}/stop",
    SUBMIT_OR_OPERATE,
    "Stop the run of a request, or take it out of the queue. Its work is saved before the run ends.",
    types.RequestResult,
    codes=(*_FOUND, Code.NOT_RUNNING),
    status=202,
    ok_text="The stop is stored.",
    repeatable=True,
    audit=AuditRule("request.stop", ("request_id",), ("request.title",), run="request.pyoco_run_id"),
)
RESUME_REQUEST = Endpoint(
    f"POST {_REQUEST}/resume",
    ANSWER,
    "Answer the question of a request, which continues then. The answer is appended to its want. With "
    "`wait_id`, a repeated answer is never taken for the answer to the next question.",
    types.RequestResult,
    codes=(*_FOUND, Code.NOT_NEEDS_INPUT, Code.INVALID_REQUEST, Code.REQUEST_UNREADABLE),
    body=Body(types.ResumeBody),
    status=202,
    ok_text="The answer is stored.",
    audit=AuditRule("request.answer", ("request_id",), ("request.title",), run="request.pyoco_run_id"),
)
RERUN_REQUEST = Endpoint(
    f"POST {_REQUEST}/rerun",
    SUBMIT,
    "Execute a failed or finished request again, on the same branch.",
    types.RequestResult,
    codes=(*_FOUND, *_PREFLIGHT),
    status=202,
    ok_text="It is in the queue.",
    repeatable=True,
    audit=AuditRule("request.rerun", ("request_id",), ("request.title",)),
)
LATEST_REQUEST_RUN = Endpoint(
    f"GET {_REQUEST}/runs/latest",
    READ_OR_OPERATE,
    "The latest run of a request.",
    types.RequestRunResult,
    codes=(*_FOUND, Code.RUN_NOT_FOUND),
)
LIST_REQUEST_RUNS = Endpoint(
    f"GET {_REQUEST}/runs",
    READ_OR_OPERATE,
    "The runs of a request, the newest first.",
    types.RequestRunList,
    codes=_FOUND,
)
RAW_REQUEST = Endpoint(
    f"GET {_REQUEST}/raw",
    READ_OR_OPERATE,
    "The file of a request as it is.",
    _TEXT,
    codes=_FOUND,
    media_type="text/markdown; charset=utf-8",
)
REQUEST_ARTIFACT = Endpoint(
    f"GET {_REQUEST}/runs/{{run_number}}/artifacts/{{name}}",
    READ_OR_OPERATE,
    "A file of a run, such as runner.log, unit.log or plan.json.",
    _TEXT,
    codes=(*_FOUND, Code.RUN_NOT_FOUND, Code.ARTIFACT_NOT_FOUND),
    media_type="text/plain; charset=utf-8",
)
DOCTOR = Endpoint(
    f"POST {BASE}/doctor",
    SUBMIT_OR_OPERATE,
    "Check what an agent needs on this machine: git, the repository, the coding CLI. Nothing is changed.",
    types.DoctorReport,
    repeatable=True,
    not_audited=CHANGES_NOTHING,
)
# A handshake of a WebSocket. Any other GET is refused: 426.
FOLLOW_REQUEST = Endpoint(
    f"GET {BASE}/ws/requests/{{request_id}}/runs/{{run_number}}",
    READ_OR_OPERATE,
    "The log and the state of a run over a WebSocket, from the first line to its end.",
    codes=(*_FOUND, Code.RUN_NOT_FOUND),
    events=_LOG_EVENTS,
    status=101,
    ok_text="The WebSocket is open.",
    websocket=True,
)
# The same outside of the API base.
FOLLOW_REQUEST_WS = Endpoint(
    "GET /ws/requests/{request_id}/runs/{run_number}",
    READ_OR_OPERATE,
    "The same as `GET /api/v1/ws/requests/{request_id}/runs/{run_number}`.",
    codes=(*_FOUND, Code.RUN_NOT_FOUND),
    events=_LOG_EVENTS,
    status=101,
    ok_text="The WebSocket is open.",
    websocket=True,
)
