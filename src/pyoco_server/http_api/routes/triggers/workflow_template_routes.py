"""Workflow templates and actions: what an event starts."""

from datetime import UTC
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import workflow_event_types as types
from pyoco_server.api.endpoints.triggers import workflow_event_endpoints as endpoints
from pyoco_server.errors import FieldProblem, InvalidRequest, shortened
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.bodies import json_record, limited_body
from pyoco_server.http_api.requests.query import QueryReader, choice, text_value, whole_number
from pyoco_server.http_api.requests.workflow_event_body import workflow_event_body
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routes.runs.submit_routes import checked_flow
from pyoco_server.http_api.routing import handles
from pyoco_server.records.moments import iso_time, parse_moment
from pyoco_server.records.triggers.trigger_models import (
    ACTION_KEY_EXPECTED,
    ActionRecord,
    FlowBinding,
    TemplateRecord,
    TemplateStep,
    TriggerKind,
    is_action_key,
)
from pyoco_server.runs.lifecycle.tenancy import Caller
from pyoco_server.triggers.flow_binding import checked_binding
from pyoco_server.triggers.workflow_events.event_submission import read_event
from pyoco_server.triggers.workflow_events.template_service import (
    check_template,
    new_template_id,
    trigger_kind_of,
)

_TEMPLATE_BYTES: Final = 256 * 1024
_SORTS: Final = ("name", "updated_at", "created_at")
_MOST_OFFSET: Final = 1_000_000


@handles(endpoints.LIST_TEMPLATES)
async def list_templates(request: Request) -> Response:
    reader = QueryReader(request, types.TemplateListQuery)
    search = reader.one("search", text_value, None)
    sort = reader.one("sort", choice(*_SORTS, *(f"-{name}" for name in _SORTS)), "-updated_at")
    limit = reader.one("limit", whole_number(1, types.TEMPLATE_LIMIT_MAX), types.TEMPLATE_LIMIT_DEFAULT)
    offset = reader.one("offset", whole_number(0, _MOST_OFFSET), 0)
    reader.check()
    found = await gateway_of(request).workflow_events.templates.visible(caller_of(request))
    matching = [each for each in found if search is None or _matches(each, search.casefold())]
    matching.sort(key=lambda each: (getattr(each, sort.removeprefix("-")), each.id), reverse=sort[0] == "-")
    items = [_template(each) for each in matching[offset : offset + limit]]
    return json_response(types.TemplateList(items=items, total=len(matching)))


@handles(endpoints.SAVE_TEMPLATE)
async def save_template(request: Request) -> Response:
    body = await limited_body(request, _TEMPLATE_BYTES, field="steps", cure="shorten the notes or the steps")
    asked = json_record(body, types.TemplateRequest)
    gateway = gateway_of(request)
    caller = caller_of(request)
    template = _record(asked, caller, gateway.timekeeper.now())
    check_template(template)
    base = _moment_read(asked.base_updated_at)
    is_base = None if base is None else lambda updated_at: iso_time(updated_at) == base
    saved = await gateway.workflow_events.templates.save(template, caller, is_base=is_base)
    return json_response(types.TemplateSaved(template=_template(saved.template), created=saved.created))


def _moment_read(text: str | None) -> str | None:
    """The `updated_at` that a client has read, in our form: clients may have parsed and written it."""
    if text is None:
        return None
    try:
        return iso_time(parse_moment(text, zone=UTC))
    except ValueError:
        message = "must be the `updated_at` of the template, in ISO 8601; read the template again"
        raise InvalidRequest(
            problems=[FieldProblem("base_updated_at", message, value=shortened(text))]
        ) from None


@handles(endpoints.GET_TEMPLATE)
async def get_template(request: Request, template_id: str) -> Response:
    stored = await gateway_of(request).workflow_events.templates.find(template_id, caller_of(request))
    return json_response(_template(stored.record))


@handles(endpoints.DELETE_TEMPLATE)
async def delete_template(request: Request, template_id: str) -> Response:
    await gateway_of(request).workflow_events.templates.delete(template_id, caller_of(request))
    return json_response(types.TemplateDeleted(id=template_id))


@handles(endpoints.TEST_TEMPLATE)
async def test_template(request: Request, template_id: str) -> Response:
    caller = caller_of(request)
    parts = gateway_of(request).workflow_events
    template = (await parts.templates.find(template_id, caller)).record
    event = read_event(await workflow_event_body(request), request.headers.get("x-idempotency-key"))
    tested = await parts.service.test(event, template, template.tenant_id)
    problem = tested.problem
    return json_response(
        types.TemplateTested(
            template_id=template.id,
            template_name=template.name,
            action_key=template.first.action,
            flow_name=None if tested.binding is None else tested.binding.flow_name,
            tag=None if tested.binding is None else tested.binding.tag,
            params=tested.params,
            idempotency_key=tested.idempotency_key,
            problem=None if problem is None else problem.detail,
            problem_status=None if problem is None else problem.error.status,
        )
    )


@handles(endpoints.LIST_ACTIONS)
async def list_actions(request: Request) -> Response:
    caller = caller_of(request)
    actions = gateway_of(request).workflow_events.actions
    stored = await actions.visible(caller)
    own = {each.action_key for each in stored if each.tenant_id == caller.tenant_id}
    implied = sorted((await actions.implied()).items())
    items = [_action(each) for each in stored]
    items += [_implied(flow, binding) for flow, binding in implied if flow not in own]
    return json_response(types.WorkflowActionList(items=items, total=len(items)))


@handles(endpoints.GET_ACTION)
async def get_action(request: Request, key: str) -> Response:
    stored = await gateway_of(request).workflow_events.actions.find(key, caller_of(request))
    return json_response(_action(stored.record))


@handles(endpoints.PUT_ACTION)
async def put_action(request: Request, key: str) -> Response:
    if not is_action_key(key):
        problem = FieldProblem("key", ACTION_KEY_EXPECTED, value=shortened(key))
        raise InvalidRequest(problems=[problem])
    gateway = gateway_of(request)
    config = gateway.config
    most = config.max_run_snapshot_bytes + 2 * config.workflow_yaml_max_bytes
    body = await limited_body(request, most, field="params", cure="pass a reference to large data")
    asked = json_record(body, types.WorkflowActionRequest)
    fields: dict[str, Any] = {name: getattr(asked, name) for name in asked.__struct_fields__}
    binding = await checked_binding(config, checked_flow, **fields)
    saved = await gateway.workflow_events.actions.save(key, binding, caller_of(request))
    return json_response(types.WorkflowActionSaved(action=_action(saved.action), created=saved.created))


@handles(endpoints.DELETE_ACTION)
async def delete_action(request: Request, key: str) -> Response:
    await gateway_of(request).workflow_events.actions.delete(key, caller_of(request))
    return json_response(types.WorkflowActionDeleted(key=key))


def _matches(template: TemplateRecord, text: str) -> bool:
    texts = (template.id, template.name, template.notes, *(step.action for step in template.steps))
    return any(text in each.casefold() for each in texts)


def _record(asked: types.TemplateRequest, caller: Caller, now: float) -> TemplateRecord:
    return TemplateRecord(
        id=asked.id or new_template_id(),
        name=asked.name.strip(),
        year=asked.year,
        month=asked.month,
        mfcloud_url=asked.mfcloud_url.strip(),
        notes=asked.notes,
        steps=[_step(step, position) for position, step in enumerate(asked.steps)],
        overlap=asked.overlap,
        created_at=now,
        updated_at=now,
        tenant_id=caller.tenant_id,
        api_key_id=caller.api_key_id,
    )


def _step(step: types.StepInput, position: int) -> TemplateStep:
    try:
        kind = trigger_kind_of(step.trigger_kind, position)
    except ValueError:
        field = f"steps[{position}].trigger_kind"
        message = f"expected one of {', '.join(TriggerKind)}"
        raise InvalidRequest(
            problems=[FieldProblem(field, message, value=shortened(step.trigger_kind))]
        ) from None
    return TemplateStep(
        id=step.id or f"step-{position + 1}",
        title=step.title,
        action=step.action.strip(),
        trigger_kind=kind,
        execution_mode=step.execution_mode,
        timer_minutes=step.timer_minutes,
    )


def _template(template: TemplateRecord) -> types.TemplateView:
    steps = [
        types.StepView(**{name: getattr(step, name) for name in types.StepView.__struct_fields__})
        for step in template.steps
    ]
    shown = {name: getattr(template, name) for name in types.TemplateView.__struct_fields__}
    times = {name: iso_time(getattr(template, name)) for name in ("created_at", "updated_at")}
    return types.TemplateView(**{**shown, **times, "steps": steps})


def _action(action: ActionRecord) -> types.WorkflowActionView:
    return _action_view(
        action.action_key,
        action.binding,
        implied=False,
        created_at=iso_time(action.created_at),
        updated_at=iso_time(action.updated_at),
        tenant_id=action.tenant_id,
    )


def _implied(flow: str, binding: FlowBinding) -> types.WorkflowActionView:
    return _action_view(flow, binding, implied=True, created_at=None, updated_at=None, tenant_id=None)


def _action_view(key: str, binding: FlowBinding, **others: Any) -> types.WorkflowActionView:
    shown = {name: getattr(binding, name) for name in binding.__struct_fields__}
    has_yaml = binding.workflow_yaml is not None
    return types.WorkflowActionView(key=key, has_workflow_yaml=has_yaml, **shown, **others)
