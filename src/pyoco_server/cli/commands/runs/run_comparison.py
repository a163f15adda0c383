"""The differences of two runs, as the dashboard shows them (ui/src/screens/compare/compare.ts)."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NotRequired, TypedDict

Json = Mapping[str, Any]

# Of a run, what is compared beside its params, tasks and results.
_FACTS = (
    *("status", "flow_name", "took_sec", "queue_sec", "worker_id", "attempt", "tag", "labels", "cause"),
    *("code_version", "workflow_yaml_sha256", "params_sha256", "timeout_sec", "reason", "error"),
)


class ComparedValue(TypedDict):
    """A fact, or a simple value of params, outputs or results: `order.items[2]`."""

    name: str
    # Left out of params, outputs and results where the run does not have it, which is not null.
    a: NotRequired[Any]
    b: NotRequired[Any]
    differs: bool


class ComparedTask(TypedDict):
    name: str
    # None: the run has no such task.
    a_state: str | None
    b_state: str | None
    a_took_sec: float | None
    b_took_sec: float | None


class RunComparison(TypedDict):
    a: str
    b: str
    facts: list[ComparedValue]
    params: list[ComparedValue]
    tasks: list[ComparedTask]
    result: list[ComparedValue]
    outputs: list[ComparedValue]
    # Of large params and of a large result, only the beginning is compared.
    is_cut: bool


def compared(a: Json, b: Json) -> RunComparison:
    """Two runs with their records (`include=records`)."""
    facts = _facts(a), _facts(b)
    return RunComparison(
        a=a["run_id"],
        b=b["run_id"],
        facts=[_compared(name, facts[0][name], facts[1][name]) for name in _FACTS],
        # Without any, there is no value to compare.
        params=_values(a["params"] or None, b["params"] or None),
        tasks=[_task(name, a, b) for name in {**a["tasks"], **b["tasks"]}],
        result=_values(_result(a), _result(b)),
        outputs=_values(_outputs(a) or None, _outputs(b) or None),
        is_cut=_is_cut(a) or _is_cut(b),
    )


def _facts(run: Json) -> dict[str, Any]:
    labels = [label for label in run.get("tags") or [] if label != run.get("tag")]
    own = {
        "took_sec": _between(run.get("start_time"), run.get("end_time")),
        "queue_sec": _between(run.get("submitted_at"), run.get("start_time")),
        "labels": labels or None,
    }
    return {name: own[name] if name in own else run.get(name) for name in _FACTS}


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else max(0.0, end - start)


def _compared(name: str, a: Any, b: Any) -> ComparedValue:
    return ComparedValue(name=name, a=a, b=b, differs=a != b)


def _values(a: Any, b: Any) -> list[ComparedValue]:
    """Each simple value of two JSON values, in the order of the first one."""
    left, right = dict(_leaves(a)), dict(_leaves(b))
    return [_compared_leaf(path, left, right) for path in {**left, **right}]


def _compared_leaf(path: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> ComparedValue:
    value = ComparedValue(name=path, differs=_text(left, path) != _text(right, path))
    if path in left:
        value["a"] = left[path]
    if path in right:
        value["b"] = right[path]
    return value


def _text(values: Mapping[str, Any], path: str) -> str | None:
    """As JSON: in Python 1 equals true and 1.0. None: it is missing, which is not null."""
    return json.dumps(values[path]) if path in values else None


def _member(path: str, name: str) -> str:
    """The path of a member; a name that would read as a path is quoted."""
    if not name or set(name) & set('.[]"'):
        return f"{path}[{json.dumps(name, ensure_ascii=False)}]"
    return f"{path}.{name}" if path else name


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    # Not recursive: params may be nested deeper than Python's stack.
    rest: list[tuple[str, Any]] = [("", value)]
    while rest:
        path, value = rest.pop()
        if isinstance(value, dict) and value:
            rest += reversed([(_member(path, name), part) for name, part in value.items()])
        elif isinstance(value, list) and value:
            rest += reversed([(f"{path}[{at}]", part) for at, part in enumerate(value)])
        elif value is not None or path:
            yield path, value


def _task(name: str, a: Json, b: Json) -> ComparedTask:
    return ComparedTask(
        name=name,
        a_state=a["tasks"].get(name),
        b_state=b["tasks"].get(name),
        a_took_sec=_took(a, name),
        b_took_sec=_took(b, name),
    )


def _took(run: Json, task: str) -> float | None:
    """From its first try to the end of its last one."""
    record = _records(run).get(task, {})
    calls = record.get("latest_calls") or [{}]
    started_at = calls[0].get("started_at") or record.get("started_at")
    return _between(started_at, record.get("ended_at") or run.get("end_time"))


def _is_cut(run: Json) -> bool:
    return "params_sha256" in run or bool((run.get("result") or {}).get("is_cut"))


def _result(run: Json) -> Any:
    """Of a large one, its size and its beginning."""
    result = run.get("result") or {}
    if not result.get("is_cut"):
        return result.get("value")
    return {"bytes": result.get("bytes"), "preview": result.get("preview")}


def _outputs(run: Json) -> dict[str, Any]:
    records = _records(run).items()
    return {task: record["output"] for task, record in records if record.get("output") is not None}


def _records(run: Json) -> Mapping[str, Json]:
    records: Mapping[str, Json] = run.get("task_records") or {}
    return records
