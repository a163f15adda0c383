"""The view of statistics: this period beside the one before, in total, per flow and per tag."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from pyoco_server.cli.options.time_formats import duration, local_time
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import printable
from pyoco_server.cli.views.list_views import Columns, list_view
from pyoco_server.http_client.response_types import RunFigures, Statistics

_NONE: Final = "-"
# A quantile is within 4.5 % of the exact one: two that differ by less than this may be equal.
_NOISE: Final = 0.1


class _Row(NamedTuple):
    name: str
    current: str
    previous: str
    change: Text


def statistics_view(found: Statistics) -> RenderableType:
    slots = found["slots"]
    parts: list[RenderableType] = [
        Text(
            localized(
                "Since {time} ({period}), beside the {period} before",
                time=local_time(found["since"]),
                period=found["period"],
            )
        ),
        Text(),
        list_view(list(_totals(found["current"], found["previous"])), _TOTALS, only_wide=set()),
        Text(),
        Text(
            localized(
                "{busy} of {slots} slots busy now, on {workers} live workers",
                busy=slots["slots_busy"],
                slots=slots["slots"],
                workers=slots["workers"],
            )
        ),
    ]
    for items, count, columns in (
        (found["flows"], found["flow_count"], {"Flow": _flow_name, **_FIGURES}),
        (found["tags"], found["tag_count"], {"Tag": _tag, **_FIGURES, "Slots": _slots}),
    ):
        if items:
            parts += [Text(), list_view(items, columns, only_wide={"Failed", "p50"})]
        if count > len(items):
            parts.append(Text(localized("and {count} more", count=count - len(items)), style="dim"))
    return Group(*parts)


def _totals(current: RunFigures, previous: RunFigures) -> Iterator[_Row]:
    yield _Row(localized("Ended runs"), str(_ended(current)), str(_ended(previous)), Text())
    now, before = current["per_hour"], previous["per_hour"]
    yield _Row(localized("Throughput"), f"{now:.3g}/h", f"{before:.3g}/h", _relative(now, before))
    yield _Row(localized("Succeeded"), _rate(current), _rate(previous), _points(current, previous))
    for label, field in (("Duration", "duration_ms"), ("Queue time", "queue_ms")):
        for share in ("p50", "p95"):
            took, took_before = current[field][share], previous[field][share]  # type: ignore[literal-required]
            yield _Row(
                f"{localized(label)} {share}", _time(took), _time(took_before), _slower(took, took_before)
            )


def _ended(figures: RunFigures) -> int:
    return figures["completed"] + figures["failed"] + figures["cancelled"]


def _rate(figures: RunFigures) -> str:
    rate = figures["success_rate"]
    return _NONE if rate is None else f"{rate:.1%}"


def _time(ms: float | None) -> str:
    return _NONE if ms is None else duration(ms / 1000)


def _points(current: RunFigures, previous: RunFigures) -> Text:
    now, before = current["success_rate"], previous["success_rate"]
    if now is None or before is None or round(now, 3) == round(before, 3):
        return Text()
    return Text(
        localized("{points} points", points=f"{100 * (now - before):+.1f}"),
        style="red" if now < before else "green",
    )


def _relative(current: float, previous: float) -> Text:
    return Text(f"{current / previous - 1:+.0%}" if previous else "")


def _slower(current: float | None, previous: float | None) -> Text:
    """The change of a duration, which is bad if it grew."""
    if not current or not previous:
        return Text()
    change = current / previous - 1
    if abs(change) < _NOISE:
        return Text(localized("about the same"), style="dim")
    return Text(f"{change:+.0%}", style="red" if change > 0 else "green")


def _flow_name(item: Any) -> str:
    return printable(item["flow_name"])


def _tag(item: Any) -> str:
    return printable(item["tag"])


def _slots(item: Any) -> str:
    return f"{item['slots']['slots_busy']}/{item['slots']['slots']}"


_TOTALS: Final[Columns] = {
    "": lambda row: row.name,
    "This period": lambda row: row.current,
    "Before": lambda row: row.previous,
    "Change": lambda row: row.change,
}
_FIGURES: Final[Columns] = {
    "Runs": lambda item: str(_ended(item["current"])),
    "Before": lambda item: str(_ended(item["previous"])),
    "Failed": lambda item: str(item["current"]["failed"]),
    "Succeeded": lambda item: _rate(item["current"]),
    "p50": lambda item: _time(item["current"]["duration_ms"]["p50"]),
    "p95": lambda item: _time(item["current"]["duration_ms"]["p95"]),
    "p95 before": lambda item: _time(item["previous"]["duration_ms"]["p95"]),
    "Change": lambda item: _slower(
        item["current"]["duration_ms"]["p95"], item["previous"]["duration_ms"]["p95"]
    ),
}
