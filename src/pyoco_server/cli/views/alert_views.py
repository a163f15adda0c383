"""Views of alerts and their history."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from pyoco_server.cli.options.time_formats import ago, duration, local_time
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, printable
from pyoco_server.cli.views.list_views import Columns, list_view
from pyoco_server.http_client.response_types import (
    Alert,
    AlertChannel,
    AlertMessage,
    AlertOccurrence,
    AlertTested,
    TestedChannel,
)

_MESSAGE_STYLES: Final = {"delivered": "green", "failed": "red", "pending": "yellow"}


def alerts_view(alerts: Sequence[Alert]) -> RenderableType:
    return list_view(alerts, _ALERTS, only_wide={"Note"})


def saved_view(alerts: Sequence[Alert]) -> RenderableType:
    return list_view(alerts, _SAVED, only_wide={"Revision"})


def alert_view(alert: Alert) -> RenderableType:
    return pairs(_details(alert))


def history_view(history: Sequence[AlertOccurrence]) -> RenderableType:
    return list_view(history, _HISTORY, only_wide={"No."})


def tested_channels_view(tested: AlertTested) -> RenderableType:
    return list_view(tested["channels"], _TESTED, only_wide=set())


def _state(alert: Alert) -> Text:
    shown = (
        Text(localized("firing"), style="bold red")
        if alert["firing"]
        else Text(localized("ok"), style="green")
    )
    if alert["mute"] is not None:
        shown.append(f" {localized('muted')}", style="yellow")
    return shown


def _watched(alert: Alert) -> str:
    rule = alert["rule"]
    return printable(rule["flow_name"] or localized("tag {tag}", tag=rule["tag"]))


def _channel(channel: AlertChannel) -> str:
    if channel["kind"] == "mail":
        where = ", ".join(channel["to"])
    else:
        where = localized(
            "{host} (fingerprint {fingerprint})", host=channel["host"], fingerprint=channel["fingerprint"]
        )
    signed = localized(", signed") if channel["signed"] else ""
    return printable(f"{channel['name']}: {channel['kind']}, {where}{signed}")


def _messages(messages: Sequence[AlertMessage]) -> Text:
    shown = Text()
    for number, message in enumerate(messages):
        shown.append("\n" if number else "")
        shown.append(f"{printable(message['channel'])}: ")
        shown.append(printable(message["state"]), style=_MESSAGE_STYLES.get(message["state"], "dim"))
        if message["error"]:
            tries, why = message["attempts"], printable(message["error"])
            shown.append(localized(" ({count} attempts: {why})", count=tries, why=why))
    return shown


def _tested(channel: TestedChannel) -> Text:
    if channel["ok"]:
        return Text(localized("delivered"), style="green")
    return Text(printable(channel["error"]), style="red")


_SAVED: Final[Columns] = {
    "Alert": lambda alert: printable(alert["alert_id"]),
    "Condition": lambda alert: printable(alert["rule"]["condition"]),
    "Watches": _watched,
    "Channels": lambda alert: printable(", ".join(each["name"] for each in alert["channels"])),
    "Revision": lambda alert: str(alert["revision"]),
}
_ALERTS: Final[Columns] = {
    "Alert": lambda alert: printable(alert["alert_id"]),
    "State": _state,
    "Condition": lambda alert: printable(alert["rule"]["condition"]),
    "Watches": _watched,
    "Channels": lambda alert: printable(", ".join(each["name"] for each in alert["channels"])),
    "Last fired": lambda alert: "" if alert["last"] is None else ago(alert["last"]["fired_at"]),
    "Note": lambda alert: printable(alert["note"]),
}
_HISTORY: Final[Columns] = {
    "No.": lambda item: str(item["number"]),
    "Fired": lambda item: local_time(item["fired_at"]),
    "Resolved": lambda item: "" if item["resolved_at"] is None else local_time(item["resolved_at"]),
    "What": lambda item: printable(item["text"]),
    "Messages": lambda item: _messages([*item["fired"], *item["resolved"]]),
}
_TESTED: Final[Columns] = {
    "Channel": lambda channel: printable(channel["channel"]),
    "Result": _tested,
}


def _details(alert: Alert) -> Iterator[tuple[str, RenderableType]]:
    yield "alert_id", printable(alert["alert_id"])
    yield "state", _state(alert)
    yield from _rule(alert)
    for channel in alert["channels"]:
        yield "channel", _channel(channel)
    yield "send_resolved", localized("yes" if alert["send_resolved"] else "no")
    yield "language", printable(alert["language"])
    if alert["note"]:
        yield "note", printable(alert["note"])
    if (mute := alert["mute"]) is not None:
        yield (
            "muted until",
            localized("it is unmuted") if mute["until"] is None else local_time(mute["until"]),
        )
        if mute["note"]:
            yield "mute note", printable(mute["note"])
    if (last := alert["last"]) is not None:
        yield from _last(last)
    yield "revision", str(alert["revision"])


def _rule(alert: Alert) -> Iterator[tuple[str, RenderableType]]:
    rule = alert["rule"]
    yield "condition", printable(rule["condition"])
    shown = {
        "flow_name": rule["flow_name"],
        "tag": rule["tag"],
        "count": rule["count"],
        "percent": rule["percent"],
        "min_runs": rule["min_runs"],
        "window": duration(rule["window_sec"]),
        "after": duration(rule["after_sec"]),
        "cool_down": duration(alert["cool_down_sec"]),
    }
    for name, value in shown.items():
        if value:
            yield name, printable(str(value))


def _last(last: AlertOccurrence) -> Iterator[tuple[str, RenderableType]]:
    yield "last fired", f"{local_time(last['fired_at'])}: {printable(last['text'])}"
    if last["resolved_at"] is not None:
        yield "last resolved", local_time(last["resolved_at"])
    yield "last messages", _messages([*last["fired"], *last["resolved"]])
