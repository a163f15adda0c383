"""Each tool fits the endpoint that it stands on."""

import re

import pytest

from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.api.endpoints.run_endpoints import SUBMIT_RUN
from pyoco_server.mcp_tools.tool_arguments import SubmitRunArguments
from pyoco_server.mcp_tools.tool_calls import http_call
from pyoco_server.mcp_tools.tool_table import TOOLS, Tool

# FastAPI reads these from the handler's parameters.
OF_HANDLERS = {
    "get_run": {"include"},
    "get_logs": {"task", "stream", "search", "after", "limit", "tail"},
}

each_tool = pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)


@each_tool
def test_the_endpoint_takes_every_argument(tool: Tool) -> None:
    endpoint = tool.endpoint
    assert endpoint in ENDPOINTS
    in_path = set(re.findall(r"\{(\w+)\}", endpoint.path))
    taken = in_path | OF_HANDLERS.get(tool.name, set())
    if endpoint.query is not None:
        taken |= set(endpoint.query.__struct_fields__)
    if endpoint.body is not None:
        taken |= set(endpoint.body.record.__struct_fields__)
    if endpoint.creates:
        taken.add("idempotency_key")
    arguments = set(tool.arguments.__struct_fields__)
    assert arguments <= taken
    assert in_path <= arguments


def test_arguments_go_into_path_query_body_and_header() -> None:
    arguments = {"flow_name": "a b", "strict": False, "idempotency_key": "mine"}
    call = http_call(SUBMIT_RUN, SubmitRunArguments, arguments)
    assert call.target == "/runs?strict=false"
    assert call.headers == {"Idempotency-Key": "mine"}
    assert call.body is not None
    assert b'"flow_name": "a b"' in call.body
    assert b"strict" not in call.body
    cancel = TOOLS["cancel_run"]
    run_id = "00000000-0000-4000-8000-000000000000"
    call = http_call(cancel.endpoint, cancel.arguments, {"run_id": run_id, "reason": "enough"})
    assert (call.target, call.body) == (f"/runs/{run_id}/cancel", b'{"reason": "enough"}')


def test_calls_without_a_key_have_different_ones() -> None:
    calls = [http_call(SUBMIT_RUN, SubmitRunArguments, {"flow_name": "a"}) for _ in range(2)]
    assert len({call.headers["Idempotency-Key"] for call in calls}) == 2
