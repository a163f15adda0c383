"""Workers: list them, read one, and hide, pause or drain it."""

import logging
import re
import time
from collections.abc import Iterator

from msgspec import UNSET, structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server import errors
from pyoco_server.api.endpoints.workers.worker_endpoints import (
    GET_WORKER,
    GET_WORKER_SETUP,
    LIST_WORKERS,
    PATCH_WORKER,
)
from pyoco_server.api.worker_types import WorkerChanged, WorkerPatch, WorkerSetup, WorkersQuery, WorkerView
from pyoco_server.broker.queue.wake_up import wake_worker
from pyoco_server.config import joining_worker
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.principal import actor_of, caller_of
from pyoco_server.http_api.requests.bodies import optional_record
from pyoco_server.http_api.requests.query import query_record
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routing import handles
from pyoco_server.records.value_types import WORKER_ID_PATTERN
from pyoco_server.records.waits.wait_models import Actor
from pyoco_server.records.workers.worker_models import (
    WorkerEvent,
    WorkerEventKind,
    WorkerRecord,
    WorkerState,
    with_events,
)
from pyoco_server.runs.explain.visible_workers import workers_seen_by

log = logging.getLogger(__name__)

# What a parameter may be, for the error message.
_EXPECTED = {
    "scope": "expected active or all",
    "state": f"expected one of {', '.join(WorkerState)}",
    "include_hidden": "expected true or false",
    "limit": "expected a number from 1 to 500",
}


@handles(LIST_WORKERS)
async def list_workers(request: Request) -> Response:
    gateway = gateway_of(request)
    query = query_record(request, WorkersQuery, _EXPECTED, errors.InvalidWorkersRequest)
    records = await workers_seen_by(caller_of(request), await gateway.workers.all(), gateway.listing.lists)
    # GET /workers/{worker_id} has the history.
    views = [_view(gateway, structs.replace(record, history=[])) for record in records]
    chosen = sorted((view for view in views if _is_listed(view, query)), key=_rank)
    return json_response(chosen[: query.limit])


@handles(GET_WORKER)
async def get_worker(request: Request, worker_id: str) -> Response:
    gateway = gateway_of(request)
    _check_id(worker_id)
    record = await gateway.workers.get(worker_id)
    if record is None:
        raise errors.WorkerNotFound(f"there is no worker {worker_id!r}")
    [seen] = await workers_seen_by(caller_of(request), [record], gateway.listing.lists)
    return json_response(_view(gateway, seen))


@handles(GET_WORKER_SETUP)
async def get_worker_setup(request: Request) -> Response:
    config = gateway_of(request).config
    setup = WorkerSetup(
        command=joining_worker.worker_command(config),
        needs_credentials=joining_worker.needs_credentials(config),
        local=joining_worker.is_local(config),
    )
    return json_response(setup)


@handles(PATCH_WORKER)
async def patch_worker(request: Request, worker_id: str) -> Response:
    gateway = gateway_of(request)
    patch = await _read_patch(request)
    _check_id(worker_id)
    actor = actor_of(request)
    record = await gateway.workers.change(worker_id, lambda record: _patched(record, patch, actor))
    if patch.paused is not UNSET or patch.drain is not UNSET:
        await _notify(gateway, worker_id)
    view = _view(gateway, record)
    changed = WorkerChanged(
        worker_id=worker_id,
        hidden=view.hidden,
        paused=view.paused,
        draining=view.draining,
        state=view.state,
        updated_at=time.time(),
    )
    return json_response(changed)


async def _read_patch(request: Request) -> WorkerPatch:
    cure = "a worker is told to be hidden or paused, or to drain"
    try:
        patch = await optional_record(request, WorkerPatch, field="", cure=cure)
    except errors.InvalidRequest as error:
        raise errors.InvalidWorkersRequest(problems=error.problems) from None
    if patch == WorkerPatch():
        problem = errors.FieldProblem(
            "hidden", "the field is missing; expected at least one of hidden, paused, drain"
        )
        raise errors.InvalidWorkersRequest(problems=[problem])
    if patch.drain is False:
        message = "a drain cannot be taken back; expected true, or leave it out"
        raise errors.InvalidWorkersRequest(
            problems=[errors.FieldProblem("drain", message, value=errors.shortened_json(False))]
        )
    return patch


async def _notify(gateway: Gateway, worker_id: str) -> None:
    try:
        await wake_worker(gateway.connection, worker_id)
    except errors.NatsUnavailable as error:
        # The change is stored; the worker reads it with its next heartbeat.
        log.info("worker %s was not notified at once: %s", worker_id, error, extra={"worker_id": worker_id})


def _check_id(worker_id: str) -> None:
    # A malformed id must not reach a NATS subject.
    if not re.fullmatch(WORKER_ID_PATTERN, worker_id):
        raise errors.WorkerNotFound(f"there is no worker {errors.shortened(worker_id)}")


def _view(gateway: Gateway, record: WorkerRecord) -> WorkerView:
    fields = structs.asdict(record)
    # GET /flows has the catalogue.
    del fields["drain_requested_at"], fields["catalogue"]
    return WorkerView(**{**fields, "state": gateway.state_of(record), "draining": record.draining})


def _is_listed(worker: WorkerView, query: WorkersQuery) -> bool:
    if worker.hidden and not query.include_hidden:
        return False
    if query.state is not UNSET and worker.state is not query.state:
        return False
    scope = query.scope or ("all" if query.state else "active")
    return scope == "all" or worker.state.alive


def _patched(record: WorkerRecord, patch: WorkerPatch, actor: Actor) -> WorkerRecord:
    """The record with the changes and their history; a worker that has stopped is not drained."""
    drains = patch.drain is True and record.state is not WorkerState.STOPPED_GRACEFUL
    now = time.time()
    changed = structs.replace(
        record,
        hidden=record.hidden if patch.hidden is UNSET else patch.hidden,
        paused=record.paused if patch.paused is UNSET else patch.paused,
        drain_requested_at=record.drain_requested_at or (now if drains else None),
    )
    by = actor.name or actor.api_key_id
    events = (
        WorkerEvent(at=now, kind=kind, by=by, tenant_id=actor.tenant_id) for kind in _changes(record, changed)
    )
    return structs.replace(changed, history=with_events(record.history, *events))


def _changes(before: WorkerRecord, after: WorkerRecord) -> Iterator[WorkerEventKind]:
    if after.paused != before.paused:
        yield WorkerEventKind.PAUSED if after.paused else WorkerEventKind.RESUMED
    if after.drain_requested_at != before.drain_requested_at:
        yield WorkerEventKind.DRAIN_REQUESTED
    if after.hidden != before.hidden:
        yield WorkerEventKind.HIDDEN if after.hidden else WorkerEventKind.SHOWN


def _rank(worker: WorkerView) -> tuple[bool, float, str]:
    """Living workers first, by name; then the others, the last seen first."""
    alive = worker.state.alive
    return (not alive, 0.0 if alive else -worker.last_seen_at, worker.worker_id)
