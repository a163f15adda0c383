"""Hooks: deliveries of other systems, and the administration of hooks and of what is kept of deliveries."""

import secrets
from base64 import b64encode
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, TypeVar

from msgspec import UNSET, Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import hook_types as types
from pyoco_server.api.endpoints.triggers import hook_endpoints as endpoints
from pyoco_server.broker.stores.triggers.delivery_store import KeptDelivery
from pyoco_server.broker.stores.triggers.hook_messages import subject_of
from pyoco_server.errors import (
    DeliveryNotFound,
    DeliveryTooLarge,
    FieldProblem,
    HookNotFound,
    HookRefused,
    InvalidRequest,
)
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import caller_of, principal_of
from pyoco_server.http_api.requests.bodies import json_record, limited_body, optional_record
from pyoco_server.http_api.requests.idempotency_header import idempotency_key
from pyoco_server.http_api.requests.query import (
    QueryReader,
    choice,
    cursor_value,
    query_record,
    text_value,
    whole_number,
)
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routes.runs.submit_routes import checked_flow
from pyoco_server.http_api.routing import handles
from pyoco_server.http_api.trigger_services import Hooks
from pyoco_server.records.runs.run_models import encode
from pyoco_server.records.triggers.hook_models import (
    DeliveryStatus,
    DeliverySummary,
    HookKind,
    HookRecord,
    SignatureOptions,
    VisibleHook,
)
from pyoco_server.runs.index.pagination import SortKey
from pyoco_server.triggers.flow_binding import checked_binding
from pyoco_server.triggers.hooks.delivery_mapping import MappedDelivery, mapped
from pyoco_server.triggers.hooks.hook_receiver import DeliveryOutcome
from pyoco_server.triggers.hooks.hook_service import HookName
from pyoco_server.triggers.hooks.signatures import Incoming

T = TypeVar("T", bound=Struct)

_BINDING: Final = ("flow_name", "workflow_yaml", "params", "tag", "tags", "timeout_sec")
_MAX_ID: Final = 2**53


@handles(endpoints.RECEIVE_HOOK)
async def receive_hook(request: Request, hook_id: str) -> Response:
    hooks = _hooks(request)
    try:
        with hooks.bodies.reserving() as reserve:
            body = await limited_body(
                request,
                gateway_of(request).config.hook_body_max_bytes,
                field="",
                cure="have the sender send less, or raise PYOCO_HOOK_BODY_MAX_BYTES",
                error=DeliveryTooLarge,
                reserve=reserve,
            )
            outcome = await hooks.receiver.receive(hook_id, _incoming(request, body))
    except HookRefused:
        # Only to callers of the tenant: others cannot find out which hooks exist.
        if principal_of(request) is not None:
            tenant_id = caller_of(request).tenant_id
            if hooks.directory.get(tenant_id, hook_id) is None:
                raise HookNotFound(f"there is no hook {hook_id!r}") from None
        raise
    return _accepted(outcome)


@handles(endpoints.LIST_HOOKS)
async def list_hooks(request: Request) -> Response:
    gateway, hooks = gateway_of(request), _hooks(request)
    cursors = await gateway.cursors.get() if "cursor" in request.query_params else None
    reader = QueryReader(request, types.HookListQuery)
    tenant = caller_of(request).confined_to
    kind = reader.one("kind", choice(*HookKind), None)
    flow = reader.one("flow", text_value, None)
    text = reader.one("q", text_value, None)
    limit = reader.one("limit", whole_number(1, types.HOOK_LIMIT_MAX), types.HOOK_LIMIT_DEFAULT)
    bound_to = ("hooks", tenant, kind, flow, text)
    after = reader.one("cursor", cursor_value(cursors, bound_to), None)
    reader.check()
    await hooks.directory.caught_up()
    matching = [
        hook
        for hook in hooks.directory.hooks(tenant)
        if (kind is None or hook.kind == kind)
        and (flow is None or hook.flow_name == flow)
        and (text is None or _has_text(hook, text))
    ]
    rest = matching if after is None else [hook for hook in matching if _place(hook) > after]
    page = rest[:limit]
    next_cursor = None
    if len(rest) > limit:
        next_cursor = (await gateway.cursors.get()).write(_place(page[-1]), bound_to)
    items = [_view(request, hook) for hook in page]
    return json_response(types.HookPage(items=items, next_cursor=next_cursor, total=len(matching)))


@handles(endpoints.CREATE_HOOK)
async def create_hook(request: Request) -> Response:
    body = await _read(request, types.HookRequest)
    fields = _given(body)
    hook_id, secret = fields.pop("hook_id"), fields.pop("secret")
    fields["signature"] = fields["signature"] or SignatureOptions()
    fields |= await _checked_binding(request, fields)
    made = await _hooks(request).service.create(hook_id, caller_of(request), secret, **fields)
    return _with_secret(request, made.hook, made.secret, HTTPStatus.CREATED)


@handles(endpoints.GET_HOOK)
async def get_hook(request: Request, hook_id: str) -> Response:
    return json_response(_view(request, await _find(request, hook_id)))


@handles(endpoints.PATCH_HOOK)
async def patch_hook(request: Request, hook_id: str) -> Response:
    name = _name(request, hook_id)
    body = await _read(request, types.HookPatch)
    fields = _given(body)
    revision = fields.pop("revision", None)
    if not fields:
        message = f"nothing to change; give some of {', '.join(types.HookPatch.__struct_fields__)}"
        raise InvalidRequest(problems=[FieldProblem("", message)])
    if "signature" in fields:
        fields["signature"] = fields["signature"] or SignatureOptions()
    service = _hooks(request).service
    if any(field in _BINDING for field in fields):
        now = await service.find(name)
        whole = {field: getattr(now, field) for field in _BINDING} | fields
        checked = await _checked_binding(request, whole)
        fields |= {field: checked[field] for field in _BINDING if field in fields}
    return json_response(_view(request, await service.patch(name, fields, revision=revision)))


@handles(endpoints.DELETE_HOOK)
async def delete_hook(request: Request, hook_id: str) -> Response:
    query = _query(request, types.DeleteHookQuery)
    revision = None if query.revision is UNSET else query.revision
    await _hooks(request).service.delete(_name(request, hook_id, query), revision=revision)
    return json_response(types.HookDeleted(hook_id=hook_id))


@handles(endpoints.ROTATE_HOOK)
async def rotate_hook(request: Request, hook_id: str) -> Response:
    name = _name(request, hook_id)
    body = await optional_record(request, types.RotateRequest, field="secret", cure="shorten the secret")
    made = await _hooks(request).service.rotate(name, body.secret, keep_sec=body.keep_sec)
    return _with_secret(request, made.hook, made.secret)


@handles(endpoints.FINISH_ROTATION)
async def finish_rotation(request: Request, hook_id: str) -> Response:
    hook = await _hooks(request).service.finish_rotation(_name(request, hook_id))
    return json_response(_view(request, hook))


@handles(endpoints.TEST_HOOK)
async def test_hook(request: Request, hook_id: str) -> Response:
    name = _name(request, hook_id)
    body = await _read(request, types.SampleDelivery, more=gateway_of(request).config.hook_body_max_bytes)
    hook = await _hooks(request).service.find(name)
    return json_response(_tested(hook, body))


@handles(endpoints.LIST_DELIVERIES)
async def list_deliveries(request: Request, hook_id: str) -> Response:
    gateway = gateway_of(request)
    cursors = await gateway.cursors.get() if "cursor" in request.query_params else None
    reader = QueryReader(request, types.DeliveryListQuery)
    tenant = reader.one("tenant", text_value, None)
    status = reader.one("status", choice(*DeliveryStatus), None)
    limit = reader.one("limit", whole_number(1, types.HOOK_LIMIT_MAX), types.HOOK_LIMIT_DEFAULT)
    bound_to = ("deliveries", hook_id, tenant, status)
    before = reader.one("cursor", cursor_value(cursors, bound_to), None)
    reader.check()
    service = _hooks(request).service
    hook = await service.find(HookName(hook_id, caller_of(request), tenant))
    kept = [each for each in await service.deliveries(hook) if status in (None, each.summary.status)]
    rest = kept if before is None else [each for each in kept if each.delivery_id < before.revision]
    page = rest[:limit]
    next_cursor = None
    if len(rest) > limit:
        next_cursor = (await gateway.cursors.get()).write(SortKey("", 0.0, page[-1].delivery_id), bound_to)
    items = [types.DeliveryItem(**_item(each)) for each in page]
    return json_response(types.DeliveryPage(items=items, next_cursor=next_cursor, total=len(kept)))


@handles(endpoints.GET_DELIVERY)
async def get_delivery(request: Request, hook_id: str, delivery_id: str) -> Response:
    hook = await _find(request, hook_id)
    number = _delivery_number(delivery_id)
    return json_response(_whole(await _hooks(request).service.delivery(hook, number)))


@handles(endpoints.REDELIVER)
async def redeliver(request: Request, hook_id: str, delivery_id: str) -> Response:
    name = _name(request, hook_id)
    body = await optional_record(request, types.RedeliverRequest, field="new_run", cure="send less")
    key = idempotency_key(request)
    hook = await _hooks(request).service.find(name)
    number = _delivery_number(delivery_id)
    new_key = f"redelivery:{number}:{key or secrets.token_hex(16)}" if body.new_run else None
    outcome = await _hooks(request).service.redeliver(hook, number, new_key=new_key)
    return json_response(
        types.Redelivered(
            run_id=outcome.run_id,
            duplicate=outcome.is_duplicate,
            reason=outcome.reason or UNSET,
            status=outcome.status,
        )
    )


def _hooks(request: Request) -> Hooks:
    return gateway_of(request).hooks


def _incoming(request: Request, body: bytes) -> Incoming:
    headers: dict[str, str] = {}
    for raw_name, raw_value in request.scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        # Several lines of one name are one list.
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Incoming(
        headers=headers,
        body=body,
        query=dict(request.query_params),
        client_ip=None if request.client is None else request.client.host,
    )


def _accepted(outcome: DeliveryOutcome) -> Response:
    accepted = types.DeliveryAccepted(
        run_id=outcome.run_id, duplicate=outcome.is_duplicate, reason=outcome.reason or UNSET
    )
    return json_response(accepted, status=outcome.http_status)


_EXPECTED: Final = {
    "tenant": "expected the tenant of the hook (letters, digits, _ or -), or `=` for none",
    "revision": "expected the revision of the hook, a whole number",
}


def _query(request: Request, kind: type[T]) -> T:
    expected = {name: _EXPECTED[name] for name in kind.__struct_fields__}
    return query_record(request, kind, expected, InvalidRequest)


def _name(request: Request, hook_id: str, query: types.HookTenantQuery | None = None) -> HookName:
    query = query or _query(request, types.HookTenantQuery)
    return HookName(hook_id, caller_of(request), None if query.tenant is UNSET else query.tenant)


async def _find(request: Request, hook_id: str) -> HookRecord:
    return await _hooks(request).service.find(_name(request, hook_id))


def _delivery_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and 0 < int(text) <= _MAX_ID):
        raise DeliveryNotFound(f"the id of a delivery is a number, not {text[:80]!r}")
    return int(text)


async def _read(request: Request, kind: type[T], *, more: int = 0) -> T:
    """A record that may contain a flow.yaml, whose line ends and quotes take two bytes each in JSON."""
    config = gateway_of(request).config
    body = await limited_body(
        request,
        config.max_run_snapshot_bytes + 2 * config.workflow_yaml_max_bytes + more,
        field="params",
        cure="pass a reference to large data",
    )
    return json_record(body or b"{}", kind)


async def _checked_binding(request: Request, fields: dict[str, Any]) -> dict[str, Any]:
    """What is started, checked as a submit."""
    given = {name: fields[name] for name in _BINDING}
    binding = await checked_binding(gateway_of(request).config, checked_flow, **given)
    return structs.asdict(binding)


def _given(record: Struct) -> dict[str, Any]:
    return {name: value for name, value in structs.asdict(record).items() if value is not UNSET}


def _place(hook: HookRecord) -> SortKey:
    # A space is before every character of an id.
    return SortKey(f"{hook.hook_id} {hook.key}", 0.0, 0)


def _has_text(hook: HookRecord, text: str) -> bool:
    return any(text.lower() in each.lower() for each in (hook.hook_id, hook.flow_name, hook.note, *hook.tags))


def _view_fields(request: Request, hook: HookRecord) -> dict[str, Any]:
    config = gateway_of(request).config
    fields = {name: getattr(hook, name) for name in VisibleHook.__struct_fields__}
    path = f"/hooks/{hook.hook_id}"
    is_nats = hook.kind is HookKind.NATS
    return fields | {
        "signature": types.SignatureView(**structs.asdict(hook.signature)),
        "secrets": [
            types.SecretView(secret_id=each.secret_id, created_at=each.created_at, expires_at=each.expires_at)
            for each in hook.secrets
        ],
        "path": path,
        "url": f"{config.public_url.rstrip('/')}{path}" if config.public_url and not is_nats else None,
        "subject": subject_of(config, hook.tenant_id, hook.hook_id) if is_nats else None,
    }


def _view(request: Request, hook: HookRecord) -> types.HookView:
    return types.HookView(**_view_fields(request, hook))


def _with_secret(
    request: Request, hook: HookRecord, secret: str | None, status: int = HTTPStatus.OK
) -> Response:
    view = types.HookWithSecret(**_view_fields(request, hook), secret=secret)
    return json_response(view, status=status)


def _tested(hook: HookRecord, sample: types.SampleDelivery) -> types.TestedDelivery:
    headers = {name.lower(): value for name, value in sample.headers.items()}
    headers.setdefault("content-type", "application/json")
    body = b"" if sample.body is None else encode(sample.body)
    delivery = Incoming(headers=headers, body=body, query=sample.query)
    problems: list[types.MappingProblem] = []
    found = MappedDelivery({}, [], None)
    try:
        found = mapped(hook, delivery)
    except InvalidRequest as error:
        problems = [
            types.MappingProblem(field=each.field, message=str(replace(each, field="")))
            for each in error.problems
        ]
    return types.TestedDelivery(
        matched=not problems and found.ignored is None,
        reason=found.ignored,
        params=found.params | hook.params,
        missing=found.missing,
        idempotency_key=found.key,
        problems=problems,
        flow_name=hook.flow_name,
        tag=hook.tag,
    )


def _item(kept: KeptDelivery) -> dict[str, Any]:
    fields = {name: getattr(kept.summary, name) for name in DeliverySummary.__struct_fields__}
    return fields | {"delivery_id": kept.delivery_id}


def _whole(kept: KeptDelivery) -> types.DeliveryView:
    content = kept.content
    assert content is not None
    body, is_base64 = None, False
    if content.body is not None:
        try:
            body = content.body.decode()
        except UnicodeDecodeError:
            body, is_base64 = b64encode(content.body).decode(), True
    return types.DeliveryView(
        **_item(kept),
        headers=content.headers,
        query=content.query,
        body=body,
        body_is_base64=is_base64,
        params=content.params,
        answer=content.answer,
    )
