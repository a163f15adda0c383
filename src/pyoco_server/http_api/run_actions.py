"""Acting on a run: `POST /runs/{run_id}/cancel`."""

from typing import Annotated

import msgspec
from fastapi import APIRouter
from msgspec import UNSET, Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.http_api.bodies import limited_body
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.invalid_input import invalid_body
from pyoco_server.runs.cancel import cancel_run

router = APIRouter()

_MAX_BODY_BYTES = 16 * 1024


class CancelRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Why the run is to be cancelled, for people."""

    reason: Annotated[str, Meta(max_length=1000)] | None = None


@router.post("/runs/{run_id}/cancel", response_class=Response)
async def cancel(request: Request, run_id: str) -> Response:
    """Ask a run to stop. A run that has ended is answered as it is; asking twice is asking once."""
    gateway = gateway_of(request)
    body = await limited_body(request, _MAX_BODY_BYTES, field="reason", cure="say it shorter")
    try:
        wish = msgspec.json.decode(body, type=CancelRequest) if body else CancelRequest()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid_body(error, body) from None
    snapshot = await cancel_run(gateway.connection, gateway.runs, run_id, reason=wish.reason)
    snapshot.task_records = UNSET
    return Response(msgspec.json.encode(snapshot), media_type="application/json")
