"""Flows of 1,000 tasks, in a folder of their own: executors load every flow, and these take 3 MB in each."""

import functools
import operator

import work
from pyoco import Flow
from pyoco.core.models import Task

TASKS = 1000


def _resting(number: int) -> Task:
    return Task(func=lambda: work.rest(0), name=f"rest_{number}")


def _busy(number: int) -> Task:
    """A task that prints a line, and takes as long as its param says."""

    def busy(task_sec: float) -> None:
        print(f"step {number} of {TASKS}")
        work.rest(task_sec)

    return Task(func=busy, name=f"step_{number}")


large = functools.reduce(operator.rshift, map(_resting, range(TASKS)), Flow(name="large"))
busy = functools.reduce(operator.rshift, map(_busy, range(TASKS)), Flow(name="busy"))
