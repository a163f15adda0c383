"""The health of the gateway, its connection to NATS and its indexes."""

from contextlib import suppress
from http import HTTPStatus

from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.api.endpoints.system_endpoints import HEALTH
from pyoco_server.api.health_types import (
    Health,
    HealthQuery,
    IndexHealth,
    NatsHealth,
    SpaceLeft,
    StorageHealth,
)
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.storage.write_health import WriteHealth
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.address_redaction import without_addresses
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.http_api.middleware.origin_check import is_from_unknown_host
from pyoco_server.http_api.middleware.principal import caller_of, principal_of
from pyoco_server.http_api.requests.query import TolerantQueryReader, yes_or_no
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.routing import handles
from pyoco_server.version import __version__


@handles(HEALTH)
async def health(request: Request) -> Response:
    query = TolerantQueryReader(request, HealthQuery)
    ready = query.one("ready", yes_or_no, default=False)
    query.check()
    gateway = gateway_of(request)
    counts = gateway.connection.unreadable.counts()
    body = Health(
        version=__version__,
        nats=await _nats_health(gateway.connection),
        storage=_storage_health(gateway.storage),
        index=_index_health(gateway),
        clock_offset_sec=UNSET if gateway.clock.offset_sec is None else round(gateway.clock.offset_sec, 3),
        unreadable={kind: count for kind, count in counts.items() if count},
    )
    is_ready = not ready or (body.nats.ready and body.index.ready)
    status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return json_response(_visible(body, request), status=status)


def _visible(body: Health, request: Request) -> Health:
    """Without a valid key, or a known host, the states only; counts over all tenants for operators only."""
    needs_key = gateway_of(request).config.http_auth_mode == "api_key"
    if (needs_key and principal_of(request) is None) or is_from_unknown_host(request):
        return Health(
            nats=NatsHealth(status=body.nats.status, ready=body.nats.ready),
            storage=StorageHealth(ready=body.storage.ready),
            index=IndexHealth(ready=body.index.ready),
        )
    if not caller_of(request).sees_all:
        body.index.runs = UNSET
        body.unreadable = {}
    return body


def _index_health(gateway: Gateway) -> IndexHealth:
    index = gateway.listing.index
    return IndexHealth(
        ready=index.ready and gateway.waits.index.ready,
        revision=index.checkpoint.revision,
        behind=gateway.listing.feed.behind,
        runs=index.entries,
    )


def _storage_health(storage: WriteHealth) -> StorageHealth:
    problem = storage.problem
    return StorageHealth(
        ready=problem is None,
        cause=None if problem is None else problem.cause,
        detail="" if problem is None else problem.detail,
        low=[
            SpaceLeft(of=space.of, free_bytes=space.free_bytes, limit_bytes=space.limit_bytes)
            for space in storage.low_space
        ],
    )


async def _nats_health(connection: Connection) -> NatsHealth:
    if connection.last_request_timed_out:
        # Connected, but the last request was not answered: try another one.
        with suppress(NatsUnavailable):
            await connection.request("$JS.API.INFO")
    state = connection.state
    problem = connection.writes.problem
    ready = connection.ready and not connection.last_request_timed_out and problem is None
    detail = state.detail or ("it does not answer" if connection.last_request_timed_out else "")
    if problem is not None and not detail:
        detail = f"it cannot write: {problem.detail}"
    return NatsHealth(status=state.status, ready=ready, since=state.since, detail=without_addresses(detail))
