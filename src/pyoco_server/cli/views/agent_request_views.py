"""Views of agent requests."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, printable
from pyoco_server.cli.views.list_views import Columns, list_view
from pyoco_server.http_client.response_types import AgentRequest, DoctorCheck, RequestDetail

_STYLES: Final = {"running": "cyan", "needs_input": "yellow", "failed": "red", "done": "green"}
_SECTIONS: Final = {"want": "Want", "plan": "Plan", "report": "Report"}


def requests_view(requests: Sequence[AgentRequest]) -> RenderableType:
    return list_view(requests, _REQUESTS, only_wide={"Branch", "Changed"})


def request_view(request: AgentRequest) -> RenderableType:
    return pairs(_details(request))


def request_detail_view(detail: RequestDetail) -> RenderableType:
    sections = detail["content"]["sections"]
    texts = {"want": sections["want"], "plan": sections["plan"], "report": sections["report"]}
    parts: list[RenderableType] = [request_view(detail["request"])]
    for name, title in _SECTIONS.items():
        if text := (texts[name] or "").strip():
            parts += [Text(f"\n{localized(title)}", style="bold"), Text(printable(text))]
    return Group(*parts)


def doctor_view(checks: Sequence[DoctorCheck]) -> RenderableType:
    return list_view(checks, _CHECKS, only_wide=set())


def _status(request: AgentRequest) -> Text:
    status = request["status"]
    notes = [request["phase"]] if status == "running" else []
    if request["stopping"]:
        notes.append(localized("stopping"))
    if status == "queued" and request["enqueued_at"] is None:
        notes.append(localized("not in the queue"))
    shown = " ".join(filter(None, [status, f"({', '.join(filter(None, notes))})" if any(notes) else ""]))
    return Text(shown, style=_STYLES.get(status, ""))


def _details(request: AgentRequest) -> Iterator[tuple[str, RenderableType]]:
    yield "id", request["id"]
    yield "title", printable(request["title"])
    yield "status", _status(request)
    yield "priority", request["priority"]
    yield (
        "branch",
        printable(localized("{branch} (base {base})", branch=request["branch"], base=request["base"])),
    )
    if request["tags"]:
        yield "tags", printable(", ".join(request["tags"]))
    if request["run_id"] is not None:
        yield "run", f"{request['run_id']}  {request['pyoco_run_id'] or ''}"
    if (question := request["question"]) is not None:
        yield "question", Text(printable(question["text"]), style="yellow")
    if request["failure_reason"]:
        yield "failed", Text(printable(request["failure_reason"]), style="red")
    if request["pr_url"]:
        yield "pull request", printable(request["pr_url"])
    yield "file", printable(request["paths"]["request_file"])
    for problem in request["problems"]:
        yield "problem", Text(printable(problem), style="red")


_REQUESTS: Final[Columns] = {
    "Request": lambda request: printable(request["id"]),
    "Priority": lambda request: request["priority"],
    "Status": _status,
    "Title": lambda request: printable(request["title"]),
    "Branch": lambda request: printable(request["branch"]),
    "Changed": lambda request: request["updated_at"],
}
_CHECKS: Final[Columns] = {
    "Check": lambda check: printable(check["name"]),
    "State": lambda check: (
        Text(localized("ok"), style="green") if check["ok"] else Text(localized("failed"), style="red")
    ),
    "Details": lambda check: printable(check.get("version") or check.get("details") or ""),
    "Command that corrects it": lambda check: "" if check["ok"] else printable(check.get("fix") or ""),
}
