"""Flows that sleep, and wait for signals and events."""

import asyncio
from pathlib import Path
from typing import Any

from pyoco import Flow, task
from pyoco.core.models import Task


def _note(path: str, what: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{what}\n")


@task
def lie_down(notes: str) -> int:
    _note(notes, "prepare")
    return 41


@task
def nap(ctx: Any, notes: str, seconds: float = 3600.0) -> str:
    ctx.step("tell", lambda: _note(notes, "tell"))
    ctx.sleep(seconds)
    return "slept"


@task
def get_up(nap: str, lie_down: int, notes: str) -> dict[str, Any]:
    _note(notes, "pay")
    return {"paid": lie_down + 1, "nap": nap}


nap_flow = Flow("nap") >> lie_down >> nap >> get_up


@task
def naps_in_a_loop(ctx: Any, turns: int = 2, seconds: float = 3600.0) -> int:
    for _ in range(turns):
        ctx.sleep(seconds)
    return turns


loop_flow = Flow("naps_in_a_loop") >> naps_in_a_loop


@task
async def naps_at_once(ctx: Any) -> str:
    await asyncio.gather(ctx.sleep(3600), ctx.sleep(7200))
    return "slept"


async_flow = Flow("naps_at_once") >> naps_at_once

# A task that sleeps beside one that asks.
sleep_and_ask_flow = Flow("sleep_and_ask")
sleep_and_ask_flow.add_task(Task(func=lambda ctx: ctx.sleep(3600), name="sleeps"))
sleep_and_ask_flow.add_task(Task(func=lambda ctx: ctx.human("Yes or no?"), name="asks"))


@task
def sleeps_then_fails(ctx: Any, flag: str) -> str:
    ctx.sleep(3600)
    data = ctx.wait_for_signal("go", timeout_sec=3600, default="late")
    if not Path(flag).exists():
        raise RuntimeError("not yet")
    return str(data)


failing_flow = Flow("sleeps_then_fails") >> sleeps_then_fails


@task
def sleeps_in_place(ctx: Any, notes: str) -> None:
    _note(notes, "sleeps")
    ctx.sleep(4.9)
    _note(notes, "slept")


in_place_flow = Flow("sleeps_in_place") >> sleeps_in_place
