"""Flows whose questions are many, or long."""

from typing import Any

from pyoco import Flow, task
from pyoco.core.models import Task


def _ask(ctx: Any, chars: int) -> Any:
    return ctx.human("?" * chars)


def _crowd(count: int) -> Flow:
    flow = Flow("crowd")
    for number in range(count):
        flow.add_task(Task(func=_ask, name=f"ask_{number}"))
    return flow


crowd_flow = _crowd(200)


@task
def before() -> int:
    return 1


@task
def ask_with_schema(ctx: Any, size: int) -> Any:
    return ctx.human("Is it?", schema={"type": "boolean", "description": "x" * size})


long_schema_flow = Flow("long_schema") >> before >> ask_with_schema


def _ask_soon(ctx: Any, soon_ms: float) -> Any:
    return ctx.human("Soon?", timeout_ms=soon_ms)


def _ask_later(ctx: Any) -> Any:
    return ctx.human("Later?")


def _pass_on() -> int:
    return 1


def _two_branches() -> Flow:
    flow = Flow("two_branches")
    for name, asking in (("soon", _ask_soon), ("later", _ask_later)):
        asks, follows = Task(func=asking, name=name), Task(func=_pass_on, name=f"after_{name}")
        asks.dependents.add(follows)
        follows.dependencies.add(asks)
        flow.add_task(asks)
        flow.add_task(follows)
    return flow


two_branches_flow = _two_branches()
