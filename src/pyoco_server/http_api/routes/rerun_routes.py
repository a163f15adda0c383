"""Repeating a run: `POST /runs/{run_id}/rerun`."""

from typing import Annotated

import msgspec
from fastapi import APIRouter
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import optional_record
from pyoco_server.http_api.requests.idempotency_header import REPLAYED, keyed_by_header
from pyoco_server.http_api.routes.submit_routes import RunAccepted
from pyoco_server.records.models import RerunMode, RunId
from pyoco_server.runs.lifecycle.rerun import rerun_job
from pyoco_server.telemetry import tracing

router = APIRouter()


class RerunRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """From where a run is repeated; `task` goes with the mode `task`."""

    mode: RerunMode = RerunMode.START
    task: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None


class RerunAccepted(RunAccepted, kw_only=True):
    """The new run is stored and queued."""

    origin_run_id: RunId


@router.post("/runs/{run_id}/rerun", response_class=Response)
async def rerun(request: Request, run_id: str) -> Response:
    """Repeat a run that has ended, as a new run: from the start, from what failed, or from a task."""
    gateway = gateway_of(request)
    cure = "a rerun takes a mode and a task"
    wish = await optional_record(request, RerunRequest, field="task", cure=cure)
    journal, caller = Journal(gateway.connection), caller_of(request)
    keyed = keyed_by_header(request, caller, "rerun", run_id, wish.mode, wish.task)
    earlier = None if keyed is None else await gateway.runs.submitter.submitted(keyed)
    if earlier is not None:
        return _accepted(earlier.run_id, run_id, again=True)
    job = await rerun_job(gateway.runs.store, journal, run_id, caller, mode=wish.mode, task=wish.task)
    with tracing.submitting(job, lambda: request.headers):
        new_id = await gateway.runs.submitter.submit(job, request=keyed)
    return _accepted(new_id, run_id, again=new_id != job.run_id)


def _accepted(run_id: str, origin_run_id: str, *, again: bool) -> Response:
    accepted = RerunAccepted(run_id=run_id, origin_run_id=origin_run_id)
    headers = REPLAYED if again else None
    return Response(msgspec.json.encode(accepted), headers=headers, media_type="application/json")
