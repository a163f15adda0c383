"""One run: read it, explain it, cancel it, rerun it."""

import logging
import time
from base64 import b64encode
from contextlib import suppress
from typing import get_args

from msgspec import UNSET, Raw, UnsetType, structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import run_types
from pyoco_server.api.endpoints.runs.run_endpoints import (
    CANCEL_RUN,
    EXPLAIN_RUN,
    GET_RUN,
    GET_TASKS,
    RERUN,
    SUBMIT_RUN,
)
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_store import StoredRun
from pyoco_server.errors import (
    NatsUnavailable,
    PyocoError,
    ResultNotFound,
    RunNotFound,
    ScopeMissing,
    UnreadableRecord,
)
from pyoco_server.errors.error_table import Lang
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.principal import caller_of, principal_of
from pyoco_server.http_api.requests.bodies import check_depth, optional_record
from pyoco_server.http_api.requests.idempotency_header import REPLAYED, keyed_by_header
from pyoco_server.http_api.requests.query import RequestQueryReader, choice
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.http_problems import preferred_language
from pyoco_server.http_api.routes.runs.submit_routes import is_strict
from pyoco_server.http_api.routing import handles
from pyoco_server.records.runs.run_models import Job, RunSnapshot, RunStatus
from pyoco_server.records.workers.flow_models import SubmitWarning
from pyoco_server.runs.explain.explain_rules import Finding
from pyoco_server.runs.explain.explain_texts import in_words, text_of
from pyoco_server.runs.lifecycle.cancel_request import cancel_run
from pyoco_server.runs.lifecycle.job_signatures import signatures_of
from pyoco_server.runs.lifecycle.requested_start import requested_start
from pyoco_server.runs.lifecycle.rerun import RequestedRerun, params_changed, rerun_job
from pyoco_server.runs.lifecycle.run_result import result_of
from pyoco_server.runs.lifecycle.stored_job import DocumentLost, stored_job, whole_params
from pyoco_server.runs.lifecycle.tenancy import find_run
from pyoco_server.telemetry import tracing

log = logging.getLogger(__name__)

_WITH_ALL = frozenset({"full", "all"})
# A larger result is shown by its beginning.
_SMALL_RESULT_BYTES = 8 * 1024
_PREVIEW_BYTES = 1024


@handles(GET_RUN)
async def get_run(request: Request, run_id: str) -> Response:
    query = RequestQueryReader(request, run_types.RunQuery)
    include = query.each("include", choice(*get_args(run_types.RunInclude)))
    query.check()
    gateway, is_full = gateway_of(request), bool(_WITH_ALL.intersection(include))
    snapshot = await (owned_run if is_full else visible_run)(request, run_id)
    view = await _with_worker(gateway, snapshot)
    if is_full:
        # Without them, the response has their beginning.
        with suppress(DocumentLost):
            view.params = await whole_params(Journal(gateway.connection), snapshot)
    view.result = _result(snapshot)
    return json_response(run_types.public_snapshot(view, records=bool(include)))


def _result(snapshot: RunSnapshot) -> run_types.RunResult | UnsetType:
    if snapshot.status is not RunStatus.COMPLETED:
        return UNSET
    try:
        value = result_of(snapshot)
    except ResultNotFound:
        return UNSET
    shown = run_types.RunResult(task=value.task, type="bytes" if value.is_bytes else "json", bytes=value.size)
    if value.content is None:
        shown.preview, shown.is_cut = value.preview, True
        shown.reason = value.why_cut or UNSET
    elif value.size > _SMALL_RESULT_BYTES:
        beginning = b64encode(value.content[:_PREVIEW_BYTES]) if value.is_bytes else value.content
        shown.preview = beginning[:_PREVIEW_BYTES].decode("utf-8", "ignore")
        shown.is_cut = True
    else:
        shown.value = b64encode(value.content).decode() if value.is_bytes else Raw(value.content)
    return shown


@handles(GET_TASKS)
async def get_tasks(request: Request, run_id: str) -> Response:
    snapshot = await visible_run(request, run_id)
    return json_response(
        run_types.TasksView(
            run_id=snapshot.run_id,
            flow_name=snapshot.flow_name,
            status=snapshot.status,
            tasks=snapshot.tasks,
            task_records=snapshot.task_records or {},
            task_records_truncated=snapshot.task_records_truncated,
        )
    )


async def visible_run(request: Request, run_id: str) -> RunSnapshot:
    """The stored run; RunNotFound when there is none that the caller may see."""
    runs = gateway_of(request).runs.store
    return (await find_run(runs, run_id, caller_of(request), from_leader=False)).snapshot


async def owned_run(request: Request, run_id: str) -> RunSnapshot:
    """As `visible_run`, for what is stored beside the snapshot: its log, its whole params.

    Who may write snapshots could give the run of another tenant to their own; so for a caller that sees only
    its tenant, the run must be as a gateway accepted it.
    """
    caller = caller_of(request)
    run = await find_run(gateway_of(request).runs.store, run_id, caller, from_leader=False)
    if not caller.sees_all:
        await assure_authentic(request, run, RunNotFound)
    return run.snapshot


async def assure_authentic(request: Request, run: StoredRun, not_found: type[PyocoError]) -> None:
    """Raise `not_found` unless the run is as a gateway accepted it; before its objects are read.

    Workers may write any snapshot: only an authentic one says whose the objects are, and under which tag.
    """
    if not await signatures_of(gateway_of(request).connection).is_authentic(run):
        raise not_found("the run is not as a gateway accepted it: its tenant or tag may have been changed")


async def _with_worker(gateway: Gateway, snapshot: RunSnapshot) -> run_types.RunView:
    view = run_types.RunView(**structs.asdict(snapshot))
    if snapshot.worker_id is None:
        return view
    try:
        worker = await gateway.workers.get(snapshot.worker_id)
    except (NatsUnavailable, UnreadableRecord) as error:
        log.warning(
            "the state of worker %s is unknown: %s",
            snapshot.worker_id,
            error,
            extra={"run_id": snapshot.run_id, "worker_id": snapshot.worker_id},
        )
        return view
    if worker is None:
        view.worker_alive = False
        return view
    view.worker_alive = gateway.state_of(worker).alive
    view.worker_heartbeat_at = worker.last_heartbeat_at
    view.worker_tags = worker.tags
    return view


@handles(CANCEL_RUN)
async def cancel(request: Request, run_id: str) -> Response:
    gateway = gateway_of(request)
    body = await optional_record(request, run_types.CancelRequest, field="reason", cure="say it shorter")
    snapshot = await cancel_run(
        gateway.connection, gateway.runs.store, run_id, caller_of(request), reason=body.reason
    )
    return json_response(run_types.public_snapshot(snapshot, records=False))


@handles(RERUN)
async def rerun(request: Request, run_id: str) -> Response:
    gateway, caller = gateway_of(request), caller_of(request)
    body, strict = await _rerun_body(request), is_strict(request)
    start = requested_start(body.start_at, body.delay_sec, gateway.clock.now())
    asked = RequestedRerun(
        run_id, body.mode, body.task, keep_answers=body.keep_answers, start=start, params=body.params
    )
    keyed = keyed_by_header(request, caller, *asked.command)
    earlier = None if keyed is None else await gateway.runs.submitter.earlier_submission(keyed)
    if earlier is not None:
        new_id, job = earlier.run_id, await _accepted_job(gateway, earlier.run_id)
    else:
        job = await rerun_job(gateway.connection, asked, caller)
        if strict and job.workflow_yaml is None:
            await gateway.flows.checks.require(job)
        with tracing.submitting(job, lambda: request.headers):
            new_id = await gateway.runs.submitter.submit(job, request=keyed)
    is_replayed = earlier is not None or job is None or new_id != job.run_id
    accepted = run_types.RerunAccepted(
        run_id=new_id,
        status=await gateway.runs.accepted_status(None if is_replayed else job, new_id),
        warnings=await _warnings(gateway, job),
        origin_run_id=run_id,
        params_changed=await params_changed(gateway.connection, asked, caller),
    )
    return json_response(accepted, REPLAYED if is_replayed else None)


async def _rerun_body(request: Request) -> run_types.RerunRequest:
    body = await optional_record(
        request,
        run_types.RerunRequest,
        field="params",
        cure="pass a reference to large data, or raise PYOCO_MAX_RUN_SNAPSHOT_BYTES",
        max_bytes=gateway_of(request).config.max_run_snapshot_bytes,
    )
    if body.params is not None:
        grant = principal_of(request)
        if grant is not None and not SUBMIT_RUN.allows(grant.scopes):
            raise ScopeMissing(
                f"a rerun with `params` needs the scope `submit` too, and the key {grant.key_id} lacks it; "
                "leave the params out to repeat the run as it was"
            )
        check_depth("params", body.params)
    return body


async def _accepted_job(gateway: Gateway, run_id: str) -> Job | None:
    """Of a run that an earlier request has made; None if it is gone, in part or as a whole."""
    stored = await gateway.runs.store.get(run_id)
    if stored is None:
        return None
    with suppress(DocumentLost):
        return await stored_job(Journal(gateway.connection), stored.snapshot)
    return None


async def _warnings(gateway: Gateway, job: Job | None) -> list[SubmitWarning] | UnsetType:
    # A flow.yaml brings its own flow.
    if job is None or job.workflow_yaml is not None:
        return UNSET
    return [*await gateway.flows.checks.warnings(job)] or UNSET


@handles(EXPLAIN_RUN)
async def explain(request: Request, run_id: str) -> Response:
    language = preferred_language(request.headers.get("accept-language"))
    status, findings = await gateway_of(request).runs.explainer.explain(run_id, caller_of(request))
    views = [_finding_view(finding, run_id, language) for finding in findings]
    explanation = run_types.Explanation(
        run_id=run_id, status=status, checked_at=time.time(), summary=views[0].message, findings=views
    )
    return json_response(explanation, {"Content-Language": language, "Vary": "Accept-Language"})


def _finding_view(finding: Finding, run_id: str, language: Lang) -> run_types.FindingView:
    text = text_of(finding.code, finding.evidence)
    words = {**in_words(finding.evidence, language), "run_id": run_id}
    actions = [
        run_types.ActionView(
            code=action.code,
            text=action.ja if language == "ja" else action.en,
            command=action.command and action.command.format_map(words),
            request=action.request and action.request.format_map(words),
        )
        for action in text.actions
    ]
    return run_types.FindingView(
        code=finding.code,
        message=text.message(words, language),
        evidence=finding.evidence,
        next=run_types.NextView(by_itself=text.by_itself(words, language), actions=actions),
    )
