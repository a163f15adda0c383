"""The view of two compared runs: what differs, or everything."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pyoco_server.cli.commands.runs.run_comparison import ComparedTask, ComparedValue, RunComparison
from pyoco_server.cli.options.time_formats import duration
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import printable
from pyoco_server.cli.views.run_views import shortened, state

_NONE: Final = "-"
_FIRST_DIGITS: Final = 8
# Durations that differ by less are equal: such differences are chance.
_SAME_SEC: Final = 0.05
_MEASURED: Final = ("took_sec", "queue_sec")
_MAX_ROWS: Final = 100
_FACT_NAMES: Final = {
    "flow_name": "flow",
    "took_sec": "took",
    "queue_sec": "in queue",
    "worker_id": "worker",
    "code_version": "code version",
    "workflow_yaml_sha256": "flow.yaml",
    "params_sha256": "all params",
    "timeout_sec": "time limit",
}


def comparison_view(found: RunComparison, *, with_equal: bool) -> RenderableType:
    sections = {
        "Params": _values(found["params"], with_equal),
        "Tasks": [_task_cells(task) for task in found["tasks"] if with_equal or _differ(task)],
        "Result": _values(found["result"], with_equal),
        "Outputs": _values(found["outputs"], with_equal),
    }
    facts = [_fact_cells(fact) for fact in found["facts"] if _is_shown(fact, with_equal)]
    parts: list[RenderableType] = list(_table("", facts, found))
    for title, rows in sections.items():
        if rows:
            parts += [Text(), *_table(title, rows, found)]
    if not any(sections.values()) and not any(map(_is_different, found["facts"])):
        parts += [Text(), Text(localized("No differences."))]
    if found["is_cut"]:
        parts += [
            Text(),
            Text(localized("Only the beginning of large params and results is compared."), style="dim"),
        ]
    return Group(*parts)


def _is_shown(fact: ComparedValue, with_equal: bool) -> bool:
    has_value = fact["a"] is not None or fact["b"] is not None
    return has_value and (_is_different(fact) or with_equal or fact["name"] in ("status", "flow_name"))


def _is_different(fact: ComparedValue) -> bool:
    a, b = fact["a"], fact["b"]
    if fact["name"] in _MEASURED and a is not None and b is not None:
        return bool(abs(a - b) >= _SAME_SEC)
    return fact["differs"]


def _table(
    title: str, rows: Sequence[Sequence[RenderableType]], found: RunComparison
) -> Iterator[RenderableType]:
    ids = (found[side][:_FIRST_DIGITS] for side in ("a", "b"))
    table = Table(localized(title), *ids, box=None, pad_edge=False, header_style="bold")
    if title == "Tasks":
        table.add_column(localized("Difference"))
    for row in rows[:_MAX_ROWS]:
        table.add_row(*row)
    yield table
    if len(rows) > _MAX_ROWS:
        yield Text(localized("and {count} more", count=len(rows) - _MAX_ROWS), style="dim")


def _fact_cells(fact: ComparedValue) -> list[RenderableType]:
    name = fact["name"]
    cells = [_fact_text(name, fact[side]) for side in ("a", "b")]
    return [_name(localized(_FACT_NAMES.get(name, name)), _is_different(fact)), *cells]


def _fact_text(name: str, value: Any) -> Text:
    if value is None:
        return Text(_NONE)
    if name == "status":
        return state(value)
    if name.endswith("_sec"):
        return Text(duration(value))
    if name == "cause":
        return Text(printable(f"{value['kind']} {value.get('id') or ''}".rstrip()))
    if name.endswith("_sha256"):
        return Text(value[:12])
    return Text(printable(", ".join(value) if isinstance(value, list) else shortened(str(value))))


def _values(values: Sequence[ComparedValue], with_equal: bool) -> list[list[RenderableType]]:
    return [
        [
            _name(value["name"] or localized("(whole value)"), value["differs"]),
            _value(value["a"]) if "a" in value else _NONE,
            _value(value["b"]) if "b" in value else _NONE,
        ]
        for value in values
        if with_equal or value["differs"]
    ]


def _name(name: str, differs: bool) -> Text:
    return Text(printable(name), style="yellow" if differs else "")


def _value(value: Any) -> str:
    return printable(shortened(json.dumps(value, ensure_ascii=False)))


def _task_cells(task: ComparedTask) -> list[RenderableType]:
    sides = [_side(task["a_state"], task["a_took_sec"]), _side(task["b_state"], task["b_took_sec"])]
    return [_name(task["name"], task["a_state"] != task["b_state"]), *sides, _longer(task)]


def _side(word: str | None, took_sec: float | None) -> Text:
    if word is None:
        return Text(_NONE)
    return state(word).append("" if took_sec is None else f" {duration(took_sec)}", style="default")


def _differ(task: ComparedTask) -> bool:
    return task["a_state"] != task["b_state"] or abs(_difference(task) or 0.0) >= _SAME_SEC


def _difference(task: ComparedTask) -> float | None:
    a, b = task["a_took_sec"], task["b_took_sec"]
    return None if a is None or b is None else b - a


def _longer(task: ComparedTask) -> Text:
    longer = _difference(task)
    if longer is None or abs(longer) < _SAME_SEC:
        return Text()
    how = "{time} longer" if longer > 0 else "{time} shorter"
    return Text(localized(how, time=duration(abs(longer))), style="red" if longer > 0 else "green")
