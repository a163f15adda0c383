"""Alerts: their rules and channels, tests, mutes and history."""

from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.alerts.alert_checks import GivenAlert, GivenChannel
from pyoco_server.alerts.alert_service import AlertName
from pyoco_server.alerts.alert_texts import checked_text, condition_text
from pyoco_server.api import alert_types as types
from pyoco_server.api.endpoints.monitoring import alert_endpoints as endpoints
from pyoco_server.errors import FieldProblem, InvalidRequest, shortened
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import caller_of
from pyoco_server.http_api.requests.bodies import json_record, limited_body, optional_record
from pyoco_server.http_api.requests.query import (
    QueryReader,
    cursor_value,
    query_record,
    text_value,
    whole_number,
)
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.http_problems import preferred_language
from pyoco_server.http_api.routing import handles
from pyoco_server.http_api.services import Alerts
from pyoco_server.records.monitoring.alert_models import (
    ALERT_ID_EXPECTED,
    AlertLanguage,
    AlertOccurrence,
    AlertRecord,
    AlertRule,
    is_alert_id,
)
from pyoco_server.runs.index.pagination import SortKey

T = TypeVar("T", bound=Struct)

_MAX_BODY_BYTES: Final = 64 * 1024
_EXPECTED: Final = {
    "tenant": "expected the tenant of the alert (letters, digits, _ or -), or `=` for none",
    "revision": "expected the revision of the alert, a whole number",
}


@handles(endpoints.LIST_ALERTS)
async def list_alerts(request: Request) -> Response:
    gateway = gateway_of(request)
    cursors = await gateway.cursors.get() if "cursor" in request.query_params else None
    reader = QueryReader(request, types.AlertListQuery)
    tenant = caller_of(request).confined_to
    text = reader.one("q", text_value, None)
    limit = reader.one("limit", whole_number(1, types.ALERT_LIMIT_MAX), types.ALERT_LIMIT_DEFAULT)
    bound_to = ("alerts", tenant, text)
    after = reader.one("cursor", cursor_value(cursors, bound_to), None)
    reader.check()
    directory = _alerts(request).directory
    await directory.caught_up()
    matching = [each for each in directory.alerts(tenant) if text is None or _has_text(each, text)]
    rest = matching if after is None else [each for each in matching if _place(each) > after]
    next_cursor = None
    if len(rest) > limit:
        next_cursor = (await gateway.cursors.get()).write(_place(rest[limit - 1]), bound_to)
    now, language = gateway.clock.now(), _language(request)
    return _localized(
        types.AlertPage(
            items=[_view(each, now, language) for each in rest[:limit]],
            next_cursor=next_cursor,
            total=len(matching),
            firing=sum(each.current is not None for each in matching),
        ),
        language,
    )


@handles(endpoints.CHECK_ALERT)
async def check_alert(request: Request) -> Response:
    body = await _read(request, types.AlertCheckRequest)
    rule, found = await _alerts(request).service.check(caller_of(request), _rule(body))
    language = _language(request)
    text = checked_text(rule, found.facts, language, is_met=found.is_met)
    checked = types.AlertChecked(met=found.is_met, value=found.facts.value, text=text)
    return _localized(checked, language)


@handles(endpoints.GET_ALERT)
async def get_alert(request: Request, alert_id: str) -> Response:
    return _answer(request, await _alerts(request).service.find(_name(request, alert_id)))


@handles(endpoints.PUT_ALERT)
async def put_alert(request: Request, alert_id: str) -> Response:
    if not is_alert_id(alert_id):
        problem = FieldProblem("alert_id", ALERT_ID_EXPECTED, shortened(alert_id))
        raise InvalidRequest(problems=[problem])
    body = await _read(request, types.AlertRequest)
    given = GivenAlert(
        rule=_rule(body),
        channels=[GivenChannel(**structs.asdict(each)) for each in body.channels],
        cool_down_sec=body.cool_down_sec,
        send_resolved=body.send_resolved,
        language=body.language,
        note=body.note,
    )
    service = _alerts(request).service
    saved = await service.save(alert_id, caller_of(request), given, revision=body.revision)
    return _answer(request, saved)


@handles(endpoints.DELETE_ALERT)
async def delete_alert(request: Request, alert_id: str) -> Response:
    query = _query(request, types.DeleteAlertQuery)
    revision = None if query.revision is UNSET else query.revision
    await _alerts(request).service.delete(_name(request, alert_id, query), revision=revision)
    return json_response(types.AlertDeleted(alert_id=alert_id))


@handles(endpoints.TEST_ALERT)
async def test_alert(request: Request, alert_id: str) -> Response:
    name = _name(request, alert_id)
    body = await optional_record(request, types.AlertTestRequest, field="channel", cure="name one channel")
    results = await _alerts(request).service.send_test(name, body.channel)
    tested = [
        types.TestedChannel(channel=channel, ok=result.ok, error=result.error)
        for channel, result in results.items()
    ]
    return json_response(types.AlertTested(channels=tested))


@handles(endpoints.MUTE_ALERT)
async def mute_alert(request: Request, alert_id: str) -> Response:
    name = _name(request, alert_id)
    body = await optional_record(request, types.MuteRequest, field="note", cure="shorten the note")
    muted = await _alerts(request).service.mute(name, for_sec=body.for_sec, note=body.note)
    return _answer(request, muted)


@handles(endpoints.UNMUTE_ALERT)
async def unmute_alert(request: Request, alert_id: str) -> Response:
    return _answer(request, await _alerts(request).service.unmute(_name(request, alert_id)))


@handles(endpoints.ALERT_HISTORY)
async def alert_history(request: Request, alert_id: str) -> Response:
    record = await _alerts(request).service.find(_name(request, alert_id))
    language = _language(request)
    items = [_occurrence(each, language) for each in reversed(record.history)]
    return _localized(types.AlertHistory(items=items), language)


def _alerts(request: Request) -> Alerts:
    return gateway_of(request).alerts


def _query(request: Request, kind: type[T]) -> T:
    expected = {name: _EXPECTED[name] for name in kind.__struct_fields__}
    return query_record(request, kind, expected, InvalidRequest)


def _name(request: Request, alert_id: str, query: types.AlertTenantQuery | None = None) -> AlertName:
    query = query or _query(request, types.AlertTenantQuery)
    return AlertName(alert_id, caller_of(request), None if query.tenant is UNSET else query.tenant)


async def _read(request: Request, kind: type[T]) -> T:
    body = await limited_body(request, _MAX_BODY_BYTES, field="note", cure="shorten it")
    return json_record(body or b"{}", kind)


def _rule(body: types.AlertRequest | types.AlertCheckRequest) -> AlertRule:
    return AlertRule(**{name: getattr(body, name) for name in AlertRule.__struct_fields__})


def _has_text(record: AlertRecord, text: str) -> bool:
    rule = record.rule
    searched = (record.alert_id, rule.flow_name or "", rule.tag or "", record.note)
    return any(text.lower() in each.lower() for each in searched)


def _place(record: AlertRecord) -> SortKey:
    # A space is before every character of an id.
    return SortKey(f"{record.alert_id} {record.key}", 0.0, 0)


def _answer(request: Request, record: AlertRecord) -> Response:
    language = _language(request)
    return _localized(_view(record, gateway_of(request).clock.now(), language), language)


def _language(request: Request) -> AlertLanguage:
    return AlertLanguage(preferred_language(request.headers.get("accept-language")))


def _localized(content: Struct, language: AlertLanguage) -> Response:
    return json_response(content, {"Content-Language": language, "Vary": "Accept-Language"})


def _view(record: AlertRecord, now: float, language: AlertLanguage) -> types.AlertView:
    fields = structs.asdict(record)
    shown = {name: fields[name] for name in types.AlertView.__struct_fields__ if name in fields}
    shown |= {
        "rule": _as(record.rule, types.RuleView),
        "channels": [_as(each, types.ChannelView) for each in record.channels],
        "mute": _as(record.mute, types.MuteView) if record.mute and record.is_muted(now) else None,
        "firing": record.current is not None,
        "last": None if record.last is None else _occurrence(record.last, language),
    }
    return types.AlertView(**shown)


def _occurrence(found: AlertOccurrence, language: AlertLanguage) -> types.OccurrenceView:
    return types.OccurrenceView(
        number=found.number,
        fired_at=found.fired_at,
        resolved_at=found.resolved_at,
        text=condition_text(found.rule, found.facts, language, is_met=True),
        facts=_as(found.facts, types.FactsView),
        fired=[_as(each, types.MessageView) for each in found.fired],
        resolved=[_as(each, types.MessageView) for each in found.resolved],
    )


def _as(record: Struct, kind: type[T]) -> T:
    """The fields that the view has."""
    fields: dict[str, Any] = {name: getattr(record, name) for name in kind.__struct_fields__}
    return msgspec.convert(fields, kind)
