"""A task is executed as by pyoco's engine, and the memory of an ended run is freed."""

import gc
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from pyoco import Flow
from pyoco.core.engine import Engine
from pyoco.core.models import RunContext, Task

from pyoco_server.worker.engine.pyoco_adapter import _NoTrace
from pyoco_server.worker.engine.tasks.task_records import encoded_record
from tests.support.running.flow_runs import FlowUnderTest

PARAMS = {"number": 7, "text": "of the params", "kwargs": "a name like any other"}


def by_position(number: int, text: str) -> list[Any]:
    return [number, text]


def by_name(*, number: int, text: str = "by default", other: str = "by default") -> list[Any]:
    return [number, text, other]


def of_an_earlier_task(first: Any, number: int) -> list[Any]:
    return [first, number]


def anything(**kwargs: Any) -> list[str]:
    return sorted(kwargs)


def with_context(ctx: Any, number: int) -> list[Any]:
    return [ctx.params["number"], number, ctx.results.get("first"), ctx.is_cancelled]


def with_any_context(ctx: Any = None, **more: Any) -> list[Any]:
    return [ctx.params["text"], sorted(more)]


def without_a_value(missing: int) -> int:
    return missing


def that_fails(number: int) -> None:
    raise ValueError(f"no {number}")


def that_takes_no_names(number: int, /) -> int:
    return number


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"number": 8},
        {"text": "$ctx.params.text", "number": "$node.first.output"},
        {"text": "$node.first.output", "unknown": 1},
        {"number": "$ctx.params.missing"},
        {"number": "$nothing"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "function",
    [
        by_position,
        by_name,
        of_an_earlier_task,
        anything,
        with_context,
        with_any_context,
        without_a_value,
        that_fails,
        that_takes_no_names,
    ],
)
@pytest.mark.parametrize("outputs", [[], ["scratch.kept.here"]], ids=["", "saved"])
def test_a_task_is_executed_as_by_the_engine(
    function: Callable[..., Any], inputs: dict[str, Any], outputs: list[str]
) -> None:
    expected = by_the_engine(flow_of(function, inputs, outputs))
    assert by_us(flow_of(function, inputs, outputs)) == expected


def test_an_input_does_not_take_the_place_of_the_context() -> None:
    taken = {"ctx": "taken"}
    assert by_us(flow_of(with_context, taken, [])) == by_the_engine(flow_of(with_context, taken, []))


def flow_of(function: Callable[..., Any], inputs: dict[str, Any], outputs: list[str]) -> Flow:
    flow = Flow("two")
    flow >> Task(func=lambda: "of the first", name="first")
    flow >> Task(func=function, name="second", inputs=dict(inputs), outputs=list(outputs))
    flow >> Task(func=lambda ctx: ctx.scratch, name="third")
    return flow


def by_the_engine(flow: Flow) -> dict[str, Any]:
    run = RunContext()
    try:
        Engine(trace_backend=_NoTrace()).run(flow, dict(PARAMS), run)
    except Exception as error:
        return _essence(_records(run), f"{type(error).__name__}: {error}")
    return _essence(_records(run), None)


def by_us(flow: Flow) -> dict[str, Any]:
    outcome = FlowUnderTest(flow).execute(PARAMS)
    error = outcome.error and outcome.error.removeprefix("task second: ")
    return _essence(outcome.task_records, error)


def _records(run: RunContext) -> dict[str, bytes]:
    return {
        name: encoded_record(record, state=record.state.value, printed={})[0]
        for name, record in run.task_records.items()
    }


def _essence(records: Mapping[str, bytes], error: str | None) -> dict[str, Any]:
    decoded = {name: msgspec.json.decode(record) for name, record in records.items()}
    for record in decoded.values():
        assert (record["started_at"] is None) == (record["state"] == "PENDING")
        assert (record["traceback"] is None) == (record["error"] is None)
        if record["ended_at"] is not None:
            assert record["duration_ms"] == (record["ended_at"] - record["started_at"]) * 1000
    kept = ("state", "inputs", "output", "error")
    return {"error": error} | {name: {key: record[key] for key in kept} for name, record in decoded.items()}


def test_an_ended_run_is_freed_without_a_collection() -> None:
    flow = Flow("one") >> Task(func=with_any_context, name="only")
    under_test = FlowUnderTest(flow)
    under_test.execute(PARAMS)
    gc.disable()
    try:
        run = under_test.prepare(PARAMS)
        run.execute()
        gone = weakref.ref(run)
        del run
        assert gone() is None
    finally:
        gc.enable()
