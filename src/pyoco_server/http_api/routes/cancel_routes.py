"""Acting on a run: `POST /runs/{run_id}/cancel`."""

from typing import Annotated

import msgspec
from fastapi import APIRouter
from msgspec import UNSET, Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import optional_record
from pyoco_server.runs.lifecycle.cancel_request import cancel_run

router = APIRouter()


class CancelRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Why the run is to be cancelled, for people."""

    reason: Annotated[str, Meta(max_length=1000)] | None = None


@router.post("/runs/{run_id}/cancel", response_class=Response)
async def cancel(request: Request, run_id: str) -> Response:
    """Ask a run to stop. A run that has ended is answered as it is; asking twice is asking once."""
    gateway = gateway_of(request)
    wish = await optional_record(request, CancelRequest, field="reason", cure="say it shorter")
    snapshot = await cancel_run(
        gateway.connection, gateway.runs.store, run_id, caller_of(request), reason=wish.reason
    )
    snapshot.task_records = UNSET
    return Response(msgspec.json.encode(snapshot), media_type="application/json")
