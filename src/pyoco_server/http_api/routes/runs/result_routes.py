"""What a run and its tasks returned."""

from collections.abc import AsyncIterator
from functools import partial
from hashlib import sha256
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api.endpoints.endpoint import JSON
from pyoco_server.api.endpoints.runs.run_endpoints import GET_RESULT, GET_TASK_OUTPUT
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.runs.run_object_store import BYTES_TYPE, RunObjectGone, RunObjects
from pyoco_server.broker.stores.runs.run_store import StoredRun
from pyoco_server.errors import ResultNotFound
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.responses.downloads import Download, ReadRange, download_response
from pyoco_server.http_api.routes.runs.run_routes import assure_authentic
from pyoco_server.http_api.routing import handles
from pyoco_server.records.runs.run_models import RunSnapshot
from pyoco_server.records.runs.task_outputs import StoredOutput
from pyoco_server.runs.lifecycle.run_result import TaskValue, output_of, result_of
from pyoco_server.runs.lifecycle.tenancy import find_run

_REMOVED: Final = "the stored value was removed"


@handles(GET_RESULT)
async def get_result(request: Request, run_id: str) -> Response:
    return await _value_response(request, run_id, None)


@handles(GET_TASK_OUTPUT)
async def get_task_output(request: Request, run_id: str, task: str) -> Response:
    return await _value_response(request, run_id, task)


async def _value_response(request: Request, run_id: str, task: str | None) -> Response:
    gateway = gateway_of(request)
    run = await _run_with_end(request, run_id)
    value = result_of(run.snapshot) if task is None else output_of(run.snapshot, task)
    if value.content is not None:
        return await download_response(request, _inline(value, value.content))
    if value.stored is None:
        raise ResultNotFound(f"what the task {value.task} returned was not stored: {value.why_cut}")
    await assure_authentic(request, run, ResultNotFound)
    try:
        return await download_response(
            request, await _stored(gateway.connection, run.snapshot, value, value.stored)
        )
    except RunObjectGone as gone:
        raise ResultNotFound(_REMOVED) from gone


async def _run_with_end(request: Request, run_id: str) -> StoredRun:
    """From a replica if it has ended there, else from the leader.

    A replica that lags would deny what the caller has seen.
    """
    store, caller = gateway_of(request).runs.store, caller_of(request)
    run = await find_run(store, run_id, caller, from_leader=False)
    return run if run.snapshot.status.terminal else await find_run(store, run_id, caller)


def _inline(value: TaskValue, content: bytes) -> Download:
    async def read(start: int, stop: int) -> AsyncIterator[bytes]:
        yield content[start:stop]

    return _download(value, sha256(content).hexdigest(), read)


async def _stored(
    connection: Connection, run: RunSnapshot, value: TaskValue, stored: StoredOutput
) -> Download:
    objects = RunObjects(connection)
    found = await objects.find(run.tag, run.run_id, stored.name)
    if found is None or found.sha256 != stored.sha256 or found.bytes != stored.bytes:
        raise ResultNotFound(_REMOVED)
    return _download(value, found.sha256, partial(objects.read, run.tag, run.run_id, found))


def _download(value: TaskValue, digest: str, read: ReadRange) -> Download:
    return Download(
        name=f"the output of {value.task}",
        size=value.size,
        etag=digest,
        media_type=BYTES_TYPE if value.is_bytes else JSON,
        read=read,
    )
