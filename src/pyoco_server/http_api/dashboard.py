"""`GET /`: where the dashboard belongs."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response


async def index(request: Request) -> Response:
    """Say what a person who opens the gateway in a browser can do instead."""
    raise HTTPException(
        404, "this version has no dashboard yet; see /openapi.json for the API, or use pyoco-client"
    )
