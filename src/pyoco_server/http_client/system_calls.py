"""Calls about the gateway itself: its health, its metrics, and what a key may do."""

from __future__ import annotations

from pyoco_server.http_client import client_endpoints as api
from pyoco_server.http_client.call_types import Request, call
from pyoco_server.http_client.response_types import Health, KeyAccess


def metrics() -> Request[str]:
    """The gateway's metrics, as Prometheus reads them."""
    return call(api.METRICS, read=lambda response: response.text)


def health() -> Request[Health]:
    """The health of the gateway, its connection to NATS and its index."""
    return call(api.HEALTH)


def key() -> Request[KeyAccess]:
    """What the key of the client may do."""
    return call(api.GET_KEY)
