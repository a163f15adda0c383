"""`GET /health`: the gateway answers, and how its connection to NATS is."""

from contextlib import suppress

import msgspec
from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server import __version__
from pyoco_server.errors import NatsUnavailable
from pyoco_server.http_api.gateway import gateway_of

router = APIRouter()


class NatsHealth(Struct, kw_only=True):
    status: str
    ready: bool
    since: float
    detail: str


class Health(Struct, kw_only=True):
    """`status` speaks of the gateway itself; `nats` of what it needs to accept runs."""

    status: str = "ok"
    version: str = __version__
    nats: NatsHealth


@router.get("/health", response_class=Response)
async def health(request: Request) -> Response:
    """Whether the gateway runs; it does so without NATS as well."""
    connection = gateway_of(request).connection
    if connection.unanswered:
        # Connected, but the last request got no answer: ask again rather than guess.
        with suppress(NatsUnavailable):
            await connection.request("$JS.API.INFO")
    state = connection.state
    ready = connection.ready and not connection.unanswered
    detail = state.detail or ("it does not answer" if connection.unanswered else "")
    nats = NatsHealth(status=state.status, ready=ready, since=state.since, detail=detail)
    return Response(msgspec.json.encode(Health(nats=nats)), media_type="application/json")
