"""Waits for people: list them, read one, answer or change it, ask again."""

from typing import TypeVar

from msgspec import Raw, Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import wait_types
from pyoco_server.api.endpoints.runs.run_endpoints import RETRY_RUN
from pyoco_server.api.endpoints.waits.wait_endpoints import (
    EXTEND_WAIT,
    GET_WAIT,
    LIST_WAITS,
    REASSIGN_WAIT,
    RESPOND,
    RESUME,
    WITHDRAW_WAIT,
)
from pyoco_server.api.run_types import public_snapshot
from pyoco_server.errors import FieldProblem, InvalidRequest, WaitNotFound, shortened_json
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import actor_of, caller_of
from pyoco_server.http_api.requests.bodies import check_depth, json_record, limited_body, optional_record
from pyoco_server.http_api.requests.query import (
    QueryReader,
    choice,
    cursor_value,
    run_id_value,
    text_value,
    whole_number,
)
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routing import handles
from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.waits.wait_models import WaitRecord, WaitState, is_wait_id
from pyoco_server.runs.lifecycle.tenancy import hidden_from_others
from pyoco_server.waits.human.answers.answering import Answer
from pyoco_server.waits.human.reopen import retry_run
from pyoco_server.waits.human.wait_changes import ChangeRequest, WaitChanges
from pyoco_server.waits.index.wait_items import HUMAN, OPEN, WaitFilter

T = TypeVar("T", bound=Struct)


class _EncodedPage(Struct, kw_only=True):
    """A WaitPage whose items are encoded already."""

    items: list[Raw]
    next_cursor: str | None
    total: int


@handles(LIST_WAITS)
async def list_waits(request: Request) -> Response:
    gateway = gateway_of(request)
    # Without a cursor its key is not needed: a wrong query is refused even while NATS is not available.
    cursors = await gateway.cursors.get() if "cursor" in request.query_params else None
    reader = QueryReader(request, wait_types.WaitListQuery)
    selected = WaitFilter(
        tenant=caller_of(request).confined_to,
        kinds=frozenset(map(WaitKind, reader.each("kind", choice(*WaitKind)))) or HUMAN,
        states=frozenset(map(WaitState, reader.each("state", choice(*WaitState)))) or OPEN,
        run_id=reader.one("run_id", run_id_value, None),
        flow=reader.one("flow", text_value, None),
        tag=reader.one("tag", text_value, None),
        task=reader.one("task", text_value, None),
        assignee=reader.one("assignee", text_value, None),
    )
    limit = reader.one("limit", whole_number(1, wait_types.WAIT_LIMIT_MAX), wait_types.WAIT_LIMIT_DEFAULT)
    after = reader.one("cursor", cursor_value(cursors, selected), None)
    reader.check()
    page = await gateway.waits.lists.page(selected, limit=limit, after=after)
    last = page.next_after
    next_cursor = None if last is None else (await gateway.cursors.get()).write(last, selected)
    return json_response(_EncodedPage(items=page.items, next_cursor=next_cursor, total=page.total))


@handles(GET_WAIT)
async def get_wait(request: Request, wait_id: str) -> Response:
    waits = gateway_of(request).waits
    with hidden_from_others(caller_of(request), WaitNotFound(f"there is no wait {wait_id!r}")):
        # A malformed id must not reach a NATS subject.
        stored = await waits.store.get(wait_id) if is_wait_id(wait_id) else None
    if stored is None or not caller_of(request).sees(stored.record.tenant_id):
        if stored is not None:
            # The same steps as for a wait that does not exist, so that their time reveals nothing.
            await waits.store.get_from_leader(wait_id)
        raise WaitNotFound(f"there is no wait {wait_id!r}")
    return await _view(request, stored.record)


@handles(RESPOND)
async def respond(request: Request, wait_id: str) -> Response:
    body = await _read(request, wait_types.RespondRequest)
    check_depth("payload", body.payload)
    answers = gateway_of(request).waits.answers
    fields = structs.asdict(body)
    actor = actor_of(request, on_behalf_of=fields.pop("on_behalf_of"))
    receipt = await answers.respond(wait_id, Answer(**fields), caller_of(request), actor)
    return json_response(wait_types.Responded(**structs.asdict(receipt)))


@handles(WITHDRAW_WAIT)
async def withdraw(request: Request, wait_id: str) -> Response:
    body = await _read(request, wait_types.WithdrawRequest)
    return await _view(request, await _changes(request).withdraw(_change(request, wait_id, body.reason)))


@handles(EXTEND_WAIT)
async def extend(request: Request, wait_id: str) -> Response:
    body = await _read(request, wait_types.ExtendRequest)
    change = _change(request, wait_id, body.reason)
    return await _view(request, await _changes(request).extend(change, body.deadline_at))


@handles(REASSIGN_WAIT)
async def reassign(request: Request, wait_id: str) -> Response:
    body = await _read(request, wait_types.ReassignRequest)
    change = _change(request, wait_id, body.reason)
    return await _view(request, await _changes(request).reassign(change, body.assignees))


@handles(RESUME)
async def resume(request: Request) -> Response:
    body = await _read(request, wait_types.ResumeRequest)
    check_depth("payload", body.payload)
    run_id = _one_of("runId", body.run_id, "run_id", body.snake_run_id)
    if run_id is None:
        raise InvalidRequest(problems=[FieldProblem("runId", "the field is missing")])
    decision_id = _one_of("decisionId", body.decision_id, "decision_id", body.snake_decision_id)
    on_behalf_of = _one_of("onBehalfOf", body.on_behalf_of, "on_behalf_of", body.snake_on_behalf_of)
    actor = actor_of(request, on_behalf_of=on_behalf_of)
    receipt = await gateway_of(request).waits.answers.resume(
        run_id, body.payload, caller_of(request), actor, decision_id=decision_id
    )
    return json_response(wait_types.Resumed(run_id=receipt.run_id))


@handles(RETRY_RUN)
async def retry(request: Request, run_id: str) -> Response:
    await optional_record(request, wait_types.RetryRequest, field="", cure="a retry takes nothing")
    connection = gateway_of(request).connection
    snapshot = await retry_run(connection, run_id, caller_of(request), actor_of(request))
    return json_response(public_snapshot(snapshot, records=False))


def _one_of(name: str, value: str | None, alias: str, alias_value: str | None) -> str | None:
    """A field that may be given under either name."""
    if value is not None and alias_value not in (None, value):
        message = f"it differs from {name}; give one of them"
        raise InvalidRequest(problems=[FieldProblem(alias, message, value=shortened_json(alias_value))])
    return alias_value if value is None else value


def _changes(request: Request) -> WaitChanges:
    return gateway_of(request).waits.wait_actions


def _change(request: Request, wait_id: str, reason: str | None) -> ChangeRequest:
    return ChangeRequest(wait_id, caller_of(request), actor_of(request), reason)


async def _view(request: Request, wait: WaitRecord) -> Response:
    """The wait with its history."""
    # The record does not repeat an approved proposal or a default as its payload; the response does.
    record = structs.replace(wait, payload=wait.value)
    events = await gateway_of(request).waits.events.of_wait(wait.wait_id)
    fields = structs.asdict(record) | {
        "deadline_at": record.shown_deadline,
        "approvals": record.approvals,
        "events": events,
    }
    return json_response(wait_types.WaitView(**fields))


async def _read(request: Request, kind: type[T]) -> T:
    body = await limited_body(
        request,
        gateway_of(request).config.wait_answer_max_bytes,
        field="payload",
        cure="answer with a reference to large data, or raise PYOCO_WAIT_ANSWER_MAX_BYTES",
    )
    return json_record(body, kind)
