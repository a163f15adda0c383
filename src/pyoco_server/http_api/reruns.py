"""Repeating a run: `POST /runs/{run_id}/rerun`."""

from typing import Annotated

import msgspec
from fastapi import APIRouter
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server import tracing
from pyoco_server.broker.journal import Journal
from pyoco_server.http_api.bodies import optional_record
from pyoco_server.http_api.callers import caller_of
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.submissions import RunAccepted
from pyoco_server.models import RerunMode, RunId
from pyoco_server.runs.rerun import rerun_job

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
    job = await rerun_job(gateway.runs, journal, run_id, caller, mode=wish.mode, task=wish.task)
    with tracing.submitting(job, lambda: request.headers):
        await gateway.submitter.submit(job)
    accepted = RerunAccepted(run_id=job.run_id, origin_run_id=run_id)
    return Response(msgspec.json.encode(accepted), media_type="application/json")
