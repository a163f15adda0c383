"""The registry of wheels."""

import asyncio
import logging
import re
from typing import Final

from msgspec import UNSET, structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server import errors
from pyoco_server.api.endpoints.endpoint import BYTES
from pyoco_server.api.endpoints.workers import wheel_endpoints as endpoints
from pyoco_server.api.wheel_types import WheelDeleted, WheelFields, WheelHistoryQuery, WheelView
from pyoco_server.broker.stores.workers.wheel_history import new_event
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.bodies import form_record
from pyoco_server.http_api.requests.multipart import FileField, OpenForm, open_form, reject_unread
from pyoco_server.http_api.requests.query import query_record
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.downloads import Download, download_response
from pyoco_server.http_api.routing import handles
from pyoco_server.records.value_types import TAG_EXPECTED, TAG_PATTERN
from pyoco_server.records.workers.wheel_models import Source, WheelAction, WheelActor, WheelEvent
from pyoco_server.runs.lifecycle.tenancy import Caller
from pyoco_server.wheels.wheel_inspection import MAX_UNPACKED_RATIO, InvalidWheel, inspect_wheel
from pyoco_server.wheels.wheel_name import InvalidWheelName, WheelName
from pyoco_server.wheels.wheel_registry import StoredWheel

log = logging.getLogger(__name__)

# An upload must not keep one of the few slots for longer.
_UPLOAD_SEC: Final = 900.0
_RETRY_AFTER_SEC: Final = 10
_MOST_TAGS: Final = 50
_LONGEST_HEADER: Final = 500
_EXPECTED: Final = {
    "limit": "expected a number from 1 to 500",
    "wheel_name": "expected a wheel's name, *.whl",
    "action": "expected upload or delete",
}


@handles(endpoints.LIST_WHEELS)
async def list_wheels(request: Request) -> Response:
    registry = gateway_of(request).wheels.registry
    return json_response([_view(registry.bucket, wheel) for wheel in await registry.all()])


@handles(endpoints.WHEEL_HISTORY)
async def wheel_history(request: Request) -> Response:
    query = query_record(request, WheelHistoryQuery, _EXPECTED, errors.InvalidRequest)
    if query.wheel_name is not UNSET and not query.wheel_name.endswith(".whl"):
        raise _invalid("wheel_name", _EXPECTED["wheel_name"], query.wheel_name)
    history, caller = gateway_of(request).wheels.history, caller_of(request)
    events = await history.newest(
        query.limit, wheel_name=query.wheel_name or None, action=query.action or None
    )
    return json_response([_visible_to(caller, event) for event in events])


@handles(endpoints.UPLOAD_WHEEL)
async def upload_wheel(request: Request) -> Response:
    gateway = gateway_of(request)
    expected = FileField(
        "wheel", gateway.config.wheel_max_bytes, errors.WheelTooLarge, "PYOCO_WHEEL_MAX_BYTES", _UPLOAD_SEC
    )
    if gateway.wheels.uploads.locked():
        busy = errors.UploadsBusy("as many wheels as can be taken at once are under way")
        busy.retry_after_sec = _RETRY_AFTER_SEC
        await reject_unread(request, request.stream(), busy)
    # Each upload may need a temporary file as large as a wheel may be.
    async with gateway.wheels.uploads, open_form(request, expected) as form:
        fields = form_record(form.fields, WheelFields)
        tags = _tags_in(fields.tags)
        wheel = await _add(gateway, form, tags)
    await _record(request, WheelAction.UPLOAD, wheel, replace=fields.replace)
    return json_response(_view(gateway.wheels.registry.bucket, wheel))


@handles(endpoints.DOWNLOAD_WHEEL)
async def download_wheel(request: Request, wheel_name: str) -> Response:
    registry = gateway_of(request).wheels.registry
    wheel = await registry.find(wheel_name)
    download = Download(
        name=wheel.name.file_name,
        size=wheel.stored.size,
        etag=wheel.stored.nuid,
        media_type=BYTES,
        read=lambda start, _: registry.read(wheel, start=start),
        headers={"Content-Disposition": f'attachment; filename="{wheel.name.file_name}"'},
    )
    return await download_response(request, download)


@handles(endpoints.DELETE_WHEEL)
async def delete_wheel(request: Request, wheel_name: str) -> Response:
    wheel = await gateway_of(request).wheels.registry.remove(wheel_name)
    await _record(request, WheelAction.DELETE, wheel, replace=None)
    return json_response(WheelDeleted(name=wheel.name.file_name))


async def _add(gateway: Gateway, form: OpenForm, tags: list[str]) -> StoredWheel:
    file_name = form.file.filename or ""
    try:
        name = WheelName.parse(file_name)
    except InvalidWheelName as wrong:
        raise _invalid("wheel", str(wrong), file_name) from None
    # Before the inspection, which takes a while for a large wheel.
    await gateway.wheels.registry.check_version(name)
    most = MAX_UNPACKED_RATIO * gateway.config.wheel_max_bytes
    try:
        python = await asyncio.to_thread(inspect_wheel, form.file.file, name, max_unpacked_bytes=most)
    except InvalidWheel as wrong:
        raise _invalid("wheel", str(wrong), file_name) from None
    return await gateway.wheels.registry.add(name, form.file.file, tags, python)


def _tags_in(text: str) -> list[str]:
    tags = list(dict.fromkeys(tag for part in text.split(",") if (tag := part.strip())))
    if len(tags) > _MOST_TAGS:
        raise _invalid("tags", f"expected at most {_MOST_TAGS} tags", text)
    for tag in tags:
        if not re.fullmatch(TAG_PATTERN, tag):
            raise _invalid("tags", f"the tag {errors.shortened(tag)}: {TAG_EXPECTED}", text)
    return tags


async def _record(request: Request, action: WheelAction, wheel: StoredWheel, *, replace: bool | None) -> None:
    """Add to the history. A failure is logged only: the change itself is done."""
    event = new_event(
        action,
        wheel.name.file_name,
        tags=wheel.tags,
        size_bytes=wheel.stored.size,
        sha256_hex=wheel.sha256_hex,
        replace=replace,
        actor=_actor_of(request),
        source=_source_of(request),
    )
    try:
        await gateway_of(request).wheels.history.add(event)
    except errors.NatsUnavailable as error:
        log.error("%s of %s is not in the history: %s", action, event.wheel_name, error)


def _actor_of(request: Request) -> WheelActor:
    caller = caller_of(request)
    return WheelActor(tenant_id=caller.tenant_id, api_key_id=caller.api_key_id)


def _visible_to(caller: Caller, event: WheelEvent) -> WheelEvent:
    """Wheels are shared between tenants; the actor and source of another tenant are hidden."""
    if caller.sees(event.actor.tenant_id):
        return event
    return structs.replace(event, actor=WheelActor(), source=Source())


def _source_of(request: Request) -> Source:
    def header(name: str) -> str | None:
        value = request.headers.get(name)
        return None if value is None else value[:_LONGEST_HEADER]

    return Source(
        remote_addr=None if request.client is None else request.client.host,
        x_forwarded_for=header("x-forwarded-for"),
        x_real_ip=header("x-real-ip"),
        user_agent=header("user-agent"),
        host=header("host"),
        scheme=request.scope["scheme"],
    )


def _view(bucket: str, wheel: StoredWheel) -> WheelView:
    stored = wheel.stored
    return WheelView(
        name=stored.name,
        size_bytes=stored.size,
        bucket=bucket,
        nuid=stored.nuid,
        modified=stored.modified,
        sha256_hex=wheel.sha256_hex,
        tags=wheel.tags,
    )


def _invalid(field: str, message: str, value: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(
        problems=[errors.FieldProblem(field, message, value=errors.shortened(value))]
    )
