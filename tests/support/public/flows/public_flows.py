"""Flows that the public package and ours both execute."""

import time
from pathlib import Path

from pyoco import Flow, task


@task
def add(a: int, b: int = 2) -> dict[str, int]:
    return {"sum": a + b}


@task
def fail() -> None:
    raise ValueError("broken on purpose")


@task
def block(begun: str) -> str:
    """Wait for ever; return when it is executed once more."""
    file = Path(begun)
    if file.exists() or not file.parent.exists():
        return "executed once more"
    file.touch()
    while True:
        time.sleep(60)


FLOWS = {flow.name: flow for flow in (Flow(name="adder"), Flow(name="broken"), Flow(name="blocked"))}
FLOWS["adder"] >> add
FLOWS["broken"] >> fail
FLOWS["blocked"] >> block


def resolve_flow(name: str) -> Flow:
    return FLOWS[name]
