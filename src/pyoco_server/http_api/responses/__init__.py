"""What the gateway sends back."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response


def json_response(
    body: object,
    headers: Mapping[str, str] | None = None,
    status: int = 200,
    *,
    media_type: str = "application/json",
) -> Response:
    return Response(msgspec.json.encode(body), status, headers, media_type=media_type)
