"""Calls about signals and events: methods of both clients."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Request, call
from pyoco_server.http_client.response_types import EventAccepted, SignalAccepted, SignalList


def send_signal(
    run_id: str, name: str, data: Any = None, *, idempotency_key: str | None = None
) -> Request[SignalAccepted]:
    """Send a signal to a run: its `signal_id`. The next `ctx.wait_for_signal(name)` of the run receives it.

    `data` is any JSON value. A signal that comes before its wait is kept. With an `idempotency_key` the same
    call may be made again after any failure, and there is one signal all the same; the client makes a key of
    its own for each call (not with `retries=0`).
    """
    return call(api.SEND_SIGNAL, body=data, key=idempotency_key, submits=True, run_id=run_id, name=name)


def list_signals(run_id: str) -> Request[SignalList]:
    """The signals that were sent to a run, in their order, with what became of each."""
    return call(api.LIST_SIGNALS, run_id=run_id)


def send_event(name: str, data: Any = None, *, event_id: str | None = None) -> Request[EventAccepted]:
    """Send an event to all runs that wait for it with `ctx.wait_for_event(name, match=...)`: its `event_id`.

    `data` is any JSON value. The same `event_id` is one event, however often it is sent; the client makes an
    id of its own for each call, so that it can repeat the call when the gateway is away for a moment.
    """
    body = {"name": name, "data": data, "id": event_id or str(uuid4())}
    return call(api.SEND_EVENT, body=body)
