"""The table of the audit log."""

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from pyoco_server.cli.options.time_formats import ago
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import printable
from pyoco_server.cli.views.list_views import Columns, list_view
from pyoco_server.http_client.response_types import AuditEntry

_OUTCOME_STYLES: Final = {"accepted": "green", "refused": "yellow", "failed": "red"}


def audit_view(entries: Sequence[AuditEntry]) -> RenderableType:
    return list_view(entries, _COLUMNS, only_wide={"Details", "Via"})


def actor_name(entry: AuditEntry) -> str:
    """The name of the key, or its id; without a key, the address."""
    actor = entry["actor"]
    address = actor["ip"] or localized("unknown address")
    who = actor["name"] or actor["api_key_id"] or f"anonymous ({address})"
    behalf = actor["on_behalf_of"]
    return localized("{who} for {behalf}", who=who, behalf=behalf) if behalf else who


def _target(entry: AuditEntry) -> str:
    target = entry["target"]
    named = " ".join(each for each in (target["name"], target["id"]) if each)
    return f"{target['kind']} {named}".strip()


def _outcome(entry: AuditEntry) -> Text:
    status = "" if entry["outcome"] == "accepted" else f" {entry['status']}"
    return Text(f"{entry['outcome']}{status}", style=_OUTCOME_STYLES.get(entry["outcome"], ""))


def _details(entry: AuditEntry) -> str:
    pairs = entry["details"].items()
    return ", ".join(f"{name}={_value(value)}" for name, value in pairs)


def _value(value: object) -> str:
    if isinstance(value, list):
        return "/".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


_COLUMNS: Final[Columns] = {
    "When": lambda entry: ago(entry["at"]),
    "Who": lambda entry: printable(actor_name(entry)),
    "Action": lambda entry: printable(entry["action"]),
    "Target": lambda entry: printable(_target(entry)),
    "Outcome": _outcome,
    "Via": lambda entry: printable(entry["via"]),
    "Details": lambda entry: printable(_details(entry)),
}
