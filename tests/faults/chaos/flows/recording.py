"""Flows of the fault suite: each task and step appends to the execution log when it starts and ends."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

_LOG = os.open(os.environ["FAULTS_EXECUTION_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
# Longer than any scenario lets it wait for its cancel.
_TIME_LIMIT_SEC = 120.0
_TURN_SEC = 0.05
# Long enough to be parked.
_SLEEP_SEC = 5.0


def record(word: str, ctx: Any, key: str) -> None:
    # The worker gives each attempt a folder of its own, whose name ends with the attempt's number.
    attempt = re.findall(r"\d+", os.getcwd())[-1]
    line = f"{word} {ctx.run_context.run_id} {attempt} {os.getpid()} {key} {time.time():.6f}\n"
    # One write: appended whole, whoever else writes at the same time.
    os.write(_LOG, line.encode())


@contextmanager
def recorded(ctx: Any, key: str) -> Iterator[None]:
    record("begin", ctx, key)
    try:
        yield
    except BaseException:
        record("stop", ctx, key)
        raise
    record("end", ctx, key)


def key_of(ctx: Any, task: str) -> str:
    """The same key as in the run's journal."""
    return f"{task}|{ctx.loop.path if ctx.loop else ''}|0"


def recorded_task(name: str) -> TaskWrapper:
    def run(ctx: Any, task_sec: float = 0.0) -> str:
        with recorded(ctx, key_of(ctx, name)):
            time.sleep(task_sec)
        return name

    return TaskWrapper(Task(func=run, name=name))


def in_steps(ctx: Any, task_sec: float = 0.0) -> list[str]:
    def step(name: str) -> str:
        with recorded(ctx, f"in_steps||0|{name}|0"):
            time.sleep(task_sec)
        return name

    with recorded(ctx, "in_steps||0"):
        return [ctx.step(name, lambda name=name: step(name)) for name in ("first", "second", "third")]


def until_cancelled(ctx: Any) -> None:
    def turn(number: int) -> None:
        with recorded(ctx, f"until_cancelled||0|turn|{number}"):
            time.sleep(_TURN_SEC)

    with recorded(ctx, "until_cancelled||0"):
        for number in range(int(_TIME_LIMIT_SEC / _TURN_SEC)):
            if ctx.is_cancelled:
                raise RuntimeError("stopped because of a cancel")
            ctx.step("turn", lambda number=number: turn(number))


def ignore_cancel(ctx: Any) -> None:
    with recorded(ctx, "ignore_cancel||0"):
        time.sleep(_TIME_LIMIT_SEC)


def asleep(ctx: Any) -> None:
    """The task is called again when the time has come."""
    ctx.sleep(_SLEEP_SEC)
    with recorded(ctx, "asleep||0"):
        pass


noop = Flow("noop") >> recorded_task("only")
chain = (
    Flow("chain")
    >> recorded_task("one")
    >> recorded_task("two")
    >> recorded_task("three")
    >> recorded_task("four")
)
loop = Flow("loop") >> recorded_task("before") >> recorded_task("turn")[3] >> recorded_task("after")
steps = (
    Flow("steps")
    >> recorded_task("before")
    >> TaskWrapper(Task(func=in_steps, name="in_steps"))
    >> recorded_task("after")
)
cancellable = (
    Flow("cancellable")
    >> recorded_task("before")
    >> TaskWrapper(Task(func=until_cancelled, name="until_cancelled"))
    >> recorded_task("after")
)
uncancellable = (
    Flow("uncancellable")
    >> recorded_task("before")
    >> TaskWrapper(Task(func=ignore_cancel, name="ignore_cancel"))
)

sleeper = (
    Flow("sleeper")
    >> recorded_task("before")
    >> TaskWrapper(Task(func=asleep, name="asleep"))
    >> recorded_task("after")
)

branches = Flow("branches")
_start, _left, _right, _end = (recorded_task(name).task for name in ("start", "left", "right", "end"))
for _earlier, _later in ((_start, _left), (_start, _right), (_left, _end), (_right, _end)):
    _earlier.dependents.add(_later)
    _later.dependencies.add(_earlier)
for _each in (_start, _left, _right, _end):
    branches.add_task(_each)
