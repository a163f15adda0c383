"""Results of tools without a gateway: pages that fit, notes about texts of others, and odd responses."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pyoco_server.mcp_tools.bounded_values import size_of
from pyoco_server.mcp_tools.tool_calls import HttpCall, HttpReply
from pyoco_server.mcp_tools.tool_results import MAX_RESULT_BYTES, UNTRUSTED
from pyoco_server.mcp_tools.tool_table import TOOLS, Tool

if TYPE_CHECKING:
    from mcp_types import CallToolResult

A_RUN = "00000000-0000-4000-8000-000000000000"
PAGED = [tool for tool in TOOLS.values() if "cursor" in tool.arguments.__struct_fields__]


class Link:
    """A gateway that gives these answers."""

    base_url = "http://gateway"

    def __init__(self, answer: Callable[[HttpCall], Any], status: int = 200) -> None:
        self._answer = answer
        self._status = status
        self.calls: list[HttpCall] = []

    async def send(self, call: HttpCall) -> HttpReply:
        self.calls.append(call)
        found = self._answer(call)
        body = found if isinstance(found, bytes) else json.dumps(found).encode()
        return HttpReply(status=self._status, headers={"content-type": "application/json"}, body=body)


def paged(field: str, items: list[Any]) -> Callable[[HttpCall], Any]:
    """As all lists of the gateway: a cursor is where the next page begins."""

    def page(call: HttpCall) -> Any:
        start, limit = int(str(call.query.get("cursor", 0))), int(str(call.query["limit"]))
        end = start + limit
        return {field: items[start:end], "next_cursor": str(end) if end < len(items) else None}

    return page


async def result_of(tool: Tool, arguments: dict[str, Any], link: Link) -> "CallToolResult":
    from pyoco_server.mcp_tools.mcp_protocol import tool_result  # noqa: PLC0415 - heavy

    return await tool_result(tool, arguments, link)


async def shown(tool: Tool, link: Link, **arguments: Any) -> dict[str, Any]:
    result = await result_of(tool, arguments, link)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def error_of(tool: str, link: Link, **arguments: Any) -> str:
    result = await result_of(TOOLS[tool], arguments, link)
    assert result.is_error
    [content] = result.content
    assert content.type == "text"
    return content.text


def test_the_lists_with_pages() -> None:
    assert [tool.name for tool in PAGED] == ["list_flows", "list_runs", "list_waits", "list_schedules"]
    assert all(tool.page_of in tool.returns.__struct_fields__ for tool in PAGED)


@pytest.mark.parametrize("tool", PAGED, ids=lambda tool: tool.name)
@pytest.mark.parametrize("limit", [20, 40, 100])
async def test_the_cursor_leads_to_every_item_once(tool: Tool, limit: int) -> None:
    items = [{"number": number, "error": "x" * 2000} for number in range(47)]
    link = Link(paged(tool.page_of, items))
    seen: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = await shown(tool, link, limit=limit, **cursor)
        assert size_of(page) <= MAX_RESULT_BYTES
        seen += page[tool.page_of]
        if page["next_cursor"] is None:
            break
        assert "`next_cursor` gives the next ones" in page["notes"][-1]
        cursor = {"cursor": page["next_cursor"]}
    assert seen == items
    # A page is asked for again once, and not item by item.
    assert len(link.calls) <= 2 * 5


async def test_a_single_item_that_is_too_large_is_cut_with_a_note() -> None:
    items = [{"n": 1, "error": "short"}, {"n": 2, "error": "x" * 50_000}, {"n": 3, "error": "short"}]
    link = Link(paged("items", items))
    tool = TOOLS["list_runs"]
    first = await shown(tool, link)
    assert first["items"] == items[:1]
    second = await shown(tool, link, cursor=first["next_cursor"])
    [large] = second["items"]
    assert large["error"].endswith("more characters]")
    assert second["notes"][-1].startswith("Cut: long texts")
    assert (await shown(tool, link, cursor=second["next_cursor"]))["items"] == items[2:]


async def test_a_list_without_pages_says_how_many_are_missing() -> None:
    workers = [{"worker_id": str(number), "stop_reason": "x" * 2000} for number in range(47)]
    found = await shown(TOOLS["list_workers"], Link(lambda _: workers))
    count = len(found["workers"])
    assert found["workers"] == workers[:count]
    assert 10 < count < 47
    assert f"only the first {count} of 47 fit" in found["notes"][-1]


@pytest.mark.parametrize(
    ("problem", "is_marked"),
    [
        ({"err_id": "ERR-PYOCO-0071", "title": "There is no such result", "detail": "FAILED: obey"}, True),
        ({"err_id": "ERR-PYOCO-0005", "title": "There is no such run", "detail": "It is gone"}, False),
        (b"<h1>Bad gateway: obey</h1>", True),
    ],
    ids=["error of a run", "ours", "of a proxy"],
)
async def test_a_failure_that_quotes_others_begins_with_the_note(problem: Any, is_marked: bool) -> None:
    error = await error_of("get_result", Link(lambda _: problem, status=404), run_id=A_RUN)
    assert error.startswith(UNTRUSTED) == is_marked


@pytest.mark.parametrize("body", [b"<h1>Hello</h1>", b"\xff", b"7"])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_flow", {"flow_name": "a"}),
        ("list_runs", {}),
        ("list_workers", {}),
        ("get_logs", {"run_id": A_RUN}),
    ],
)
async def test_a_response_of_another_server_is_an_error_of_the_tool(
    tool: str, arguments: dict[str, Any], body: bytes
) -> None:
    error = await error_of(tool, Link(lambda _: body), **arguments)
    assert error.startswith("What answers at http://gateway is no pyoco-server gateway")


@pytest.mark.parametrize("name", [".", ".."])
async def test_a_name_that_is_a_step_in_a_path_is_refused(name: str) -> None:
    link = Link(lambda _: {})
    error = await error_of("get_flow", link, flow_name=name)
    assert error.startswith("ERR-PYOCO-0002")
    assert f'flow_name="{name}": `.` and `..` cannot be sent' in error
    assert not link.calls
