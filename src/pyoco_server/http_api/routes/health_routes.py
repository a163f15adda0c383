"""The health of the gateway, its connection to NATS and its indexes."""

from contextlib import suppress
from http import HTTPStatus

from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api.endpoints import HEALTH
from pyoco_server.api.operation_types import Health, IndexHealth, NatsHealth
from pyoco_server.broker.client.connection import Connection
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.addresses import without_addresses
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.principal import caller_of, principal_of
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routing import handles
from pyoco_server.version import __version__


@handles(HEALTH)
async def health(request: Request, ready: bool = False) -> Response:
    gateway = gateway_of(request)
    counts = gateway.connection.unreadable.counts()
    body = Health(
        version=__version__,
        nats=await _nats_health(gateway.connection),
        index=_index_health(gateway),
        unreadable={kind: count for kind, count in counts.items() if count},
    )
    is_ready = not ready or (body.nats.ready and body.index.ready)
    status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return json_response(_visible(body, request), status=status)


def _visible(body: Health, request: Request) -> Health:
    """Nothing but states without a valid key; the number of all runs for the operator only."""
    if gateway_of(request).config.http_auth_mode == "api_key" and principal_of(request) is None:
        return Health(
            nats=NatsHealth(status=body.nats.status, ready=body.nats.ready),
            index=IndexHealth(ready=body.index.ready),
        )
    if not caller_of(request).sees_all:
        body.index.runs = UNSET
    return body


def _index_health(gateway: Gateway) -> IndexHealth:
    index = gateway.listing.index
    return IndexHealth(
        ready=index.ready and gateway.waits.index.ready,
        revision=index.checkpoint.revision,
        behind=gateway.listing.feed.behind,
        runs=index.entries,
    )


async def _nats_health(connection: Connection) -> NatsHealth:
    if connection.last_request_timed_out:
        # Connected, but the last request was not answered: try another one.
        with suppress(NatsUnavailable):
            await connection.request("$JS.API.INFO")
    state = connection.state
    ready = connection.ready and not connection.last_request_timed_out
    detail = state.detail or ("it does not answer" if connection.last_request_timed_out else "")
    return NatsHealth(status=state.status, ready=ready, since=state.since, detail=without_addresses(detail))
