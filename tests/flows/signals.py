"""Flows that wait for signals and events."""

from typing import Any

from pyoco import Flow, task


@task
def one_signal(ctx: Any, timeout_sec: float | None = None) -> Any:
    return ctx.wait_for_signal("go", timeout_sec=timeout_sec)


one_signal_flow = Flow("one_signal") >> one_signal


@task
def three_signals(ctx: Any) -> Any:
    return [ctx.wait_for_signal("go") for _ in range(3)]


three_signals_flow = Flow("three_signals") >> three_signals


@task
def left(ctx: Any) -> Any:
    return ctx.wait_for_signal("go")


@task
def right(ctx: Any) -> Any:
    return ctx.wait_for_signal("go")


@task
def both(left: Any, right: Any) -> Any:
    return sorted([left, right])


parallel_signals_flow = Flow("parallel_signals") >> (left & right) >> both


@task
def signal_or_default(ctx: Any) -> Any:
    return ctx.wait_for_signal("go", timeout_sec=0.3, default="nothing came")


signal_default_flow = Flow("signal_default") >> signal_or_default


@task
def one_event(ctx: Any, order_id: int) -> Any:
    return ctx.wait_for_event("order.paid", match={"/order/id": order_id})


one_event_flow = Flow("one_event") >> one_event


@task
def two_events(ctx: Any) -> Any:
    return [ctx.wait_for_event("tick")["n"] for _ in range(2)]


two_events_flow = Flow("two_events") >> two_events
