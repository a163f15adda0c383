"""The workers as operators see them, and what operators want of them: `/workers`."""

import logging
import re
import time
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter
from msgspec import UNSET, Meta, Struct, UnsetType, structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.broker.queue.wake_up import wake_worker
from pyoco_server.errors import (
    FieldProblem,
    InvalidRequest,
    InvalidWorkersRequest,
    NatsUnavailable,
    WorkerNotFound,
    shortened,
)
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import optional_record
from pyoco_server.http_api.requests.query_records import BadQuery, query_record
from pyoco_server.records.models import WORKER_ID_PATTERN, WheelSyncState, WorkerRecord, WorkerState
from pyoco_server.runs.explain.visible_workers import workers_seen_by

log = logging.getLogger(__name__)

router = APIRouter()

_ONLY_TRUE = Meta(
    description="Finish what runs, then end. It cannot be taken back.", extra_json_schema={"enum": [True]}
)

# What each parameter of the list may be, in words.
_WANTED = {
    "scope": "wanted active or all",
    "state": f"wanted one of {', '.join(WorkerState)}",
    "include_hidden": "wanted true or false",
    "limit": "wanted a number from 1 to 500",
}


class WorkersQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which workers are listed."""

    scope: Annotated[
        Literal["active", "all"] | UnsetType,
        Meta(description="`active`: RUNNING and IDLE ones; the default, unless `state` is given."),
    ] = UNSET
    state: Annotated[WorkerState | UnsetType, Meta(description="Only workers in this state.")] = UNSET
    include_hidden: Annotated[bool, Meta(description="Hidden ones as well.")] = False
    limit: Annotated[int, Meta(ge=1, le=500, description="How many at most.")] = 100

    def takes(self, worker: "WorkerView") -> bool:
        if worker.hidden and not self.include_hidden:
            return False
        if self.state is not UNSET and worker.state is not self.state:
            return False
        scope = self.scope or ("all" if self.state else "active")
        return scope == "all" or worker.state.alive


class WorkerView(Struct, kw_only=True):
    """A worker as it is answered: its record, with the state that a reader sees."""

    worker_id: str
    instance_id: str
    state: WorkerState
    hidden: bool
    # It takes no new runs.
    paused: bool
    # It was asked to end, and has not yet.
    draining: bool
    last_seen_at: float
    last_heartbeat_at: float
    # When any of its runs last moved on.
    last_progress_at: float | None
    tags: list[str]
    slots: int
    slots_busy: int
    # Why an executor of it cannot be started, as long as that is so: its slot takes no runs.
    executor_error: str | None
    current_run_id: str | None
    current_run_ids: list[str]
    last_run_id: str | None
    last_run_status: str | None
    last_run_started_at: float | None
    last_run_finished_at: float | None
    stopped_at: float | None
    stop_reason: str | None
    version: str
    pyoco_version: str
    # The wheels that it has installed.
    wheel_sync: WheelSyncState


class WorkerPatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """What is wanted of a worker; at least one of these."""

    hidden: Annotated[bool, Meta(description="Leave it out of lists.")] | UnsetType = UNSET
    paused: Annotated[bool, Meta(description="Take no new runs until told otherwise.")] | UnsetType = UNSET
    drain: Annotated[bool, _ONLY_TRUE] | UnsetType = UNSET

    def applied_to(self, record: WorkerRecord) -> WorkerRecord:
        """The record with these wishes; one who has stopped is not asked to stop."""
        wants_drain = self.drain is True and record.state is not WorkerState.STOPPED_GRACEFUL
        return structs.replace(
            record,
            hidden=record.hidden if self.hidden is UNSET else self.hidden,
            paused=record.paused if self.paused is UNSET else self.paused,
            drain_requested_at=record.drain_requested_at or (time.time() if wants_drain else None),
        )


class WorkerChanged(Struct, kw_only=True):
    """What is wanted of the worker from now on, and the state it was in."""

    worker_id: str
    hidden: bool
    paused: bool
    draining: bool
    state: WorkerState
    updated_at: float


@router.get("/workers", response_class=Response)
async def list_workers(request: Request) -> Response:
    """The workers that are there, or that ever were."""
    gateway = gateway_of(request)
    try:
        query = query_record(request, WorkersQuery, _WANTED)
    except BadQuery as bad:
        raise InvalidWorkersRequest(problems=[bad.problem]) from None
    records = await workers_seen_by(caller_of(request), await gateway.workers.all(), gateway.listing.lists)
    views = [_view(gateway, record) for record in records]
    chosen = sorted(filter(query.takes, views), key=_rank)
    return _json(chosen[: query.limit])


@router.get("/workers/{worker_id}", response_class=Response)
async def get_worker(request: Request, worker_id: str) -> Response:
    """One worker, hidden or not."""
    gateway = gateway_of(request)
    _check_id(worker_id)
    try:
        record = await gateway.workers.get(worker_id)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WorkerNotFound(f"the record of worker {worker_id!r} cannot be read: {error}") from error
    if record is None:
        raise WorkerNotFound(f"there is no worker {worker_id!r}")
    [seen] = await workers_seen_by(caller_of(request), [record], gateway.listing.lists)
    return _json(_view(gateway, seen))


@router.patch("/workers/{worker_id}", response_class=Response)
async def patch_worker(request: Request, worker_id: str) -> Response:
    """Hide a worker or show it, pause it or let it go on, or have it finish what runs and end."""
    gateway = gateway_of(request)
    wish = await _wish(request)
    _check_id(worker_id)
    record = await gateway.workers.change(worker_id, wish.applied_to)
    if wish.paused is not UNSET or wish.drain is not UNSET:
        await _tell(gateway, worker_id)
    view = _view(gateway, record)
    changed = WorkerChanged(
        worker_id=worker_id,
        hidden=view.hidden,
        paused=view.paused,
        draining=view.draining,
        state=view.state,
        updated_at=time.time(),
    )
    return _json(changed)


async def _wish(request: Request) -> WorkerPatch:
    cure = "a worker is told to be hidden or paused, or to drain"
    try:
        wish = await optional_record(request, WorkerPatch, field="", cure=cure)
    except InvalidRequest as error:
        raise InvalidWorkersRequest(problems=error.problems) from None
    if wish == WorkerPatch():
        problem = FieldProblem("hidden", "the field is missing; wanted at least one of hidden, paused, drain")
        raise InvalidWorkersRequest(problems=[problem])
    if wish.drain is False:
        message = "a drain cannot be taken back; wanted true, or leave it out"
        raise InvalidWorkersRequest(problems=[FieldProblem("drain", message, value=shortened(False))])
    return wish


async def _tell(gateway: Gateway, worker_id: str) -> None:
    try:
        await wake_worker(gateway.connection, worker_id)
    except NatsUnavailable as error:
        # What is wanted is stored; the worker finds it with its next heartbeat.
        log.info("worker %s was not told at once: %s", worker_id, error, extra={"worker_id": worker_id})


def _check_id(worker_id: str) -> None:
    # What cannot be the id of a worker must not reach a NATS subject.
    if not re.fullmatch(WORKER_ID_PATTERN, worker_id):
        raise WorkerNotFound(f"there is no worker {shortened(worker_id)}")


def _view(gateway: Gateway, record: WorkerRecord) -> WorkerView:
    seen = record.observed_state(disconnect_timeout_sec=gateway.config.worker_disconnect_timeout_sec)
    fields = structs.asdict(record)
    del fields["drain_requested_at"]
    return WorkerView(**{**fields, "state": seen, "draining": record.draining})


def _rank(worker: WorkerView) -> tuple[bool, float, str]:
    """The living first, by name; then the others, whoever was seen last first."""
    alive = worker.state.alive
    return (not alive, 0.0 if alive else -worker.last_seen_at, worker.worker_id)


def _json(body: object) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
