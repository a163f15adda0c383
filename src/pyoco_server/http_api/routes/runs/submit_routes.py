"""Submitting runs, as JSON or as a flow.yaml in a form. This is the hot path."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api.endpoints.runs.run_endpoints import SUBMIT_RUN, SUBMIT_RUN_YAML
from pyoco_server.api.run_types import RunAccepted, RunSubmitRequest, RunSubmitYamlFields, SubmitQuery
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.bodies import check_depth, form_record, invalid_body, limited_body
from pyoco_server.http_api.requests.idempotency_header import REPLAYED_HEADER, idempotency_key
from pyoco_server.http_api.requests.multipart import FileField, open_form
from pyoco_server.http_api.requests.query import RequestQueryReader, yes_or_no
from pyoco_server.http_api.routing import handles
from pyoco_server.records.nesting import MAX_INPUT_NESTING
from pyoco_server.records.runs.run_models import Job, RunStatus, encode
from pyoco_server.records.workers.flow_models import SubmitWarning
from pyoco_server.runs.flow_yaml import CheckedFlow
from pyoco_server.runs.lifecycle.idempotency import keyed_submission
from pyoco_server.runs.lifecycle.requested_start import AT_ONCE, RequestedStart, requested_start
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.telemetry import tracing
from pyoco_server.waits.human.human_task_yaml import SlowSchemaCheck, check_submitted_flow

# Checking takes about a millisecond per 16 KiB.
_QUICKLY_CHECKED_BYTES = 16 * 1024

_JSON = (b"content-type", b"application/json")
_REPLAYED = (REPLAYED_HEADER.lower().encode(), b"true")
_decode_submit = msgspec.json.Decoder(RunSubmitRequest).decode


@handles(SUBMIT_RUN)
async def submit_run(request: Request) -> Response:
    gateway = gateway_of(request)
    body = await limited_body(
        request,
        gateway.config.max_run_snapshot_bytes,
        field="params",
        cure="pass a reference to large data, or raise PYOCO_MAX_RUN_SNAPSHOT_BYTES",
    )
    try:
        submitted = _decode_submit(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid_body(error, body, RunSubmitRequest) from None
    # The nesting cannot be deeper than the number of brackets.
    if body.count(b"[") + body.count(b"{") > MAX_INPUT_NESTING:
        check_depth("params", submitted.params)
    start = AT_ONCE
    if submitted.start_at is not None or submitted.delay_sec is not None:
        start = requested_start(submitted.start_at, submitted.delay_sec, gateway.clock.now())
    job = new_job(
        flow_name=submitted.flow_name,
        tag=submitted.tag or gateway.config.default_tag,
        tags=submitted.tags or (),
        params=submitted.params,
        timeout_sec=submitted.timeout_sec,
        start_at=start.at,
    )
    # Most requests have no query, and parsing it costs more than this.
    strict = bool(request.scope["query_string"]) and is_strict(request)
    return await _submitted(gateway, request, job, start, strict=strict)


def is_strict(request: Request) -> bool:
    reader = RequestQueryReader(request, SubmitQuery)
    strict = reader.one("strict", yes_or_no, False)
    reader.check()
    return strict


@handles(SUBMIT_RUN_YAML)
async def submit_run_yaml(request: Request) -> Response:
    gateway = gateway_of(request)
    async with open_form(request, FileField("workflow", gateway.config.workflow_yaml_max_bytes)) as form:
        fields = form_record(form.fields, RunSubmitYamlFields)
        source = await form.file.read()
    start = requested_start(fields.start_at, fields.delay_sec, gateway.clock.now())
    flow = await checked_flow(source)
    job = new_job(
        flow_name=fields.flow_name,
        tag=fields.tag or gateway.config.default_tag,
        params=flow.defaults,
        timeout_sec=fields.timeout_sec or None,
        workflow_yaml=source,
        start_at=start.at,
    )
    return await _submitted(gateway, request, job, start)


async def checked_flow(source: bytes) -> CheckedFlow:
    """A large file is checked in a thread, so as not to block the event loop."""
    if len(source) <= _QUICKLY_CHECKED_BYTES:
        with suppress(SlowSchemaCheck):
            return check_submitted_flow(source, fast_only=True)
    return await asyncio.to_thread(check_submitted_flow, source)


async def _submitted(
    gateway: Gateway, request: Request, job: Job, start: RequestedStart, *, strict: bool = False
) -> Response:
    caller = caller_of(request)
    job.tenant_id, job.api_key_id = caller.tenant_id, caller.api_key_id
    key = idempotency_key(request)
    keyed = None if key is None else keyed_submission(key, job, *start.compared_fields)
    if strict and (keyed is None or await gateway.runs.submitter.earlier_submission(keyed) is None):
        await gateway.flows.checks.require(job)
    # A flow.yaml brings its own flow.
    warnings = await gateway.flows.checks.warnings(job) if job.workflow_yaml is None else ()
    with tracing.submitting(job, lambda: request.headers):
        run_id = await gateway.runs.submitter.submit(job, request=keyed)
    status = RunStatus.PENDING if start is AT_ONCE else await gateway.runs.accepted_status(job, run_id)
    return _Accepted(run_id, status, warnings, replayed=run_id != job.run_id)


class _Accepted(Response):
    """The response to every submit, without the cost of a general Response."""

    def __init__(
        self, run_id: str, status: RunStatus, warnings: Sequence[SubmitWarning], *, replayed: bool
    ) -> None:
        self.status_code, self.background = HTTPStatus.OK, None
        found = list(warnings) if warnings else UNSET
        self.body = encode(RunAccepted(run_id=run_id, status=status, warnings=found))
        self.raw_headers = [(b"content-length", b"%d" % len(self.body)), _JSON]
        if replayed:
            self.raw_headers.append(_REPLAYED)
