"""Signals to runs, and events for all runs."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api import signal_types
from pyoco_server.api.endpoints.waits.signal_endpoints import LIST_SIGNALS, SEND_EVENT, SEND_SIGNAL
from pyoco_server.errors import FieldProblem, InvalidRequest, shortened
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.principal import actor_of, caller_of
from pyoco_server.http_api.requests.bodies import check_depth, json_record, json_value, limited_body
from pyoco_server.http_api.requests.idempotency_header import REPLAYED, idempotency_key
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routing import handles
from pyoco_server.records.waits.wait_models import TOPIC_EXPECTED, is_topic

# Room for the other fields of an event.
_ENVELOPE_BYTES: Final = 1024


@handles(SEND_SIGNAL)
async def send_signal(request: Request, run_id: str, name: str) -> Response:
    if not is_topic(name):
        raise InvalidRequest(problems=[FieldProblem("name", f"expected {TOPIC_EXPECTED}", shortened(name))])
    body = await _body(request)
    # No body is a signal without data.
    data = json_value(body) if body else None
    check_depth("", data)
    sent = await gateway_of(request).signals.signal_sender.send(
        run_id, name, data, caller_of(request), actor_of(request), key=idempotency_key(request)
    )
    return json_response(
        signal_types.SignalAccepted(signal_id=sent.signal.signal_id),
        status=SEND_SIGNAL.status,
        headers=REPLAYED if sent.replayed else None,
    )


@handles(LIST_SIGNALS)
async def list_signals(request: Request, run_id: str) -> Response:
    sent = await gateway_of(request).signals.signal_sender.sent_to(run_id, caller_of(request))
    items = [
        signal_types.SignalView(
            signal_id=each.signal.signal_id,
            name=each.signal.name,
            at=each.signal.at,
            data=each.data,
            state=signal_types.SignalState.PENDING
            if each.received_by is None
            else signal_types.SignalState.RECEIVED,
            by=each.signal.by,
            wait_id=None if each.received_by is None else each.received_by.wait_id,
            task=None if each.received_by is None else each.received_by.task,
        )
        for each in sent.signals
    ]
    return json_response(signal_types.SignalList(items=items, removed=sent.removed))


@handles(SEND_EVENT)
async def send_event(request: Request) -> Response:
    event = json_record(await _body(request, more=_ENVELOPE_BYTES), signal_types.EventRequest)
    check_depth("data", event.data)
    event_id, is_new = await gateway_of(request).signals.event_sender.send(
        event.name, event.data, actor_of(request), event_id=event.id
    )
    accepted = signal_types.EventAccepted(event_id=event_id, duplicate=not is_new)
    return json_response(accepted, status=SEND_EVENT.status)


async def _body(request: Request, *, more: int = 0) -> bytes:
    return await limited_body(
        request,
        gateway_of(request).config.signal_max_bytes + more,
        field="data" if more else "",
        cure="send a reference to large data, or raise PYOCO_SIGNAL_MAX_BYTES",
    )
