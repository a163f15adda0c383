"""Each tool fits the endpoint that it stands on."""

import re
from typing import Any

import pytest
from msgspec import inspect

from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.api.endpoints.runs.run_endpoints import SUBMIT_RUN
from pyoco_server.mcp_tools.tool_arguments import SubmitRunArguments
from pyoco_server.mcp_tools.tool_calls import http_call
from pyoco_server.mcp_tools.tool_table import TOOLS, Tool

# Texts that this product writes or checks: ids, and sentences of ours about the caller's own arguments.
OURS = {
    *("run_id", "origin_run_id", "wait_id", "decision_id", "status", "state", "decision"),
    *("warnings", "next_cursor"),
}

each_tool = pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)


@each_tool
def test_the_endpoint_takes_every_argument(tool: Tool) -> None:
    endpoint = tool.endpoint
    assert endpoint in ENDPOINTS
    in_path = set(re.findall(r"\{(\w+)\}", endpoint.path))
    taken = set(in_path)
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


def texts_in(kind: inspect.Type) -> bool:
    """Whether a value of this type may have a text."""
    match kind:
        case inspect.StrType() | inspect.AnyType() | inspect.RawType() | inspect.BytesType():
            return True
        case inspect.UnionType():
            return any(map(texts_in, kind.types))
        case inspect.CollectionType():
            return texts_in(kind.item_type)
        case inspect.DictType():
            return texts_in(kind.key_type) or texts_in(kind.value_type)
        case inspect.StructType():
            return any(texts_in(each.type) for each in kind.fields)
    return False


def foreign_texts(returns: Any) -> set[str]:
    """The fields of a response whose texts may be of programs or people."""
    kind = inspect.type_info(returns)
    if isinstance(kind, inspect.CollectionType):
        kind = kind.item_type
    assert isinstance(kind, inspect.StructType), returns
    return {each.name for each in kind.fields if each.name not in OURS and texts_in(each.type)}


@each_tool
def test_a_tool_that_returns_texts_of_others_is_marked(tool: Tool) -> None:
    assert tool.untrusted == bool(foreign_texts(tool.returns))


def test_which_tools_return_no_texts_of_others() -> None:
    assert [tool.name for tool in TOOLS.values() if not tool.untrusted] == [
        *("submit_run", "rerun", "answer_wait"),
    ]
