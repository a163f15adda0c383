"""Agent requests: the requests of the repository that this gateway serves, and their runs."""

import os
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from operator import attrgetter
from typing import Final, TypeVar

from msgspec import UNSET, Struct
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response, StreamingResponse

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.request_file import Priority, RequestStatus, one_line
from pyoco_server.agent.request_folder import MAX_FILE_BYTES, NewRequest
from pyoco_server.agent.request_ids import run_number_text
from pyoco_server.agent.requests.request_service import (
    RequestEdit,
    RequestRunState,
    RequestService,
    choices_of,
)
from pyoco_server.agent.requests.request_state import RequestState
from pyoco_server.agent.run_files import E2E_LOG, RUNNER_LOG, UNIT_LOG, StepState
from pyoco_server.api import agent_request_types as types
from pyoco_server.api.endpoints.agent import request_endpoints as endpoints
from pyoco_server.api.endpoints.endpoint import JSON_UTF8
from pyoco_server.errors import FieldProblem, InvalidRequest, shortened
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import actor_of, caller_of
from pyoco_server.http_api.requests.bodies import json_record, limited_body
from pyoco_server.http_api.requests.query import QueryReader, choice, text_value
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routing import handles
from pyoco_server.records.waits.wait_models import WaitRecord

T = TypeVar("T", bound=Struct)

_BLOCK_BYTES: Final = 256 * 1024
# By the name that the contract has for it.
_LOGS: Final = {"log_file": RUNNER_LOG, "unit_log": UNIT_LOG, "e2e_log": E2E_LOG}
# A want of the maximum size, in JSON.
_MAX_BODY_BYTES: Final = 2 * MAX_FILE_BYTES


def request_service(request: HTTPConnection) -> RequestService:
    """AgentError NO_REPOSITORY, also if the repository belongs to another tenant."""
    found = served_requests(request)
    if found is None:
        raise AgentError(
            AgentCode.NO_REPOSITORY,
            "This gateway serves no repository.",
            hint="Start one that does: pyoco-server agent --repo DIR",
        )
    return found


def served_requests(request: HTTPConnection) -> RequestService | None:
    """None if no repository is served here, or one of another tenant."""
    gateway = gateway_of(request)
    if gateway.agent_requests is None or not caller_of(request).sees(gateway.config.agent_tenant or None):
        return None
    return gateway.agent_requests.service


@handles(endpoints.LIST_REQUESTS)
async def list_requests(request: Request) -> Response:
    service = request_service(request)
    reader = QueryReader(request, types.RequestListQuery)
    statuses = frozenset(map(_status, reader.each("status", str)))
    text = reader.one("q", text_value, None)
    sorts = reader.each("sort", choice(*types.SORTS)) or types.DEFAULT_SORTS
    reader.check()
    states = [
        state
        for state in await service.all()
        if (not statuses or state.status in statuses) and (text is None or _has_text(state, text))
    ]
    views = [await _view(service, state) for state in states]
    return _json_response(types.RequestList(items=_sorted(views, sorts)))


@handles(endpoints.CREATE_REQUEST)
async def create_request(request: Request) -> Response:
    service = request_service(request)
    body = await _read(request, types.NewRequestBody)
    new = NewRequest(
        title=_title(body.title),
        base=body.base or service.repository.settings.base_branch,
        branch=body.branch,
        priority=_priority(body.priority),
        tags=tuple(body.tags),
        want="" if body.want is None else body.want.text,
        request_id=body.id,
    )
    state = await service.create(new)
    location = endpoints.GET_REQUEST.path.format(request_id=state.file.request_id)
    result = types.RequestResult(request=await _view(service, state))
    return _json_response(result, {"Location": location}, HTTPStatus.CREATED)


@handles(endpoints.GET_REQUEST)
async def get_request(request: Request, request_id: str) -> Response:
    service = request_service(request)
    state = await service.read(request_id)
    file = state.file
    sections = types.RequestSections(want=file.want, plan=file.plan, report=file.report)
    content = types.RequestContent(raw_md=file.raw, sections=sections)
    return _json_response(types.RequestDetail(request=await _view(service, state), content=content))


@handles(endpoints.PATCH_REQUEST)
async def patch_request(request: Request, request_id: str) -> Response:
    service = request_service(request)
    body = await _read(request, types.RequestPatch)
    edit = RequestEdit(
        title=None if body.title is UNSET else _title(body.title),
        priority=None if body.priority is UNSET else _priority(body.priority),
        tags=None if body.tags is UNSET else tuple(body.tags),
        want=None if body.want is UNSET else body.want.text,
    )
    if edit == RequestEdit():
        message = "nothing to change; give title, priority, tags or want"
        raise InvalidRequest(problems=[FieldProblem("", message)])
    return await _result(service, await service.edit(request_id, edit), HTTPStatus.OK)


@handles(endpoints.DELETE_REQUEST)
async def delete_request(request: Request, request_id: str) -> Response:
    await request_service(request).delete(request_id)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@handles(endpoints.ENQUEUE_REQUEST)
async def enqueue_request(request: Request, request_id: str) -> Response:
    service = request_service(request)
    await _read(request, types.EnqueueBody, required=False)
    return await _result(service, await service.enqueue(request_id))


@handles(endpoints.RERUN_REQUEST)
async def rerun_request(request: Request, request_id: str) -> Response:
    service = request_service(request)
    return await _result(service, await service.enqueue(request_id))


@handles(endpoints.STOP_REQUEST)
async def stop_request(request: Request, request_id: str) -> Response:
    service = request_service(request)
    return await _result(service, await service.stop(request_id, caller_of(request)))


@handles(endpoints.RESUME_REQUEST)
async def resume_request(request: Request, request_id: str) -> Response:
    service = request_service(request)
    body = await _read(request, types.ResumeBody)
    if not body.answer.text.strip():
        raise InvalidRequest(problems=[FieldProblem("answer.text", "expected an answer; it is empty")])
    state = await service.resume(request_id, body.answer.text, actor_of(request), wait_id=body.wait_id)
    return await _result(service, state)


@handles(endpoints.LATEST_REQUEST_RUN)
async def latest_request_run(request: Request, request_id: str) -> Response:
    service = request_service(request)
    return _json_response(
        types.RequestRunResult(run=_run_view(service, await service.latest_run(request_id)))
    )


@handles(endpoints.LIST_REQUEST_RUNS)
async def list_request_runs(request: Request, request_id: str) -> Response:
    service = request_service(request)
    runs = [_run_view(service, run) for run in await service.runs(request_id)]
    return _json_response(types.RequestRunList(items=runs))


@handles(endpoints.RAW_REQUEST)
async def raw_request(request: Request, request_id: str) -> Response:
    state = await request_service(request).read(request_id)
    return Response(state.file.raw.encode("utf-8", "backslashreplace"), media_type="text/markdown")


@handles(endpoints.REQUEST_ARTIFACT)
async def request_artifact(request: Request, request_id: str, run_number: str, name: str) -> Response:
    run = await request_service(request).run(request_id, run_number)
    descriptor = run.files.open_artifact(name)
    # As long as it is now: the log of a run grows while it is sent.
    size = os.fstat(descriptor).st_size
    return StreamingResponse(
        _blocks(descriptor, size), headers={"Content-Length": str(size)}, media_type="text/plain"
    )


@handles(endpoints.DOCTOR)
async def doctor(request: Request) -> Response:
    checks = await request_service(request).doctor()
    views = [
        types.DoctorCheck(
            name=check.name, ok=check.ok, version=check.version, details=check.details, fix=check.fix
        )
        for check in checks
    ]
    return _json_response(types.DoctorReport(checks=views))


@handles(endpoints.FOLLOW_REQUEST)
@handles(endpoints.FOLLOW_REQUEST_WS)
async def follow_request(request: Request, request_id: str, run_number: str) -> Response:
    """A GET that is not a handshake; http_api/streams/request_log_socket.py has the WebSocket."""
    await request_service(request).run(request_id, run_number)
    raise HTTPException(
        HTTPStatus.UPGRADE_REQUIRED,
        "this is the address of a WebSocket; connect to it with ws:// or wss://",
        {"Upgrade": "websocket"},
    )


def _blocks(descriptor: int, size: int) -> Iterable[bytes]:
    with open(descriptor, "rb") as file:
        while size > 0 and (block := file.read(min(size, _BLOCK_BYTES))):
            size -= len(block)
            yield block
        # A file that was shortened meanwhile still has the announced length.
        if size:
            yield b"\0" * size


def _json_response(body: object, headers: Mapping[str, str] | None = None, status: int = 200) -> Response:
    return json_response(body, headers, status, media_type=JSON_UTF8)


async def _read(request: Request, kind: type[T], *, required: bool = True) -> T:
    body = await limited_body(
        request, _MAX_BODY_BYTES, field="", cure="put the details in a file of the repository and name that"
    )
    if not body and not required:
        return kind()
    try:
        return json_record(body, kind)
    except InvalidRequest as error:
        # The contract has a code of its own for it, also if it is no text.
        for problem in error.problems:
            if problem.field == "priority":
                raise _invalid_priority(problem.value or "") from error
        raise


def _title(given: str) -> str:
    title = one_line(given)
    if not 1 <= len(title) <= types.TITLE_MAX_CHARS:
        message = f"expected 1 to {types.TITLE_MAX_CHARS} characters"
        raise InvalidRequest(problems=[FieldProblem("title", message, value=shortened(given))])
    return title


def _priority(given: str) -> Priority:
    if given not in list(Priority):
        raise _invalid_priority(shortened(given))
    return Priority(given)


def _invalid_priority(shown: str) -> AgentError:
    return AgentError(
        AgentCode.INVALID_PRIORITY,
        f"priority={shown} is not a priority.",
        hint=f"Use one of {', '.join(Priority)}.",
    )


def _status(given: str) -> RequestStatus:
    if given not in list(RequestStatus):
        raise AgentError(
            AgentCode.INVALID_STATUS,
            f"status={shortened(given)} is not a status.",
            hint=f"Use one of {', '.join(RequestStatus)}, or several separated by commas.",
        )
    return RequestStatus(given)


def _has_text(state: RequestState, text: str) -> bool:
    needle = text.casefold()
    return any(needle in (part or "").casefold() for part in (state.file.title, state.file.want))


def _sorted(views: list[types.RequestView], sorts: Sequence[str]) -> list[types.RequestView]:
    """By each of them, the first one last; of equal ones the last changed first."""
    found = sorted(views, key=lambda view: (view.updated_at, view.id), reverse=True)
    for sort in reversed(sorts):
        key, _, direction = sort.partition("_")
        if key == "priority":
            # P0 is the highest one.
            found = sorted(found, key=lambda view: view.priority, reverse=direction == "asc")
        else:
            found = sorted(found, key=attrgetter(f"{key}_at"), reverse=direction == "desc")
    return found


async def _result(
    service: RequestService, state: RequestState, status: HTTPStatus = HTTPStatus.ACCEPTED
) -> Response:
    return _json_response(types.RequestResult(request=await _view(service, state)), status=status)


async def _view(service: RequestService, state: RequestState) -> types.RequestView:
    repository, file, latest = service.repository, state.file, state.latest
    number = file.run_number if latest is None else run_number_text(latest.number)
    return types.RequestView(
        id=file.request_id,
        title=file.title,
        priority=file.priority,
        status=state.status,
        base=repository.settings.base_of(file),
        branch=repository.settings.branch_of(file),
        tags=file.tags,
        created_at=repository.shown_time(file, "created_at"),
        updated_at=repository.shown_time(file, "updated_at"),
        run_id=number,
        phase=(state.stage.phase if state.stage else None) or file.text("phase"),
        attempt=state.stage.attempt if state.stage else file.attempt,
        blocked_reason=state.header_status.blocked_reason,
        failure_reason=state.header_status.failure_reason,
        pr_url=file.text("pr_url"),
        last_commit=(state.stage.last_commit if state.stage else None) or file.text("last_commit"),
        paths=types.RequestPaths(
            request_file=repository.folder.relative_path(file.request_id),
            run_dir=None if number is None else repository.run_dir(file.request_id, number),
        ),
        enqueued_at=None if state.record is None else repository.iso(state.record.queued_at),
        stopping=state.is_stopping,
        question=_question_view(service, await service.question(state)),
        pyoco_run_id=None if latest is None else latest.run_id,
        problems=[file.problem] if file.problem is not None else file.field_problems,
    )


def _question_view(service: RequestService, wait: WaitRecord | None) -> types.QuestionView | None:
    if wait is None:
        return None
    return types.QuestionView(
        wait_id=wait.wait_id,
        text=wait.message,
        choices=choices_of(wait),
        deadline_at=service.repository.iso(wait.shown_deadline),
    )


def _run_view(service: RequestService, state: RequestRunState) -> types.RequestRunView:
    files, stage = state.files, state.stage
    names = files.artifact_names()
    error = files.errors()
    return types.RequestRunView(
        id=files.run_number,
        request_id=files.request_id,
        status=state.header_status.status,
        phase=None if stage is None else stage.phase,
        started_at=(stage.started_at or None) if stage else None,
        ended_at=None if stage is None else stage.ended_at,
        summary=None if stage is None else stage.summary,
        artifacts={key: files.relative_path(name) for key, name in _LOGS.items() if name in names},
        files=names,
        step=None if stage is None else stage.step,
        steps=[] if stage is None else [_step_view(step) for step in stage.steps],
        error=error if isinstance(error, dict) else None,
        pyoco_run_id=state.pyoco_run_id,
    )


def _step_view(step: StepState) -> types.RequestRunStep:
    return types.RequestRunStep(
        id=step.id,
        title=step.title,
        state=step.state,
        commit=step.commit,
        tests=step.tests,
        summary=step.summary,
    )
