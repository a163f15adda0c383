"""The flows of the benchmarks. Our worker loads the folder; the public package's is given `resolve_flow`."""

import functools
import operator
import time
from typing import Any

import work
from pyoco import Flow, task
from pyoco.core.models import Task

CHAIN_TASKS = 40
CHAIN_TASK_SEC = 0.01
RESUME_TASKS = 100
RESUME_TASK_SEC = 0.02


@task
def nothing(number: int) -> None: ...


@task
def stamp(sent_at: float, stamps: str) -> None:
    work.note_start(sent_at, stamps)


@task
def until_cancelled(ctx: Any, sent_at: float, stamps: str) -> None:
    """A task that checks for a cancel every 5 ms."""
    work.note_start(sent_at, stamps)
    while not ctx.is_cancelled:
        time.sleep(0.005)


@task
def ask(ctx: Any, stamps: str) -> None:
    """Waits for an answer that says when it was sent."""
    answer = ctx.human("When did you send this?", schema={"type": "number"})
    work.note_start(answer, stamps)


def _in_a_row(name: str, tasks: list[Task]) -> Flow:
    return functools.reduce(operator.rshift, tasks, Flow(name=name))


def _resting(name: str, seconds: float) -> Task:
    return Task(func=lambda: work.rest(seconds), name=name)


def _noted(number: int) -> Task:
    """A task that records each execution, so that a second one is seen."""

    def noted(stamps: str) -> None:
        work.note_start(number, stamps)
        work.rest(RESUME_TASK_SEC)

    return Task(func=noted, name=f"step_{number}")


noop = Flow(name="noop") >> nothing
stamped = Flow(name="stamped") >> stamp
cancellable = Flow(name="cancellable") >> until_cancelled
asking = Flow(name="asking") >> ask
chain = _in_a_row("chain", [_resting(f"rest_{n}", CHAIN_TASK_SEC) for n in range(CHAIN_TASKS)])
resumed = _in_a_row("resumed", [_noted(n) for n in range(RESUME_TASKS)])

_FLOWS = {flow.name: flow for flow in (noop, stamped, cancellable, chain, resumed)}


def resolve_flow(flow_name: str) -> Flow:
    if flow_name == "large":
        from large_flows import large  # noqa: PLC0415 - only where it is measured

        return large
    return _FLOWS[flow_name]
