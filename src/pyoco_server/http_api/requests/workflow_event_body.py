"""The body of a workflow event."""

from typing import Any

from starlette.requests import Request

from pyoco_server.errors import FieldProblem, InvalidRequest
from pyoco_server.http_api.gateway import gateway_of
from pyoco_server.http_api.requests.bodies import check_depth, json_value, limited_body


async def workflow_event_body(request: Request) -> dict[str, Any]:
    """A JSON object; no body is an empty one."""
    max_bytes = gateway_of(request).config.max_run_snapshot_bytes
    cure = "send a reference to large data, or raise PYOCO_MAX_RUN_SNAPSHOT_BYTES"
    raw = await limited_body(request, max_bytes, field="payload", cure=cure)
    body = json_value(raw) if raw.strip() else {}
    if not isinstance(body, dict):
        raise InvalidRequest(problems=[FieldProblem("", "expected a JSON object")])
    check_depth("", body)
    return body
