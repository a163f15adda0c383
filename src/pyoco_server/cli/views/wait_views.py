"""Views of waits: a table, one wait with its history, and a question before it is answered."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pyoco_server.cli.options.time_formats import ago, local_time, time_left
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, printable
from pyoco_server.cli.views.list_views import Columns, list_view
from pyoco_server.cli.views.run_views import deadline_text, state
from pyoco_server.http_client.response_types import Actor, Wait, WaitItem

_WAITS: Final[Columns] = {
    "Run": lambda wait: wait["run_id"],
    "State": lambda wait: state(wait["state"]),
    "Flow": lambda wait: printable(wait["flow_name"]),
    "Task": lambda wait: printable(wait["task"]),
    "Assignees": lambda wait: printable(", ".join(wait["assignees"])),
    "Deadline": lambda wait: (
        _time_left(wait["deadline_at"]) if wait["state"] == "open" else ago(wait["decided_at"])
    ),
    "Answer": lambda wait: printable(_answer(wait)),
    "Question": lambda wait: printable(" ".join(wait["message"].split())),
}
_ANSWER_CHARS: Final = 40


def _answer(wait: WaitItem) -> str:
    """How it was decided, by whom, and the beginning of the answer."""
    if wait["state"] == "open":
        return ""
    # A gateway of an earlier version lists no answers.
    parts = (wait["decision"], _actor_name(wait["decided_by"]), wait.get("answer"))
    text = " ".join(" ".join(part for part in parts if part).split())
    return text if len(text) <= _ANSWER_CHARS else f"{text[: _ANSWER_CHARS - 1]}…"


def _time_left(deadline_at: float | None) -> str:
    return "" if deadline_at is None else time_left(deadline_at)


def waits_view(waits: Sequence[WaitItem]) -> RenderableType:
    are_open = all(wait["state"] == "open" for wait in waits)
    columns = {name: cell for name, cell in _WAITS.items() if name != "Answer" or not are_open}
    return list_view(waits, columns, only_wide={"State", "Flow", "Assignees"})


def question_view(wait: Wait) -> RenderableType:
    """A wait before it is answered."""
    place = f"{wait['flow_name']} / {wait['task']}, run {wait['run_id']}"
    counted = {"given": wait["approvals"], "required": wait["required"]}
    parts: list[RenderableType] = [
        Text(printable(wait["message"]), style="bold"),
        Text(printable(f"{place}, {deadline_text(wait['deadline_at'])}"), style="dim"),
    ]
    if wait["required"] > 1:
        parts.append(Text(localized("{given} of {required} approvals", **counted), style="dim"))
    if wait["proposal_digest"] is not None:
        parts += [Text(localized("Proposed:")), _json(wait.get("proposal"))]
    return Group(*parts)


def wait_view(wait: Wait) -> RenderableType:
    return pairs(_details(wait))


def decided_text(wait: Wait | WaitItem) -> str:
    """The outcome of a wait as a clause."""
    when = wait["decided_at"]
    how = f" ({wait['decision']})" if wait["decision"] else ""
    text = localized("the wait is {state}", state=f"{wait['state']}{how}")
    text += "" if when is None else localized(" at {time}", time=local_time(when))
    return text + _by(wait["decided_by"])


def _details(wait: Wait) -> Iterator[tuple[str, RenderableType]]:
    yield "wait_id", wait["wait_id"]
    yield "flow_name", printable(wait["flow_name"])
    yield "task", printable(wait["task"])
    yield "question", printable(wait["message"])
    yield "state", state(wait["state"])
    yield "asked", local_time(wait["created_at"])
    if wait.get("asked_again"):
        yield "asked again", printable(wait["asked_again"] or "")
    if wait["deadline_at"] is not None:
        yield "deadline", local_time(wait["deadline_at"])
    if wait["assignees"]:
        yield "assignees", printable(", ".join(wait["assignees"]))
    yield from _approvals(wait)
    if wait["proposal_digest"] is not None:
        yield "proposed", _json(wait.get("proposal"))
    if wait.get("schema") is not None:
        yield "schema", _json(wait.get("schema"))
    if wait["state"] != "open":
        yield "outcome", printable(decided_text(wait))
        if "payload" in wait:
            yield "answer", _json(wait["payload"])
        if wait.get("note"):
            yield "note", printable(wait["note"] or "")
    for event in wait.get("events", []):
        why = f": {event['why']}" if event.get("why") else ""
        what = f"{local_time(event['at'])} {event['kind']}{why}{_by(event.get('actor'))}"
        yield "history", printable(what)


def _approvals(wait: Wait) -> Iterator[tuple[str, RenderableType]]:
    if wait["required"] > 1:
        given, required = wait["approvals"], wait["required"]
        yield "approvals", localized("{given} of {required}", given=given, required=required)
        for vote in wait["votes"]:
            how = vote.get("decision") or json.dumps(vote.get("payload"))
            note = f": {vote['note']}" if vote.get("note") else ""
            yield "vote", printable(f"{local_time(vote['at'])} {how}{_by(vote['by'])}{note}")
    if not wait["self_approval"]:
        yield "self-approval", localized("no; the submitter of the run may not answer")


def _actor_name(actor: Actor | None) -> str:
    known = actor or {}
    who = known.get("name") or known.get("api_key_id") or known.get("ip") or ""
    behalf = known.get("on_behalf_of")
    if not behalf:
        return who
    return localized("{who} on behalf of {behalf}", who=who or localized("somebody"), behalf=behalf)


def _by(actor: Actor | None) -> str:
    who = _actor_name(actor)
    return localized(" by {who}", who=who) if who else ""


def _json(value: Any) -> RenderableType:
    return Padding(Text(printable(json.dumps(value, indent=2, ensure_ascii=False))), (0, 0, 0, 2))
