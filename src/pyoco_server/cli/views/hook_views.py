"""Views of hooks and their deliveries."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from pyoco_server.cli.options.time_formats import ago, local_time
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, printable
from pyoco_server.cli.views.list_views import Columns, list_view
from pyoco_server.cli.views.trigger_views import json_line, line_count, outcome, tested_view
from pyoco_server.http_client.response_types import (
    Delivery,
    DeliveryItem,
    Hook,
    HookWithSecret,
    Redelivered,
    TestedDelivery,
)
from pyoco_server.records.triggers.hook_models import HookKind


def hooks_view(hooks: Sequence[Hook]) -> RenderableType:
    return list_view(hooks, _HOOKS, only_wide={"Tag", "Overlap"})


def hook_view(hook: Hook, server: str) -> RenderableType:
    return pairs(_details(hook, server))


_IGNORED: Final = {
    "only_if": "the conditions (only_if) do not match",
    "ping": "it is the ping of a new webhook at GitHub, which starts nothing",
}


def new_secret_view(hook: HookWithSecret, server: str, *, is_given: bool) -> RenderableType:
    """The hook with its new secret, which is shown this once; `is_given`: it was not made by the server."""
    if hook["secret"] is None:
        return pairs(_details(hook, server))
    secret = Text(printable(hook["secret"]), style="bold")
    note = Text(localized("The secret is shown only once: copy it now."), style="yellow")
    if hook["kind"] == HookKind.STRIPE and not is_given:
        note.append(
            "\n"
            + localized(
                "Stripe signs with a secret of its own: give it to the hook with `{command}`.",
                command=f"pyoco-client hooks rotate {printable(hook['hook_id'])} --keep 0s --secret -",
            )
        )
    return Group(pairs([("secret", secret), *_details(hook, server)]), note)


def tested_delivery_view(tested: TestedDelivery) -> RenderableType:
    problems = [": ".join(filter(None, (each["field"], each["message"]))) for each in tested["problems"]]
    if (reason := tested["reason"]) is not None:
        problems.append(localized(_IGNORED.get(reason, reason)))
    return tested_view(
        problems,
        {
            "flow_name": tested["flow_name"],
            "tag": tested["tag"],
            "idempotency_key": tested["idempotency_key"],
            "missing": ", ".join(tested["missing"]) or None,
        },
        tested["params"],
    )


def deliveries_view(deliveries: Sequence[DeliveryItem]) -> RenderableType:
    return list_view(deliveries, _DELIVERIES, only_wide={"Bytes", "Run"})


def delivery_view(delivery: Delivery) -> RenderableType:
    return pairs(_delivery(delivery))


def redelivered_view(done: Redelivered) -> RenderableType:
    rows: list[tuple[str, RenderableType]] = [("status", outcome(done["status"]))]
    if done["run_id"] is not None:
        rows.append(("run_id", done["run_id"]))
    if reason := done.get("reason"):
        rows.append(("reason", printable(reason)))
    return pairs(rows)


def _address(hook: Hook, server: str) -> str:
    return hook["subject"] or hook["url"] or f"{server}{hook['path']}"


_HOOKS: Final[Columns] = {
    "Hook": lambda hook: printable(hook["hook_id"]),
    "Kind": lambda hook: printable(hook["kind"]),
    "Flow": lambda hook: printable(hook["flow_name"]),
    "Tag": lambda hook: printable(hook["tag"]),
    "Overlap": lambda hook: printable(hook["overlap"]),
    "Changed": lambda hook: ago(hook["updated_at"]),
}
_DELIVERIES: Final[Columns] = {
    "Delivery": lambda item: str(item["delivery_id"]),
    "When": lambda item: ago(item["at"]),
    "Status": lambda item: outcome(item["status"]),
    "Response": lambda item: str(item["http_status"] or "NATS"),
    "Run": lambda item: item["run_id"] or "",
    "Bytes": lambda item: str(item["body_bytes"]),
    "Reason": lambda item: printable(_reason(item)),
}


def _reason(item: DeliveryItem) -> str:
    times = localized(" ({count} times)", count=item["count"]) if item["count"] > 1 else ""
    return f"{item['detail'] or item['reason'] or ''}{times}"


def _details(hook: Hook, server: str) -> Iterator[tuple[str, RenderableType]]:
    yield "hook_id", printable(hook["hook_id"])
    yield ("subject" if hook["subject"] else "url"), printable(_address(hook, server))
    yield "kind", printable(hook["kind"])
    yield "flow_name", printable(hook["flow_name"])
    shown = {
        "workflow_yaml": hook["workflow_yaml"] and line_count(hook["workflow_yaml"]),
        "params": hook["params"] and json_line(hook["params"]),
        "tag": hook["tag"],
        "labels": ", ".join(hook["tags"]),
        "timeout_sec": hook["timeout_sec"],
        "idempotency": hook["idempotency"],
        "note": hook["note"],
    }
    for name, value in shown.items():
        if value:
            yield name, printable(str(value))
    yield "overlap", printable(hook["overlap"])
    for name, source in (hook["map"] or {"payload": localized("the whole body")}).items():
        yield "map", printable(f"{name} = {source}")
    for source, value in hook["only_if"].items():
        yield "only_if", f"{printable(source)} = {json_line(value)}"
    for secret in hook["secrets"]:
        ends = secret["expires_at"]
        until = "" if ends is None else localized(", valid until {time}", time=local_time(ends))
        yield "secret created", f"{local_time(secret['created_at'])}{until}"
    yield "revision", str(hook["revision"])


def _delivery(delivery: Delivery) -> Iterator[tuple[str, RenderableType]]:
    yield "delivery_id", str(delivery["delivery_id"])
    yield "at", local_time(delivery["at"])
    yield "status", outcome(delivery["status"])
    for name in ("run_id", "idempotency_key", "client_ip", "redelivery_of"):
        if delivery[name]:
            yield name, printable(str(delivery[name]))
    if reason := _reason(delivery):
        yield "reason", printable(reason)
    for name, value in delivery["headers"].items():
        yield "header", printable(f"{name}: {value}")
    for name, value in delivery["query"].items():
        yield "query", printable(f"{name}={value}")
    body = delivery["body"]
    yield "body", Text(localized("(not kept)"), style="dim") if body is None else printable(body)
    for name, value in delivery["params"].items():
        yield f"params.{name}", json_line(value)
    yield "response", printable(f"{delivery['http_status'] or 'NATS'} {delivery['answer']}")
