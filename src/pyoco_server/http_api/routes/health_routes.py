"""`GET /health`: the gateway answers, how its connection to NATS is, and its index of runs."""

from contextlib import suppress
from http import HTTPStatus

import msgspec
from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.broker.client.connection import Connection
from pyoco_server.errors import NatsUnavailable
from pyoco_server.http_api.gateway import Gateway, gateway_of
from pyoco_server.version import __version__

router = APIRouter()


class NatsHealth(Struct, kw_only=True):
    status: str
    ready: bool
    since: float
    detail: str


class IndexHealth(Struct, kw_only=True):
    # Also that of waits.
    ready: bool
    # Up to which revision of the runs bucket it was read, and at most how many writes are to come.
    revision: int
    behind: int
    runs: int


class Health(Struct, kw_only=True):
    """`status` speaks of the gateway itself; `nats` of what it needs to accept runs, `index` of its lists."""

    status: str = "ok"
    version: str = __version__
    nats: NatsHealth
    index: IndexHealth


@router.head("/health", response_class=Response, include_in_schema=False)
@router.get("/health", response_class=Response)
async def health(request: Request, ready: bool = False) -> Response:
    """Whether the gateway runs; it does so without NATS too. With `ready=1` a 503 until it is of full use."""
    gateway = gateway_of(request)
    body = Health(nats=await _nats_health(gateway.connection), index=_index_health(gateway))
    is_fit = not ready or (body.nats.ready and body.index.ready)
    status = HTTPStatus.OK if is_fit else HTTPStatus.SERVICE_UNAVAILABLE
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def _index_health(gateway: Gateway) -> IndexHealth:
    index = gateway.listing.index
    return IndexHealth(
        ready=index.ready and gateway.waits.index.ready,
        revision=index.checkpoint.revision,
        behind=gateway.listing.feed.behind,
        runs=index.runs,
    )


async def _nats_health(connection: Connection) -> NatsHealth:
    if connection.last_request_timed_out:
        # Connected, but the last request got no answer: ask again rather than guess.
        with suppress(NatsUnavailable):
            await connection.request("$JS.API.INFO")
    state = connection.state
    ready = connection.ready and not connection.last_request_timed_out
    detail = state.detail or ("it does not answer" if connection.last_request_timed_out else "")
    return NatsHealth(status=state.status, ready=ready, since=state.since, detail=detail)
