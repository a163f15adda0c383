"""Flows for the fault suite: each task and step writes into the book when it begins and when it ends."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

_BOOK = os.open(os.environ["FAULTS_BOOK"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
# Longer than any scenario lets it wait for its cancel.
_PATIENCE_SEC = 120.0
_TURN_SEC = 0.05


def note(word: str, ctx: Any, key: str) -> None:
    # The worker gives each attempt a folder of its own, whose name ends with the attempt's number.
    attempt = re.findall(r"\d+", os.getcwd())[-1]
    line = f"{word} {ctx.run_context.run_id} {attempt} {os.getpid()} {key} {time.time():.6f}\n"
    # One write: appended whole, whoever else writes at the same time.
    os.write(_BOOK, line.encode())


@contextmanager
def noted(ctx: Any, key: str) -> Iterator[None]:
    note("begin", ctx, key)
    try:
        yield
    except BaseException:
        note("stop", ctx, key)
        raise
    note("end", ctx, key)


def key_of(ctx: Any, task: str) -> str:
    """The same key as in the run's journal."""
    return f"{task}|{ctx.loop.path if ctx.loop else ''}|0"


def noting(name: str) -> TaskWrapper:
    def run(ctx: Any, nap_sec: float = 0.0) -> str:
        with noted(ctx, key_of(ctx, name)):
            time.sleep(nap_sec)
        return name

    return TaskWrapper(Task(func=run, name=name))


def in_steps(ctx: Any, nap_sec: float = 0.0) -> list[str]:
    def step(name: str) -> str:
        with noted(ctx, f"in_steps||0|{name}|0"):
            time.sleep(nap_sec)
        return name

    with noted(ctx, "in_steps||0"):
        return [ctx.step(name, lambda name=name: step(name)) for name in ("first", "second", "third")]


def until_cancelled(ctx: Any) -> None:
    def turn(number: int) -> None:
        with noted(ctx, f"until_cancelled||0|turn|{number}"):
            time.sleep(_TURN_SEC)

    with noted(ctx, "until_cancelled||0"):
        for number in range(int(_PATIENCE_SEC / _TURN_SEC)):
            if ctx.is_cancelled:
                raise RuntimeError("stopped because of a cancel")
            ctx.step("turn", lambda number=number: turn(number))


def deaf(ctx: Any) -> None:
    with noted(ctx, "deaf||0"):
        time.sleep(_PATIENCE_SEC)


noop = Flow("noop") >> noting("only")
chain = Flow("chain") >> noting("one") >> noting("two") >> noting("three") >> noting("four")
loop = Flow("loop") >> noting("before") >> noting("turn")[3] >> noting("after")
steps = (
    Flow("steps") >> noting("before") >> TaskWrapper(Task(func=in_steps, name="in_steps")) >> noting("after")
)
patient = (
    Flow("patient")
    >> noting("before")
    >> TaskWrapper(Task(func=until_cancelled, name="until_cancelled"))
    >> noting("after")
)
stubborn = Flow("stubborn") >> noting("before") >> TaskWrapper(Task(func=deaf, name="deaf"))

branches = Flow("branches")
_start, _left, _right, _end = (noting(name).task for name in ("start", "left", "right", "end"))
for _earlier, _later in ((_start, _left), (_start, _right), (_left, _end), (_right, _end)):
    _earlier.dependents.add(_later)
    _later.dependencies.add(_earlier)
for _each in (_start, _left, _right, _end):
    branches.add_task(_each)
