"""Views of flows: a table, and one flow with its parameters and tasks."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from pyoco_server.cli.options.time_formats import ago, duration
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, printable
from pyoco_server.cli.views.list_views import Columns, list_view
from pyoco_server.http_client.response_types import FlowItem, FlowView

_NO_RUNS: Final = ""


def flows_view(flows: Sequence[FlowItem]) -> RenderableType:
    return list_view(flows, _FLOWS, only_wide={"Tags", "p95"})


def flow_view(flow: FlowView) -> RenderableType:
    parts: list[RenderableType] = [pairs(_details(flow))]
    properties = (flow["parameters"] or {}).get("properties", {})
    if properties:
        required = (flow["parameters"] or {}).get("required", [])
        rows = [
            {"name": name, "schema": each, "required": name in required} for name, each in properties.items()
        ]
        parts += [Text(), list_view(rows, _PARAMETERS, only_wide=set())]
    if flow["tasks"]:
        parts += [Text(), list_view(flow["tasks"], _TASKS, only_wide=set())]
    if flow["last_failures"]:
        parts += [Text(), list_view(flow["last_failures"], _FAILURES, only_wide=set())]
    return Group(*parts)


def _details(flow: FlowView) -> Iterator[tuple[str, RenderableType]]:
    yield "flow", printable(flow["name"])
    if flow["description"]:
        yield "description", printable(flow["description"])
    if flow["problem"]:
        yield "problem", Text(printable(flow["problem"]), style="red")
    if flow["file"]:
        yield "file", printable(flow["file"])
    yield "tags", printable(", ".join(flow["tags"]))
    yield (
        "workers",
        printable(", ".join(each["worker_id"] for each in flow["workers"]) or localized("none is live")),
    )
    differ = Text(localized(" (they differ)"), style="yellow") if flow["versions_differ"] else Text()
    yield "versions", Text(", ".join(flow["versions"])) + differ
    for window, found in flow.get("statistics", {}).items():
        yield window, _summary(found)


def _summary(statistics: Any) -> str:
    runs = ", ".join(f"{count} {status}" for status, count in statistics["statuses"].items())
    if not runs:
        return localized("no runs")
    rate, p95 = _rate(statistics), _p95(statistics)
    return localized("{runs}; {rate} succeeded, p95 {p95}", runs=runs, rate=rate, p95=p95)


def _rate(statistics: Any) -> str:
    rate = statistics["success_rate"]
    return "-" if rate is None else f"{rate:.0%}"


def _p95(statistics: Any) -> str:
    found = statistics["duration_ms"]["p95"]
    return "-" if found is None else duration(found / 1000)


def _last_day(flow: FlowItem) -> Any:
    return flow.get("statistics", {}).get("24h")


def _runs(flow: FlowItem) -> str:
    found = _last_day(flow)
    return str(sum(found["statuses"].values())) if found else _NO_RUNS


def _succeeded(flow: FlowItem) -> Text:
    found = _last_day(flow)
    is_failing = bool(found) and found["success_rate"] not in (None, 1.0)
    return Text(_rate(found) if found else _NO_RUNS, style="red" if is_failing else "")


def _type_text(schema: Any) -> str:
    """The type in a few words."""
    if "enum" in schema:
        return " | ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(map(_type_text, schema["anyOf"]))
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        return f"array of {_type_text(schema['items'])}"
    return str(schema.get("title") if "properties" in schema else schema.get("type", "any"))


def _default_text(parameter: Any) -> str:
    if parameter["required"]:
        return localized("(required)")
    schema = parameter["schema"]
    return json.dumps(schema["default"], ensure_ascii=False) if "default" in schema else ""


_FLOWS: Final[Columns] = {
    "Flow": lambda flow: printable(flow["name"]),
    "Tags": lambda flow: printable(", ".join(flow["tags"])),
    "Workers": lambda flow: Text(str(flow["workers"]), style="" if flow["workers"] else "yellow"),
    "Version": lambda flow: (
        localized("differs") if flow["versions_differ"] else ", ".join(flow["versions"])[:12]
    ),
    "Runs 24h": _runs,
    "Succeeded": _succeeded,
    "p95": lambda flow: _p95(_last_day(flow)) if _last_day(flow) else _NO_RUNS,
    "Description": lambda flow: printable(flow["description"].partition("\n")[0]),
}
_PARAMETERS: Final[Columns] = {
    "Parameter": lambda each: printable(each["name"]),
    "Type": lambda each: printable(_type_text(each["schema"])),
    "Default": lambda each: printable(_default_text(each)),
}
_TASKS: Final[Columns] = {
    "Task": lambda task: printable(task["name"]),
    "After": lambda task: printable(", ".join(task["after"])),
    "Description": lambda task: printable(task["description"].partition("\n")[0]),
}
_FAILURES: Final[Columns] = {
    "Failed": lambda run: ago(run["ended_at"]),
    "Run": lambda run: run["run_id"],
    "Error": lambda run: Text(printable((run["error"] or "").partition("\n")[0]), style="red"),
}
