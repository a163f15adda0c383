"""The artifacts of a run: their list, and each file."""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api.endpoints.endpoint import BYTES
from pyoco_server.api.endpoints.runs.run_endpoints import GET_ARTIFACT, LIST_ARTIFACTS
from pyoco_server.api.run_types import ArtifactQuery, ArtifactsView, ArtifactView
from pyoco_server.broker.stores.runs.run_object_store import RunObject, RunObjectGone, RunObjects
from pyoco_server.errors import ArtifactNotFound, InvalidRequest, shortened
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.query import query_record
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.downloads import Download, attachment, download_response
from pyoco_server.http_api.routes.runs.run_routes import assure_authentic
from pyoco_server.http_api.routing import handles
from pyoco_server.records.runs.artifact_models import (
    ArtifactSummary,
    InvalidArtifactName,
    artifact_name,
    artifact_of,
    object_name,
)
from pyoco_server.records.runs.run_models import RunSnapshot
from pyoco_server.runs.lifecycle.tenancy import find_run

# What a browser shows without executing anything: no SVG, which may contain scripts.
_IMAGES: Final = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp", "image/x-icon"}
)
_TEXTS: Final = frozenset({"application/json", "application/x-ndjson", "application/jsonl"})
_PLAIN: Final = "text/plain; charset=utf-8"
_TYPE: Final = re.compile(r"[a-z0-9]{1,40}/[A-Za-z0-9.+-]{1,100}")
# Nothing of a file is executed, also where a browser would show it.
_POLICY: Final = {"Content-Security-Policy": "sandbox"}
_EXPECTED: Final = {"disposition": "expected attachment or inline"}


@handles(LIST_ARTIFACTS)
async def list_artifacts(request: Request, run_id: str) -> Response:
    run = await _authentic_run(request, run_id)
    objects = await RunObjects(gateway_of(request).connection).entries(run.tag, run_id)
    summary = run.artifacts or ArtifactSummary()
    named = ((artifact_of(each.name), each) for each in objects)
    views = [_view(name, each) for name, each in named if name is not None]
    return json_response(
        ArtifactsView(
            run_id=run_id,
            artifacts=views,
            bytes=sum(view.bytes for view in views),
            left_out=summary.left_out,
            left_out_count=summary.left_out_count,
        )
    )


@handles(GET_ARTIFACT)
async def get_artifact(request: Request, run_id: str, name: str) -> Response:
    query = query_record(request, ArtifactQuery, _EXPECTED, InvalidRequest)
    run = await _authentic_run(request, run_id)
    objects = RunObjects(gateway_of(request).connection)
    stored = await _found(objects, run.tag, run_id, name)
    media_type = _type_of(stored)
    shown = _shown_as(media_type) if query.disposition == "inline" else None
    download = Download(
        name=f"{run_id}/{name}",
        size=stored.bytes,
        etag=stored.sha256,
        media_type=media_type,
        read=lambda start, stop: objects.read(run.tag, run_id, stored, start, stop),
        headers={
            **_POLICY,
            # Here, since a charset would be added to the media type of a text.
            "Content-Type": shown or media_type,
            "Content-Disposition": "inline" if shown else attachment(name.rpartition("/")[2]),
        },
    )
    try:
        return await download_response(request, download)
    except RunObjectGone as gone:
        raise ArtifactNotFound(f"{shortened(name)} was replaced or removed meanwhile: get it again") from gone


async def _authentic_run(request: Request, run_id: str) -> RunSnapshot:
    run = await find_run(gateway_of(request).runs.store, run_id, caller_of(request), from_leader=False)
    await assure_authentic(request, run, ArtifactNotFound)
    return run.snapshot


async def _found(objects: RunObjects, tag: str, run_id: str, name: str) -> RunObject:
    try:
        stored = await objects.find(tag, run_id, object_name(artifact_name(name)))
    except InvalidArtifactName:
        stored = None
    if stored is None:
        raise ArtifactNotFound(f"the run {run_id} has no artifact {shortened(name)}")
    return stored


def _view(name: str, stored: RunObject) -> ArtifactView:
    return ArtifactView(
        name=name,
        bytes=stored.bytes,
        sha256=stored.sha256,
        content_type=_type_of(stored),
        task=stored.details.get("task"),
        created_at=stored.created_at,
    )


def _type_of(stored: RunObject) -> str:
    """Workers write it, and it becomes a header."""
    return stored.content_type if _TYPE.fullmatch(stored.content_type) else BYTES


def _shown_as(media_type: str) -> str | None:
    """The type under which a browser may show it; None for what it has to save."""
    if media_type in _IMAGES:
        return media_type
    return _PLAIN if media_type.startswith("text/") or media_type in _TEXTS else None
