"""Reading runs: `GET /runs/{run_id}` and `GET /runs/{run_id}/tasks`."""

import logging
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query
from msgspec import UNSET, Raw, Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.errors import NatsUnavailable
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.records.models import RunId, RunSnapshot, RunStatus, TaskStatus
from pyoco_server.runs.lifecycle.run_lookup import find_run

log = logging.getLogger(__name__)

router = APIRouter()

Include = Literal["records", "full", "all"]


class RunView(RunSnapshot, kw_only=True):
    """A run as it is answered: its snapshot, and whether its worker is alive."""

    worker_alive: bool | None = None
    worker_heartbeat_at: float | None = None
    worker_tags: list[str] | None = None


class TasksView(Struct, kw_only=True):
    """The tasks of a run."""

    run_id: RunId
    flow_name: str
    status: RunStatus
    tasks: dict[str, TaskStatus]
    task_records: dict[str, Raw]
    task_records_truncated: bool


@router.get("/runs/{run_id}", response_class=Response)
async def get_run(request: Request, run_id: str, include: Annotated[list[Include], Query()] = []) -> Response:  # noqa: B006
    """The newest snapshot of a run. `include=records` adds `task_records`."""
    snapshot = await shown_run(request, run_id)
    view = await _with_worker(gateway_of(request), snapshot)
    if not include:
        view.task_records = UNSET
    return _json(view)


@router.get("/runs/{run_id}/tasks", response_class=Response)
async def get_tasks(request: Request, run_id: str) -> Response:
    """The state of each task, and its record where it was kept."""
    snapshot = await shown_run(request, run_id)
    return _json(
        TasksView(
            run_id=snapshot.run_id,
            flow_name=snapshot.flow_name,
            status=snapshot.status,
            tasks=snapshot.tasks,
            task_records=snapshot.task_records or {},
            task_records_truncated=snapshot.task_records_truncated,
        )
    )


async def shown_run(request: Request, run_id: str) -> RunSnapshot:
    """The run as it is stored; RunNotFound when there is none that the caller may know of."""
    runs = gateway_of(request).runs.store
    return (await find_run(runs, run_id, caller_of(request), from_leader=False)).snapshot


async def _with_worker(gateway: Gateway, snapshot: RunSnapshot) -> RunView:
    view = RunView(**structs.asdict(snapshot))
    if snapshot.worker_id is None:
        return view
    try:
        worker = await gateway.workers.get(snapshot.worker_id)
    except (NatsUnavailable, msgspec.DecodeError) as error:
        # The run is known, and that is what was asked for.
        log.warning("cannot tell whether worker %s is alive: %s", snapshot.worker_id, error)
        return view
    if worker is None:
        view.worker_alive = False
        return view
    state = worker.observed_state(disconnect_timeout_sec=gateway.config.worker_disconnect_timeout_sec)
    view.worker_alive = state.alive
    view.worker_heartbeat_at = worker.last_heartbeat_at
    view.worker_tags = worker.tags
    return view


def _json(body: Struct) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
