"""Flows that wait for people."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from pyoco import Flow, task
from pyoco.core.models import Task

from pyoco_server import HumanTimeout


def _note(path: str, what: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{what}\n")


def _until_there(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)


@task
def prepare(notes: str) -> int:
    _note(notes, "prepare")
    return 41


@task
def approve(ctx: Any, notes: str, timeout_ms: float | None = None) -> Any:
    ctx.step("tell", lambda: _note(notes, "tell"))
    return ctx.human("Is the amount right?", schema={"type": "object"}, timeout_ms=timeout_ms)


@task
def pay(approve: Any, prepare: int, notes: str) -> Any:
    _note(notes, "pay")
    return {"paid": prepare + 1, "answer": approve}


approval_flow = Flow("approval") >> prepare >> approve >> pay


@task
def just_ask(ctx: Any) -> Any:
    return ctx.human("Yes or no?")


ask_flow = Flow("ask") >> just_ask


@task
def ask_or_default(ctx: Any) -> Any:
    return ctx.human("Yes or no?", timeout_ms=300, default="nobody was there")


default_flow = Flow("ask_or_default") >> ask_or_default


def _ask_until_released(ctx: Any, released: str) -> Any:
    try:
        return ctx.human("Yes or no?")
    finally:
        _until_there(released)


blocking_flow = Flow("blocking") >> task(_ask_until_released)


def _branch(name: str) -> Task:
    def ask(ctx: Any) -> Any:
        return ctx.human(f"{name}?", name=name)

    return Task(func=ask, name=name)


def _two_branches() -> Flow:
    flow = Flow("two_questions")
    for name in ("left", "right"):
        ask = _branch(name)
        after = Task(
            func=lambda notes, name=name: _note(notes, name), name=f"after_{name}", dependencies={ask}
        )
        ask.dependents.add(after)
        flow.add_task(ask)
        flow.add_task(after)
    return flow


two_questions_flow = _two_branches()


def _any_join() -> Flow:
    flow = Flow("first_wins")
    ask, quick = _branch("slow"), Task(func=lambda: "quick", name="quick")
    join = Task(func=lambda: "joined", name="join", dependencies={ask, quick}, trigger_policy="ANY")
    for before in (ask, quick):
        before.dependents.add(join)
    for each in (ask, quick, join):
        flow.add_task(each)
    return flow


any_join_flow = _any_join()


def _work(released: str) -> None:
    _until_there(released)


def _beside_work() -> Flow:
    flow = Flow("beside_work")
    for each in (_branch("question"), Task(func=_work, name="work")):
        flow.add_task(each)
    return flow


beside_work_flow = _beside_work()


@task
def prepared(notes: str, released: str) -> None:
    _note(notes, "prepared")
    _until_there(released)


@task
def ask_late(ctx: Any) -> Any:
    return ctx.human("Yes or no?")


late_question_flow = Flow("late_question") >> prepared >> ask_late


@task
async def approve_both(ctx: Any, notes: str) -> list[Any]:
    async def fetched(name: str) -> str:
        await asyncio.sleep(0.01)
        await asyncio.to_thread(_note, notes, name)
        return name

    names = await asyncio.gather(
        ctx.step("left", lambda: fetched("left")), ctx.step("right", lambda: fetched("right"))
    )
    if not await ctx.human("Go on?", name="start"):
        return []
    return await asyncio.gather(*(ctx.human(f"{name}?", name=name) for name in names))


async_flow = Flow("async_approval") >> approve_both


@task
def ask_as_written(ctx: Any, text: str) -> Any:
    return ctx.human(Path(text).read_text())


changing_flow = Flow("changing_question") >> ask_as_written


@task
def take_timeout(ctx: Any) -> str:
    try:
        return str(ctx.human("Yes or no?", timeout_ms=300, on_timeout="raise"))
    except HumanTimeout:
        return "nobody was there"


timeout_flow = Flow("take_timeout") >> take_timeout
