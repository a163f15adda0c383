"""Calls about workers."""

from __future__ import annotations

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Request, call, given
from pyoco_server.http_client.response_types import Worker, WorkerChange, WorkerSetup


def list_workers(
    *,
    scope: str | None = None,
    state: str | None = None,
    include_hidden: bool = False,
    limit: int | None = None,
) -> Request[list[Worker]]:
    """The workers that are active; `scope="all"` or a `state` also finds those that are gone."""
    query = given(scope=scope, state=state, include_hidden="true" if include_hidden else None, limit=limit)
    return call(api.LIST_WORKERS, query)


def get_worker(worker_id: str) -> Request[Worker]:
    """One worker, hidden or not, whatever its state."""
    return call(api.GET_WORKER, worker_id=worker_id)


def get_worker_setup() -> Request[WorkerSetup]:
    """The command that adds a worker to the installation of this gateway."""
    return call(api.GET_WORKER_SETUP)


def update_worker(
    worker_id: str, *, hidden: bool | None = None, paused: bool | None = None, drain: bool | None = None
) -> Request[WorkerChange]:
    """Hide a worker, pause it (it takes no new runs), or have it finish what runs and end (drain)."""
    body = given(hidden=hidden, paused=paused, drain=drain)
    return call(api.PATCH_WORKER, body=body, worker_id=worker_id)
