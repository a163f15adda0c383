"""Views of workflow events, their retry jobs, templates and actions."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from pyoco_server.cli.options.time_formats import ago, time_until
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, printable
from pyoco_server.cli.views.list_views import Columns, list_view
from pyoco_server.cli.views.trigger_views import json_line, line_count, outcome, tested_view
from pyoco_server.http_client.response_types import (
    Drained,
    EventSummary,
    NotificationSettings,
    RecentEvent,
    RetryJobList,
    Template,
    TemplateTested,
    WorkflowAction,
    WorkflowEventAccepted,
)


def accepted_view(accepted: WorkflowEventAccepted) -> RenderableType:
    return pairs(
        [
            ("run_id", accepted["run_id"]),
            ("duplicate", localized("yes; it was sent before" if accepted["duplicate"] else "no")),
            ("template_id", printable(accepted["template_id"])),
            ("action_key", printable(accepted["action_key"])),
            ("idempotency_key", printable(accepted["idempotency_key"] or "")),
        ]
    )


def summary_view(summary: EventSummary) -> RenderableType:
    return pairs(_summary(summary))


def recent_view(recent: Sequence[RecentEvent]) -> RenderableType:
    return list_view(recent, _RECENT, only_wide={"Source", "Key", "Run"})


def retry_jobs_view(jobs: RetryJobList) -> RenderableType:
    counts = _counts(jobs["by_status"])
    head = Text(_queue_text(jobs["total"], jobs["due"], counts), style="bold")
    return Group(head, list_view(jobs["jobs"], _JOBS, only_wide={"Key", "Run"}))


def drained_view(drained: Drained) -> RenderableType:
    words = ("processed", "succeeded", "retrying", "escalated", "discarded", "remaining_due")
    counts: dict[str, Any] = {**drained}
    return pairs([(word, str(counts[word])) for word in words])


def notification_view(settings: NotificationSettings) -> RenderableType:
    rows: list[tuple[str, RenderableType]] = [
        ("configured", localized("yes" if settings["configured"] else "no"))
    ]
    if settings["configured"]:
        rows += [("webhook", printable(settings["webhook_url_masked"])), ("source", settings["source"])]
    if settings["updated_at"]:
        rows.append(("updated_at", printable(settings["updated_at"])))
    return pairs(rows)


def templates_view(templates: Sequence[Template]) -> RenderableType:
    return list_view(templates, _TEMPLATES, only_wide={"Month", "Overlap"})


def template_view(template: Template) -> RenderableType:
    return pairs(_template(template))


def tested_template_view(tested: TemplateTested) -> RenderableType:
    problems = [] if tested["problem"] is None else [f"{tested['problem_status']} {tested['problem']}"]
    facts = {
        "action_key": tested["action_key"],
        "flow_name": tested["flow_name"],
        "tag": tested["tag"],
        "idempotency_key": tested["idempotency_key"],
    }
    return tested_view(problems, facts, tested["params"])


def actions_view(actions: Sequence[WorkflowAction]) -> RenderableType:
    return list_view(actions, _ACTIONS, only_wide={"Params"})


def action_view(action: WorkflowAction) -> RenderableType:
    return pairs(_action(action))


def _counts(counts: Any) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def _queue_text(count: int, due: int, counts: str) -> str:
    text = "{count} job, {due} due ({counts})" if count == 1 else "{count} jobs, {due} due ({counts})"
    return localized(text, count=count, due=due, counts=counts)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _summary(summary: EventSummary) -> Iterator[tuple[str, RenderableType]]:
    yield "month", summary["ym"]
    yield "events", str(summary["total"])
    yield "by status", _counts(summary["by_status"])
    lists: tuple[tuple[str, str, Sequence[Any]], ...] = (
        ("by reason class", "reason_class", summary["by_reason_class"]),
        ("by reason code", "reason_code", summary["by_reason_code"]),
        ("by retry advice", "retry_advice", summary["by_retry_advice"]),
    )
    for label, name, rows in lists:
        if rows:
            yield label, printable(", ".join(f"{row['count']} {row[name]}" for row in rows))
    duplicate = summary["duplicate"]
    yield "duplicates", f"{duplicate['true']} / {summary['total']}"
    queue = summary["retry_queue"]
    yield "retry queue", _queue_text(queue["total"], queue["due"], _counts(queue["by_status"]))
    kept = summary["receipt_retention"]
    days, most = kept["ttl_days"], kept["max_receipts"]
    yield "receipts", localized("kept for {days} days, {most} at most", days=days, most=most)
    if summary["last_at"]:
        yield "last event", ago(_seconds(summary["last_at"]))


_RECENT: Final[Columns] = {
    "When": lambda event: ago(_seconds(event["at"])),
    "Status": lambda event: outcome(event["status"]),
    "Template": lambda event: printable(event["template_id"] or event["event_name"] or ""),
    "Source": lambda event: printable(event["source"] or ""),
    "Key": lambda event: printable(event["idempotency_key"] or ""),
    "Run": lambda event: event["run_id"] or "",
    "Reason": lambda event: printable(_reason(event)),
}
_JOBS: Final[Columns] = {
    "Template": lambda job: printable(job["template_id"]),
    "Status": lambda job: outcome(job["status"]),
    "Key": lambda job: printable(job["idempotency_key"]),
    "Attempts": lambda job: f"{job['attempts']}/{job['max_attempts']}",
    "Next": lambda job: time_until(_seconds(job["next_retry_at"])) if job["next_retry_at"] else "",
    "Run": lambda job: job["last_run_id"] or "",
    "Error": lambda job: Text(printable(job["last_error"] or ""), style="red"),
}


def _month(template: Template) -> str:
    year, month = template["year"], template["month"]
    return "-".join(text for text in (str(year) if year else "", f"{month:02d}" if month else "") if text)


_TEMPLATES: Final[Columns] = {
    "Template": lambda template: printable(template["id"]),
    "Name": lambda template: printable(template["name"]),
    "Starts by": lambda template: printable(template["steps"][0]["trigger_kind"]),
    "Action": lambda template: printable(template["steps"][0]["action"]),
    "Month": _month,
    "Overlap": lambda template: printable(template["overlap"]),
    "Changed": lambda template: ago(_seconds(template["updated_at"])),
}
_ACTIONS: Final[Columns] = {
    "Action": lambda action: printable(action["key"]),
    "Flow": lambda action: printable(action["flow_name"]),
    "Tag": lambda action: printable(action["tag"]),
    "Stored": lambda action: localized("no; a worker has the flow" if action["implied"] else "yes"),
    "Params": lambda action: json_line(action["params"]) if action["params"] else "",
}


def _reason(event: RecentEvent) -> str:
    times = localized(" ({count} times)", count=event["count"]) if event["count"] > 1 else ""
    return f"{event['reason'] or event['reason_class'] or ''}{times}"


def _template(template: Template) -> Iterator[tuple[str, RenderableType]]:
    yield "id", printable(template["id"])
    yield "name", printable(template["name"])
    if month := _month(template):
        yield "month", month
    for name in ("mfcloud_url", "notes"):
        if template[name]:
            yield name, printable(template[name])
    yield "overlap", printable(template["overlap"])
    for step in template["steps"]:
        title = f" ({step['title']})" if step["title"] else ""
        yield "step", printable(f"{step['action']}{title}: {step['trigger_kind']}, {step['execution_mode']}")
    yield "updated_at", printable(template["updated_at"])


def _action(action: WorkflowAction) -> Iterator[tuple[str, RenderableType]]:
    yield "key", printable(action["key"])
    yield "flow_name", printable(action["flow_name"])
    yield "stored", localized("no; a worker has the flow" if action["implied"] else "yes")
    yield "tag", printable(action["tag"])
    shown = {
        "labels": ", ".join(action["tags"]),
        "params": action["params"] and json_line(action["params"]),
        "workflow_yaml": action["workflow_yaml"] and line_count(action["workflow_yaml"]),
        "timeout_sec": action["timeout_sec"],
    }
    for name, value in shown.items():
        if value:
            yield name, printable(str(value))
